"""LSA: linear attention trained to write gradient descent down, step by step, and what happens without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from icgd.experiments.cells import Cell
from icgd.experiments.experiment import Claim, Experiment, ResultTable, Row, Rows, Scale, Size
from icgd.experiments.lsa_figure import lsa_figure
from icgd.experiments.lsa_tables import (
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
    lsa_tables,
)
from icgd.experiments.over_seeds import (
    below,
    by_seed,
    combined,
    positive,
    select,
    told,
    told_distance,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUNS = "icgd.experiments.lsa_runs"
SPECTRA: dict[str, tuple[float, float]] = {
    "1 .. 1": (1.0, 1.0), "0.5 .. 1.5": (0.5, 1.5), "0.1 .. 1.9": (0.1, 1.9), "0.5 .. 2.5": (0.5, 2.5),
    "0.5 .. 3.5": (0.5, 3.5), "5 .. 5": (5.0, 5.0),
}  # fmt: skip
"""Eigenvalues of the inputs' covariance, evenly spaced between two ends."""
STARTS = (
    (
        TWO_BLOCKS, "plain descent on V31 and W13 finds it too",
        "Theorem 4.1 is about gradient flow from a spectral start", False,
    ),
    (
        ALL_ENTRIES, "plain descent on all entries finds it too",
        "the same, with all entries free, a tenth of the rate (larger diverge) and 5 times the steps", True,
    ),
    (
        NO_TARGETS, "plain descent on all entries but a column of V finds it too",
        "the same, with all entries free but a column of V, in whose direction the loss is steep", True,
    ),
    (
        RANDOM, "Adam finds it from a random start",
        "Adam reaches gradient descent from a random start too, with gradients cut to 1", True,
    ),
    (
        ILL, "Adam finds it from a badly conditioned start",
        "Adam reaches gradient descent from a badly conditioned spectral start too (eigenvalues from 0.001 to "
        "0.3, with common eigenvectors)", True,
    ),
    (
        POLYNOMIALS, "Adam finds it on polynomials",
        "Adam reaches gradient descent on polynomials too, given as Legendre features, with a step that is "
        "stable", True,
    ),
    (
        SCALING, "Adam finds it for other d and n",
        "Adam reaches gradient descent for fewer and more features and examples too, in as many steps", True,
    ),
    (
        POOLS, "few prompts are enough",
        "Adam reaches gradient descent on all prompts from few that are shown again and again", True,
    ),
    (
        ONLINE, "plain descent finds it from one prompt a step",
        "online SGD on V31 and W13 reaches gradient descent", True,
    ),
)  # fmt: skip
"""Cases (all whose names have this in them), what is claimed, what is said, whether it is our question."""
RATES = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
"""Steps of gradient descent that a loop is compared with."""
FLOOR_PROMPTS, MOST_PROMPTS = 20, 40_000
"""How many times as many prompts tell a mean from its floor to a third of a per cent; and the most of them."""
FLOOR_TOLERANCE = 0.03
TRACKS = 0.01
SHIFT_TRACKS = 0.05
RATIO = 0.25
CONVERGED = 1e-8


@dataclass(frozen=True, kw_only=True)
class LsaSize(Size):
    """Settings of the trainings.

    d          features
    chains     (n, k, lr): examples, steps of the chain, step size of the descent it is trained on
    one_steps  (d, n) of layers without a chain
    loops      (n, k) of loops trained on their outcome
    scaling    (d, n) of further chains, for how training depends on them
    pools      numbers of prompts that are drawn once, instead of new ones in every step
    """

    d: int
    chains: tuple[tuple[int, int, float], ...]
    one_steps: tuple[tuple[int, int], ...]
    loops: tuple[tuple[int, int], ...]
    scaling: tuple[tuple[int, int], ...]
    pools: tuple[int, ...]
    steps: int
    random_steps: int
    softmax_steps: int
    batch: int
    prompts: int
    shifted_n: int


