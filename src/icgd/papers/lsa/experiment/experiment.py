"""LSA: linear attention trained to write gradient descent down, step by step, and what happens without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from icgd.lab.experiments.experiment import Claim, Experiment, ResultTable, Rows, Scale, Size
from icgd.lab.sweeps.cells import Cell
from icgd.papers.lsa.experiment.claims import lsa_claims
from icgd.papers.lsa.experiment.figure import lsa_figure
from icgd.papers.lsa.experiment.tables import (
    ALL_ENTRIES,
    ILL,
    NO_TARGETS,
    ONLINE,
    POLYNOMIALS,
    POOLS,
    RANDOM,
    SCALING,
    SPECTRAL,
    TWO_BLOCKS,
    lsa_tables,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUNS = "icgd.papers.lsa.experiment.runs"
SPECTRA: dict[str, tuple[float, float]] = {
    "1 .. 1": (1.0, 1.0),
    "0.5 .. 1.5": (0.5, 1.5),
    "0.1 .. 1.9": (0.1, 1.9),
    "0.5 .. 2.5": (0.5, 2.5),
    "0.5 .. 3.5": (0.5, 3.5),
    "5 .. 5": (5.0, 5.0),
}
"""Eigenvalues of the inputs' covariance, evenly spaced between two ends."""
RATES = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
"""Steps of gradient descent that a loop is compared with."""
FLOOR_PROMPTS, MOST_PROMPTS = 20, 40_000
"""How many times as many prompts tell a mean from its floor to a third of a per cent; and the most of them."""


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
    seeds=3,
    d=10,
    chains=((20, 10, 0.4), (50, 20, 0.5)),
    one_steps=((10, 20), (10, 50), (5, 20), (20, 40)),
    loops=((20, 5), (20, 10), (50, 10)),
    scaling=((5, 10), (5, 50), (20, 40), (20, 100)),
    pools=(64, 1024),
    steps=1500,
    random_steps=3000,
    softmax_steps=2000,
    batch=256,
    prompts=2000,
    shifted_n=200,
)
OVERNIGHT = LsaSize(
    seeds=5,
    d=10,
    chains=((20, 10, 0.4), (50, 20, 0.5), (30, 5, 0.5)),
    one_steps=((10, 20), (10, 50), (10, 100), (5, 20), (20, 40)),
    loops=((20, 5), (20, 10), (50, 10)),
    scaling=((5, 10), (5, 50), (20, 40), (20, 100), (40, 80), (40, 200)),
    pools=(64, 256, 1024, 4096),
    steps=5000,
    random_steps=10_000,
    softmax_steps=20_000,
    batch=256,
    prompts=10_000,
    shifted_n=200,
)
SMOKE = LsaSize(
    seeds=1,
    d=3,
    chains=((6, 3, 0.3),),
    one_steps=((3, 6),),
    loops=((6, 3),),
    scaling=((2, 4),),
    pools=(8,),
    steps=20,
    random_steps=20,
    softmax_steps=10,
    batch=8,
    prompts=50,
    shifted_n=20,
)


class LsaTrain(Experiment):
    """Training on the chain, on the outcome of a loop, and without a chain."""

    name: ClassVar = "lsa-train"
    paper: ClassVar = "LSA"
    where: ClassVar = "Theorems 3.1, 4.1, 4.2 and the experiments of its summary"
    question: ClassVar = "Does linear attention learn to write down gradient descent, step by step?"
    title: ClassVar = "linear attention trained to write down gradient descent"
    differs: ClassVar = (
        "Only a summary of the paper is at hand: sizes, step sizes and starts are ours, and no scale is the "
        "paper's own; `paper` is `overnight`.",
        'W24 is frozen at -1 in every start, random ones and those called "all entries" included: V and W '
        "matter only as a product, so one entry fixes their scale. Trainings with W24 free were not run.",
        "The last target of a chain is a step of gradient descent; whether the paper has the true weights "
        "there is not known, so one case has them.",
        "Means are dominated by rare prompts on which gradient descent itself diverges (lr times the largest "
        "eigenvalue above 2); tables give medians too.",
        "The same rare prompts have gradients that would undo what all others have taught: they are cut to a "
        "norm of 1 for random starts and 10 for loops. One case leaves them as they are.",
        "Polynomials have four times the examples and half the step of the others: with the whole step descent "
        "diverges on rare prompts, and trainings end near it.",
        "Layers must recover the weights better than w = 0 does to be judged.",
    )
    only_cpu: ClassVar = True
    sizes: ClassVar = {"smoke": SMOKE, "laptop": LAPTOP, "overnight": OVERNIGHT, "paper": OVERNIGHT}

    def cells(self, scale: Scale) -> list[Cell]:
        """Trainings of every kind, for every seed."""
        size: LsaSize = self.size(scale)
        cells = []
        for seed in range(size.seeds):
            common = {"seed": seed, "batch": size.batch, "prompts": size.prompts}
            cells += self._chains(size, seed, common)
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
                cells.append(Cell(key, f"{RUNS}:train_one_step", options, ("steps",)))
            for n, k in size.loops:
                key = {"part": "loop", "n": n, "k": k, "seed": seed}
                options = {
                    "d": size.d,
                    "n": n,
                    "k": k,
                    "rates": RATES,
                    "rate": 5e-2,
                    "clip": 10.0,
                    "steps": size.steps // 2,
                    **common,
                }
                cells.append(Cell(key, f"{RUNS}:train_looped", options, ("steps",)))
            cells += self._softmax(size, seed, common)
        return cells

    def _chains(self, size: LsaSize, seed: int, common: dict[str, Any]) -> list[Cell]:
        first = n, k, lr = size.chains[0]
        base: dict[str, Any] = {
            "d": size.d,
            "n": n,
            "k": k,
            "lr": lr,
            "start": "spectral",
            "optimizer": "adam",
            "rate": 1e-2,
            "steps": size.steps,
            **common,
        }
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
                {"part": case, "seed": seed},
                f"{RUNS}:train_softmax",
                {
                    "d": size.d,
                    "n": n,
                    "k": steps,
                    "lr": step,
                    **shape,
                    **common,
                    "batch": min(64, size.batch),
                },
                ("steps",),
            )
            for case, steps, step in both
        ]

    # -- what the rows say ---------------------------------------------------------------------------------

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Chains, layers without one, loops, other covariances, how trainings went."""
        return lsa_tables(rows)

    def claims(self, rows: Rows) -> list[Claim]:
        """Statements of the summary, and questions of ours that test them."""
        return lsa_claims(rows)

    def draw(self, rows: Rows) -> Figure:
        """Losses, errors, eigenvalues."""
        return lsa_figure(rows)


def _spectrum(ends: tuple[float, float], d: int) -> list[float]:
    first, last = ends
    return [first + (last - first) * i / max(1, d - 1) for i in range(d)]
