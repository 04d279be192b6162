"""LSA: linear attention trained to write gradient descent down, step by step, and what happens without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from icgd.experiments.cells import Cell
from icgd.experiments.drawing import curve, panels, title
from icgd.experiments.experiment import Claim, Experiment, ResultTable, Row, Rows, Scale, Size
from icgd.experiments.lsa_tables import LEARNED, chain_cases, lsa_tables
from icgd.experiments.over_seeds import below, by_seed, combined, positive, select, told

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUNS = "icgd.experiments.lsa_runs"
SPECTRA: dict[str, tuple[float, float]] = {
    "1 .. 1": (1.0, 1.0), "0.5 .. 1.5": (0.5, 1.5), "0.1 .. 1.9": (0.1, 1.9), "0.5 .. 2.5": (0.5, 2.5),
    "0.5 .. 3.5": (0.5, 3.5), "5 .. 5": (5.0, 5.0),
}  # fmt: skip
"""Eigenvalues of the inputs' covariance, evenly spaced between two ends."""
SPECTRAL = "spectral"
RANDOM, ILL = "random start", "badly conditioned start"
TWO_BLOCKS, ALL_ENTRIES = "plain descent, two blocks", "plain descent, all entries"
STARTS = (
    (
        TWO_BLOCKS, "plain descent on V31 and W13 finds it too",
        "Theorem 4.1 is about gradient flow from a spectral start", False,
    ),
    (
        ALL_ENTRIES, "plain descent on all entries finds it too",
        "the same, with all entries free, at a step size that is stable", True,
    ),
    (RANDOM, "Adam finds it from a random start", "a random start may get stuck", True),
    (ILL, "Adam finds it from a badly conditioned start", "a badly conditioned start may get stuck", True),
)  # fmt: skip
"""Case, what is claimed of it, what the summary says, whether it is our question."""
RATES = [0.3, 0.4, 0.5, 0.6]
"""Steps of gradient descent that a loop is compared with."""
_DRAWN = (RANDOM, ILL, ALL_ENTRIES, TWO_BLOCKS)
ERROR = "1/2 |w - w*|^2, mean"
FLOOR_PROMPTS = 20
"""How many times as many prompts tell a mean from its floor to a third of a per cent."""
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
    seeds=1, d=3, chains=((6, 3, 0.3),), one_steps=((3, 6),), loops=((6, 2),), scaling=((2, 4),), pools=(8,),
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
    )
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
                }
                made.append(Cell(key, f"{RUNS}:train_one_step", options, ("steps",)))
            for n, k in size.loops:
                key = {"part": "loop", "n": n, "k": k, "seed": seed}
                options = {
                    "d": size.d, "n": n, "k": k, "rates": RATES, "rate": 1e-2,
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
        cases += [
            (RANDOM, {"start": "random", "steps": size.random_steps}),
            (
                "random start, free scale",
                {"start": "random", "steps": size.random_steps, "free_scale": True},
            ),
            (ILL, {"start": "ill-conditioned", "eigenvalues": True}),
            (ALL_ENTRIES, {"optimizer": "gd", "rate": 1e-3}),
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
            ("last target w*", {"last_is_target": True}),
            ("polynomials on [-1, 1]", {"kind": "legendre", "n": 4 * n}),
            ("polynomials of normals", {"kind": "hermite", "n": 4 * n, "lr": lr / 4}),
            ("online, one prompt a step", {"batch": 1, "rate": 2e-3, "steps": 2 * size.steps}),
        ]
        cases += [(f"{m} prompts in all", {"fixed_prompts": m}) for m in size.pools]
        cases += [(f"d = {d}, n = {n}", {"d": d, "n": n}) for d, n in size.scaling]
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
        distance = by_seed(spectral, lambda r: [abs(r["mean"][0] / r["mean"][1] - 1)], max)
        floors = by_seed(
            select(rows, part="one step"), lambda r: [abs(r["mean"][0] / r["floor"] - 1)], max
        )
        no_chain = _same_size(rows, main[0])
        ratio = [c["mean"][0] / o["mean"][0] for c, o in zip(main, no_chain, strict=True)]
        shifted = [r for r in rows if "shifts" in r]
        stable = by_seed(shifted, _off_where_stable, max)
        unstable = by_seed(shifted, _growth_where_unstable, min)
        softmax = select(rows, part="softmax chain")
        soft = [r["by_step"][0][-1] / r["by_step"][1][-1] for r in softmax]
        return [
            Claim(
                "Adam on the chain finds gradient descent, in function, from spectral starts",
                f"Theorem 4.1 (here: loss below {CONVERGED:g} and the loss of the model's own chain within "
                f"{TRACKS:.0%} of descent's, for every n and k)",
                f"loss {told(losses)}, distance {told(distance)}",
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
                for found in [[r["loss"] for r in select(rows, part="chain", case=case)]]
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
                "other covariances: the layer follows gradient descent where that is stable",
                f"Theorem 4.2 (here: mean loss within {SHIFT_TRACKS:.0%} of descent's on prompts where "
                "lr lambda_max(S) < 2, for each covariance)",
                f"relative distance {told(stable)}",
                below(stable, SHIFT_TRACKS),
            ),
            Claim(
                "and fails with it where it is not",
                "well-conditioned covariances with lr lambda_max > 2 break it (the summary says otherwise)",
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
        """Losses of trainings, eigenvalues on the way, errors along the chain, softmax."""
        figure, axes = panels(2, 3, width=4.2, height=3.2, sharey=False)
        (losses, chain, soft), (*eigen, attention) = axes
        for i, case in enumerate(
            c for c in chain_cases(rows) if c in _DRAWN or c == chain_cases(rows)[0]
        ):
            found = select(rows, part="chain", case=case)
            at = [w[0] for w in found[0]["watched"]]
            values = [[max(w[1], 1e-16) for w in r["watched"]] for r in found]
            curve(losses, at, values, case, i, i // 4)
        title(losses, "trainings on the chain", "step", "loss")
        for i, case in enumerate(chain_cases(rows)[:2]):
            found = select(rows, part="chain", case=case)
            k = len(found[0]["by_step"][0])
            curve(chain, range(k), [r["by_step"][0] for r in found], f"model, {case}", i)
            curve(chain, range(k), [r["by_step"][1] for r in found], "descent", i, 1)
        title(chain, "the model's own chain", "steps", ERROR)
        found = select(rows, part="softmax chain")
        for i, name in enumerate(("softmax", "descent")):
            curves = [r["by_step"][i] for r in found]
            curve(soft, range(len(curves[0])), curves, name, i, i)
        floor = found[0]["floor"]
        soft.axhline(floor, color="0.5", linewidth=0.8, label="least loss of one linear step")
        title(soft, "the chain of a softmax layer", "steps", ERROR)
        for axis, case in zip(eigen, (chain_cases(rows)[0], TWO_BLOCKS), strict=True):
            _draw_eigenvalues(axis, select(rows, part="chain", case=case), case)
        for i, part in enumerate(("softmax chain", "softmax, no chain")):
            found = select(rows, part=part)
            at = [w[0] for w in found[0]["watched"]]
            curve(attention, at, [[w[1] for w in r["watched"]] for r in found], part, i)
        title(attention, "trainings of softmax layers", "step", "loss")
        for axis in (losses, chain, soft, attention):
            axis.set_yscale("log")
            axis.legend(fontsize=7, frameon=False)
        return figure


def _draw_eigenvalues(axis: Axes, rows: Rows, case: str) -> None:
    """Eigenvalues in order: those of one block at a time, or all together."""
    at = [w[0] for w in rows[0]["watched"]]
    for block, (name, sign) in enumerate((("-V31", -1), ("W13", 1))):
        for j in range(len(rows[0]["eigenvalues"][0][block])):
            seeds = [[sign * seen[block][j] for seen in r["eigenvalues"]] for r in rows]
            curve(axis, at, seeds, name if j == 0 else "_", block)
    axis.legend(fontsize=8, frameon=False)
    title(axis, f"eigenvalues, {case}", "step", "eigenvalue")


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