LAPTOP = LsaSize(
    seeds=3, d=10, chains=((20, 10, 0.4), (50, 20, 0.5)), one_steps=((10, 20), (10, 50), (5, 20), (20, 40)),
    loops=((20, 5), (20, 10), (50, 10)), scaling=((5, 10), (5, 50), (20, 40), (20, 100)), pools=(64, 1024),
    steps=1500, random_steps=3000, softmax_steps=2000, batch=256, prompts=2000, shifted_n=200,
)  # fmt: skip
OVERNIGHT = LsaSize(
    seeds=5, d=10, chains=((20, 10, 0.4), (50, 20, 0.5), (30, 5, 0.5)),
    one_steps=((10, 20), (10, 50), (10, 100), (5, 20), (20, 40)), loops=((20, 5), (20, 10), (50, 10)),
    scaling=((5, 10), (5, 50), (20, 40), (20, 100), (40, 80), (40, 200)), pools=(64, 256, 1024, 4096),
    steps=5000, random_steps=10_000, softmax_steps=20_000, batch=256, prompts=10_000, shifted_n=200,
)  # fmt: skip
SMOKE = LsaSize(
    seeds=1, d=3, chains=((6, 3, 0.3),), one_steps=((3, 6),), loops=((6, 3),), scaling=((2, 4),), pools=(8,),
    steps=20, random_steps=20, softmax_steps=10, batch=8, prompts=50, shifted_n=20,
)  # fmt: skip


