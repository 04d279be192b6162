"""Claims of lsa-train: statements of the summary, and questions of ours that test them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from icgd.lab.experiments.claim import Case, Claim, gated_claim
from icgd.lab.experiments.experiment import Row, Rows
from icgd.lab.experiments.learned import Reference, shortfalls
from icgd.lab.experiments.over_seeds import (
    below,
    by_seed,
    positive,
    select,
    spread,
    spread_of_distances,
)
from icgd.papers.lsa.experiment.tables import (
    ALL_ENTRIES,
    ILL,
    LEARNED,
    NO_TARGETS,
    ONLINE,
    POLYNOMIALS,
    POOLS,
    RANDOM,
    SCALING,
    SPECTRAL,
    TWO_BLOCKS,
    cases_of,
    chain_cases,
)

STARTS = (
    (
        TWO_BLOCKS,
        "plain descent on V31 and W13 finds it too",
        "Theorem 4.1 is about gradient flow from a spectral start",
        False,
    ),
    (
        ALL_ENTRIES,
        "plain descent on all entries but W24 finds it too",
        "the same, with all entries free but W24, which is -1, a tenth of the rate (larger ones "
        "diverge) and 5 times the steps",
        True,
    ),
    (
        NO_TARGETS,
        "plain descent on all entries but W24 and a column of V finds it too",
        "the same, with W24 and a column of V fixed, in whose direction the loss is steep",
        True,
    ),
    (
        RANDOM,
        "Adam finds it from a random start",
        "Adam reaches gradient descent from a random start too (W24 is -1 and stays; gradients cut to 1)",
        True,
    ),
    (
        ILL,
        "Adam finds it from a badly conditioned start",
        "Adam reaches gradient descent from a badly conditioned spectral start too (eigenvalues from 0.001 to "
        "0.3, with common eigenvectors)",
        True,
    ),
    (
        POLYNOMIALS,
        "Adam finds it on polynomials",
        "Adam reaches gradient descent on polynomials too, given as Legendre features, with a step that is "
        "stable",
        True,
    ),
    (
        SCALING,
        "Adam finds it for other d and n",
        "Adam reaches gradient descent for fewer and more features and examples too, in as many steps",
        True,
    ),
    (
        POOLS,
        "few prompts are enough",
        "Adam reaches gradient descent on all prompts from few that are shown again and again",
        True,
    ),
    (
        ONLINE,
        "plain descent finds it from one prompt a step",
        "online SGD on V31 and W13 reaches gradient descent",
        True,
    ),
)
"""Cases (all whose names have this in them), the claim in short, the claim, whether it is our question."""
FLOOR_TOLERANCE = 0.03
TRACKS = 0.01
SHIFT_TRACKS = 0.05
RATIO = 0.25
CONVERGED = 1e-8


def lsa_claims(rows: Rows) -> list[Claim]:
    """Chains from all starts, layers without one, loops, other covariances, softmax attention."""
    main = select(rows, part="chain", case=chain_cases(rows)[0])
    return [
        _converges(rows),
        *(_finds(rows, *start) for start in STARTS),
        _one_step(rows),
        _chain_helps(rows, main),
        _loop(rows, main),
        *_covariances(rows),
        _softmax(rows),
    ]


def _converges(rows: Rows) -> Claim:
    spectral = [r for r in select(rows, part="chain") if r["case"].startswith(SPECTRAL)]
    losses = by_seed(spectral, lambda r: [r["loss"]], max)
    distance = by_seed(spectral, lambda r: [r["off"][0]], max)
    short = _short("spectral starts", spectral, _chain_over_zero)
    return gated_claim(
        "Adam on the chain finds gradient descent, in function, from spectral starts",
        f"Theorem 4.1 (here: loss below {CONVERGED:g} and the model's own chain within "
        f"{TRACKS:.0%} of descent's on every prompt, for every n and k)",
        f"loss {spread(losses)}, largest relative distance {spread(distance)}",
        [Case(below(losses, CONVERGED), short), Case(below(distance, TRACKS), short)],
    )


def _finds(rows: Rows, case: str, short: str, paper: str, ours: bool) -> Claim:
    trained = cases_of(rows, case)
    losses = by_seed(trained, lambda r: [r["loss"]], max)
    return gated_claim(
        short,
        f"{paper} (here: loss below {LEARNED:g})",
        f"loss {spread(losses)}",
        [Case(below(losses, LEARNED), _short(case.strip(), trained, _chain_over_zero))],
        ours=ours,
    )


def _one_step(rows: Rows) -> Claim:
    trained = select(rows, part="one step")
    floors = by_seed(trained, lambda r: [abs(r["mean"][0] / r["floor"] - 1)], max)
    return gated_claim(
        "without a chain one layer does one step, and no better",
        f"Theorem 3.1 (here: within {FLOOR_TOLERANCE:.0%} of the least loss of one step)",
        f"relative distance {spread(floors)}",
        [Case(below(floors, FLOOR_TOLERANCE), _short("one step", trained, _step_over_zero))],
    )


def _chain_helps(rows: Rows, main: Sequence[Row]) -> Claim:
    without = select(rows, part="one step", d=main[0]["d"], n=main[0]["n"])
    ratio = [c["mean"][0] / o["mean"][0] for c, o in zip(main, without, strict=True)]
    short = _short("chain", main, _chain_over_zero) + _short("one step", without, _step_over_zero)
    return gated_claim(
        "the chain is far better than none",
        f"errors with a chain are far below those without (here: less than {RATIO} of them)",
        f"ratio {spread(ratio)}",
        [Case(below(ratio, RATIO), short)],
    )


def _loop(rows: Rows, main: Sequence[Row]) -> Claim:
    loop = select(rows, part="loop", n=main[0]["n"], k=len(main[0]["by_step"][0]) - 1)
    looped = [a["median"][0] / b["median"][0] for a, b in zip(loop, main, strict=True)]
    d = main[0]["d"]
    short = _short("chain", main, _chain_over_zero)
    short += _short("loop", loop, lambda row: row["mean"][0] / _zero(d))
    return gated_claim(
        "a loop trained on its outcome does as well as the chain",
        "loops do about as well as chains (here: median loss at most that of the chain, for the same n "
        "and k; the loop chooses its step, the chain is taught one)",
        f"median over the chain's: {spread(looped)}; means {spread([r['mean'][0] for r in loop])} against "
        f"{spread([r['mean'][0] for r in main])}",
        [Case(below(looped, 1.0), short)],
    )


def _covariances(rows: Rows) -> list[Claim]:
    shifted = [r for r in rows if "shifts" in r]
    stable = by_seed(shifted, _off_where_stable, max)
    unstable = by_seed(shifted, _growth_where_unstable, min)
    short = _short("chain", shifted, _chain_over_zero)
    return [
        gated_claim(
            "other covariances: the layer follows gradient descent where that is stable",
            f"Theorem 4.2 (here: mean loss within {SHIFT_TRACKS:.0%} of descent's on prompts where "
            "lr lambda_max(S) < 2, for each covariance that has some)",
            f"relative distance {spread_of_distances(stable)}",
            [Case(below(stable, SHIFT_TRACKS), short)],
        ),
        gated_claim(
            "other covariances: it fails with gradient descent where that is not stable",
            "covariances with lr lambda_max(S) > 2 on all prompts break it, however well conditioned",
            f"loss over that of w = 0 where every prompt is unstable: {spread(unstable)}",
            [Case(_above(unstable, 1.0), short)],
            ours=True,
        ),
    ]


def _softmax(rows: Rows) -> Claim:
    trained = select(rows, part="softmax chain")
    ratio = [r["by_step"][0][-1] / r["by_step"][1][-1] for r in trained]
    return gated_claim(
        "softmax attention learns the chain as well",
        "a softmax layer learns the chain too (here: its error at most twice descent's)",
        f"error over descent's: {spread(ratio)}",
        [Case(below(ratio, 2.0), _short("softmax chain", trained, _chain_over_zero))],
    )


# -- the gate: layers must recover w* better than w = 0 does ---------------------------------------------------


def _short(name: str, rows: Sequence[Row], over_zero: Callable[[Row], float]) -> tuple[str, ...]:
    """Layers that end farther from w* than they began, by their worst training of a seed."""
    worst = by_seed(rows, lambda row: [over_zero(row)], max)
    reference = Reference("w = 0", [1.0] * len(worst))
    return shortfalls({f"{name}, error over that of w = 0": worst}, reference)


def _chain_over_zero(row: Row) -> float:
    """The error after the last step over that of w = 0, on the same prompts."""
    ours = row["by_step"][0]
    return float(ours[-1] / ours[0])


def _step_over_zero(row: Row) -> float:
    return float(row["mean"][0] / _zero(row["d"]))


def _zero(d: int) -> float:
    """E 1/2 |w*|^2 for w* ~ N(0, I)."""
    return d / 2


# -- covariances -----------------------------------------------------------------------------------------


def _off_where_stable(row: Row) -> list[float]:
    """How far mean losses are from descent's on prompts where that is stable, covariance by covariance."""
    pairs = [seen["stable"]["mean"] for seen in row["shifts"].values() if "stable" in seen]
    return [abs(ours / theirs - 1) for ours, theirs in pairs]


def _growth_where_unstable(row: Row) -> list[float]:
    """The mean loss over that of w = 0 under covariances that make every prompt unstable."""
    seen = [seen["diverging"] for seen in row["shifts"].values() if seen["unstable"] == 1.0]
    return [s["mean"][0] / s["start"] for s in seen]


def _above(values: list[float], bound: float) -> bool | None:
    return positive([(v - bound) / bound for v in values], 0.0)