class LsaTrain(Experiment):
    """Training on the chain, on the outcome of a loop, and without a chain."""

    name: ClassVar = "lsa-train"
    paper: ClassVar = "LSA"
    where: ClassVar = "Theorems 3.1, 4.1, 4.2 and the experiments of its summary"
    title: ClassVar = "linear attention trained to write down gradient descent"
    differs: ClassVar = (
        "Only a summary of the paper is at hand: sizes, step sizes and starts are ours, and no scale is the "
        "paper's own; `paper` is `overnight`.",
        "The last target of a chain is a step of gradient descent; whether the paper has the true weights "
        "there is not known, so that one case has them.",
        "Means are dominated by rare prompts on which gradient descent itself diverges (lr times the largest "
        "eigenvalue above 2); medians stand beside them.",
        "The same rare prompts have gradients that would undo what all others have taught: they are cut to a "
        "norm of 1 for random starts and 10 for loops. One case has them as they are.",
        "Polynomials have four times the examples and half the step of the others: with the whole one descent "
        "diverges on rare prompts, and trainings end near it.",
    )
    only_cpu: ClassVar = True
    sizes: ClassVar = {"smoke": SMOKE, "laptop": LAPTOP, "overnight": OVERNIGHT, "paper": OVERNIGHT}

    def cells(self, scale: Scale) -> list[Cell]:
        """Trainings of every kind, for every seed."""
        size: LsaSize = self.size(scale)
        made = []
        for seed in range(size.seeds):
            common = {"seed": seed, "batch": size.batch, "prompts": size.prompts}
            made += self._chains(size, seed, common)
            for d, n in size.one_steps:
                key = {"part": "one step", "d": d, "n": n, "seed": seed}
                options: dict[str, Any] = {
                    "d": d,
                    "n": n,
                    "rate": 2e-2,
                    "steps": size.steps,
                    **common,
                    "prompts": min(FLOOR_PROMPTS * size.prompts, MOST_PROMPTS),
                }
                made.append(Cell(key, f"{RUNS}:train_one_step", options, ("steps",)))
            for n, k in size.loops:
                key = {"part": "loop", "n": n, "k": k, "seed": seed}
                options = {
                    "d": size.d, "n": n, "k": k, "rates": RATES, "rate": 5e-2, "clip": 10.0,
                    "steps": size.steps // 2, **common,
                }  # fmt: skip
                made.append(Cell(key, f"{RUNS}:train_looped", options, ("steps",)))
            made += self._softmax(size, seed, common)
        return made

    def _chains(self, size: LsaSize, seed: int, common: dict[str, Any]) -> list[Cell]:
        first = n, k, lr = size.chains[0]
        base: dict[str, Any] = {
            "d": size.d, "n": n, "k": k, "lr": lr, "start": "spectral", "optimizer": "adam", "rate": 1e-2,
            "steps": size.steps, **common,
        }  # fmt: skip
        spectra = {name: _spectrum(ends, size.d) for name, ends in SPECTRA.items()}
        cases: list[tuple[str, dict[str, Any]]] = [
            (
                f"{SPECTRAL}, n = {n}, k = {k}",
                {
                    "n": n,
                    "k": k,
                    "lr": lr,
                    "spectra": spectra,
                    "shifted_n": size.shifted_n,
                    "eigenvalues": True,
                },
            )
            for n, k, lr in size.chains
        ]
        random = {"start": "random", "steps": size.random_steps}
        cases += [
            (RANDOM, {**random, "clip": 1.0}),
            ("random start, gradients as they are", random),
            (ILL, {"start": "ill-conditioned", "eigenvalues": True}),
            (ALL_ENTRIES, {"optimizer": "gd", "rate": 1e-3, "steps": 10 * size.steps}),
            (
                TWO_BLOCKS,
                {
                    "optimizer": "gd",
                    "rate": 1e-2,
                    "blocks_only": True,
                    "steps": 2 * size.steps,
                    "eigenvalues": True,
                },
            ),
            (
                NO_TARGETS,
                {
                    "optimizer": "gd",
                    "rate": 1e-2,
                    "without_targets": True,
                    "steps": 2 * size.steps,
                },
            ),
            ("last target w*", {"last_is_target": True}),
            (POLYNOMIALS, {"kind": "legendre", "n": 4 * n, "lr": lr / 2}),
            ("Adam, one prompt a step", {"batch": 1, "rate": 2e-3, "steps": 2 * size.steps}),
            (
                ONLINE,
                {
                    "optimizer": "gd",
                    "batch": 1,
                    "rate": 5e-3,
                    "blocks_only": True,
                    "steps": 2 * size.steps,
                },
            ),
        ]
        cases += [(f"{m}{POOLS}", {"fixed_prompts": m}) for m in size.pools]
        cases += [(f"{SCALING}{d}, n = {n}", {"d": d, "n": n}) for d, n in size.scaling]
        return [
            Cell(
                {
                    "part": "chain",
                    "case": case,
                    "d": change.get("d", size.d),
                    "n": change.get("n", first[0]),
                    "seed": seed,
                },
                f"{RUNS}:train_chain",
                {**base, **change},
                ("steps",),
            )
            for case, change in cases
        ]

    def _softmax(self, size: LsaSize, seed: int, common: dict[str, Any]) -> list[Cell]:
        n, k, lr = size.chains[0]
        shape = {"width": 64, "heads": 4, "hidden": 128, "rate": 2e-3, "steps": size.softmax_steps}
        both = (("softmax chain", k, lr), ("softmax, no chain", 1, 0.0))
        return [
            Cell(
                {"part": case, "seed": seed}, f"{RUNS}:train_softmax",
                {"d": size.d, "n": n, "k": steps, "lr": step, **shape, **common, "batch": min(64, size.batch)},
                ("steps",),
            )
            for case, steps, step in both
        ]  # fmt: skip

    # -- what the rows say ---------------------------------------------------------------------------------

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Chains, layers without one, loops, other covariances, how trainings went."""
        return lsa_tables(rows)

    def claims(self, rows: Rows) -> list[Claim]:
        """Statements of the summary, and those of our own that hold them to account."""
        spectral = [r for r in select(rows, part="chain") if r["case"].startswith(SPECTRAL)]
        main = select(rows, part="chain", case=chain_cases(rows)[0])
        losses = by_seed(spectral, lambda r: [r["loss"]], max)
        distance = by_seed(spectral, lambda r: [r["off"][0]], max)
        floors = by_seed(
            select(rows, part="one step"), lambda r: [abs(r["mean"][0] / r["floor"] - 1)], max
        )
        no_chain = _same_size(rows, main[0])
        ratio = [c["mean"][0] / o["mean"][0] for c, o in zip(main, no_chain, strict=True)]
        loop = select(rows, part="loop", n=main[0]["n"], k=len(main[0]["by_step"][0]) - 1)
        looped = [a["median"][0] / b["median"][0] for a, b in zip(loop, main, strict=True)]
        shifted = [r for r in rows if "shifts" in r]
        stable = by_seed(shifted, _off_where_stable, max)
        unstable = by_seed(shifted, _growth_where_unstable, min)
        softmax = select(rows, part="softmax chain")
        soft = [r["by_step"][0][-1] / r["by_step"][1][-1] for r in softmax]
        return [
            Claim(
                "Adam on the chain finds gradient descent, in function, from spectral starts",
                f"Theorem 4.1 (here: loss below {CONVERGED:g} and the model's own chain within "
                f"{TRACKS:.0%} of descent's on every prompt, for every n and k)",
                f"loss {told(losses)}, largest relative distance {told(distance)}",
                combined([below(losses, CONVERGED), below(distance, TRACKS)]),
            ),
            *(
                Claim(
                    short,
                    f"{paper} (here: loss below {LEARNED:g})",
                    f"loss {told(found)}",
                    below(found, LEARNED),
                    ours=ours,
                )
                for case, short, paper, ours in STARTS
                for found in [by_seed(cases_of(rows, case), lambda r: [r["loss"]], max)]
            ),
            Claim(
                "without a chain one layer does one step, and no better",
                f"Theorem 3.1 (here: within {FLOOR_TOLERANCE:.0%} of the least loss of one step)",
                f"relative distance {told(floors)}",
                below(floors, FLOOR_TOLERANCE),
            ),
            Claim(
                "the chain is far better than none",
                f"errors with a chain are far below those without (here: less than {RATIO} of them)",
                f"ratio {told(ratio)}",
                below(ratio, RATIO),
            ),
            Claim(
                "a loop trained on its outcome does as well as the chain",
                "loops do about as well as chains (here: median loss at most that of the chain, for the same n "
                "and k; the loop chooses its step, the chain is taught one)",
                f"median over the chain's: {told(looped)}; means {told([r['mean'][0] for r in loop])} against "
                f"{told([r['mean'][0] for r in main])}",
                below(looped, 1.0),
            ),
            Claim(
                "other covariances: the layer follows gradient descent where that is stable",
                f"Theorem 4.2 (here: mean loss within {SHIFT_TRACKS:.0%} of descent's on prompts where "
                "lr lambda_max(S) < 2, for each covariance that has some)",
                f"relative distance {told_distance(stable)}",
                below(stable, SHIFT_TRACKS),
            ),
            Claim(
                "other covariances: it fails with gradient descent where that is not stable",
                "covariances with lr lambda_max(S) > 2 on all prompts break it, however well conditioned",
                f"loss over that of w = 0 where every prompt is unstable: {told(unstable)}",
                _above(unstable, 1.0),
                ours=True,
            ),
            Claim(
                "softmax attention learns the chain as well",
                "a softmax layer learns the chain too (here: its error at most twice descent's)",
                f"error over descent's: {told(soft)}",
                below(soft, 2.0),
            ),
        ]

    def draw(self, rows: Rows) -> Figure:
        """Losses, errors, eigenvalues."""
        return lsa_figure(rows)


def _spectrum(ends: tuple[float, float], d: int) -> list[float]:
    first, last = ends
    return [first + (last - first) * i / max(1, d - 1) for i in range(d)]


def _same_size(rows: Rows, chain: Row) -> list[Row]:
    """The layers without a chain that saw prompts of the same size."""
    return select(rows, part="one step", d=chain["d"], n=chain["n"])


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
