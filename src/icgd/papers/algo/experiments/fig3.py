"""ALGO, Figure 3: how T and dT matter, and loops longer than trained."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, ClassVar

from icgd.lab.experiments.claim import Case, gated_claim
from icgd.lab.experiments.drawing import curve, panels, title
from icgd.lab.experiments.experiment import Claim, Experiment, ResultTable, Rows, Scale
from icgd.lab.experiments.learned import best_reference, shortfalls
from icgd.lab.experiments.over_seeds import select, smaller, spread
from icgd.lab.sweeps.cells import Cell
from icgd.papers.algo.experiments.algoformers import (
    DIFFERS,
    LAST_POSITIONS,
    REGRESSION,
    AlgoSize,
    end_error,
    loop_pairs,
    model_cell,
    naive_lines,
    naive_predictors,
    resized,
)
from icgd.papers.algo.experiments.fig2 import LAPTOP as FIG2_LAPTOP
from icgd.papers.algo.experiments.fig2 import OVERNIGHT as FIG2_OVERNIGHT
from icgd.papers.algo.experiments.fig2 import PAPER as FIG2_PAPER
from icgd.papers.algo.experiments.fig2 import SMOKE as FIG2_SMOKE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGER = (1, 2, 4, 8)
"""Multiples of T after which a model is measured."""


@dataclass(frozen=True, kw_only=True)
class LoopSize(AlgoSize):
    """Settings of Figure 3.

    pairs   (T, dT) of the models
    """

    pairs: tuple[tuple[int, int], ...]


class AlgoFig3(Experiment):
    """Errors of AlgoFormers trained with T loops and a window dT, during and after T loops."""

    name: ClassVar = "algo-fig3"
    paper: ClassVar = "ALGO"
    where: ClassVar = "Section 5.3, Figure 3"
    question: ClassVar = (
        "Do more loops T, and a wider window dT in the loss, make an AlgoFormer better and stabler?"
    )
    title: ClassVar = "the loops T and the window dT of an AlgoFormer"
    differs: ClassVar = (
        *DIFFERS,
        "The text does not name all pairs (T, dT) of the figure; those of the table are ours.",
        "With the injection the table's errors hardly change beyond T loops, whatever dT is: this run "
        "cannot show what dT does to a loop as printed.",
    )
    sizes: ClassVar = {
        "smoke": resized(LoopSize, FIG2_SMOKE, pairs=((2, 1), (3, 1), (3, 2))),
        "laptop": resized(
            LoopSize, FIG2_LAPTOP, pairs=((4, 3), (8, 1), (8, 4), (8, 7), (12, 11)), steps=800
        ),
        "overnight": resized(
            LoopSize,
            FIG2_OVERNIGHT,
            pairs=((5, 4), (10, 1), (10, 5), (10, 9), (20, 5), (20, 15)),
            steps=8000,
        ),
        "paper": resized(
            LoopSize, FIG2_PAPER, pairs=((10, 5), (10, 10), (20, 5), (20, 10), (20, 15))
        ),
    }

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per pair and seed, measured after 1 .. T loops and after multiples of T."""
        size: LoopSize = self.size(scale)
        cells = []
        for seed in range(size.seeds):
            for loops, window in size.pairs:
                model = size.model("algoformer", loops=loops, window=window)
                key = {"loops": loops, "window": window}
                measured = sorted({*range(1, loops + 1), *(loops * m for m in LONGER)})
                cells.append(
                    model_cell(size, model, {"name": REGRESSION}, seed, key, loops=measured)
                )
        cells += [
            naive_predictors(size, {"name": REGRESSION}, seed, {}) for seed in range(size.seeds)
        ]
        return cells

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Errors after T loops and after more."""
        lines = []
        for loops, window in loop_pairs(rows):
            pair = select(rows, loops=loops, window=window)
            errors = [spread([end_error(row, loops * m) for row in pair]) for m in LONGER]
            lines.append((f"{loops}", f"{window}", *errors))
        heading = f"Mean squared error over the last {LAST_POSITIONS} positions after more loops than trained"
        columns = ("T", "dT", *(f"{m} T loops" for m in LONGER))
        naive = tuple(naive_lines(rows, "error"))
        return [
            ResultTable(heading, columns, tuple(lines)),
            ResultTable(
                "The same error of naive predictors", ("Predictor", "Squared error"), naive
            ),
        ]

    def claims(self, rows: Rows) -> list[Claim]:
        """Stability by dT at equal T, and capacity by T."""
        pairs = loop_pairs(rows)
        by_loops = {t: sorted(w for u, w in pairs if u == t) for t, _ in pairs}
        ladders = {t: windows for t, windows in by_loops.items() if len(windows) > 1}
        cases, numbers = [], []
        for t, windows in ladders.items():
            first, last = windows[0], windows[-1]
            narrow, wide = (_longest(rows, t, w) for w in (first, last))
            cases.append(Case(smaller(wide, narrow), _short(rows, (t, first), (t, last))))
            numbers.append(
                f"T = {t}: {spread(wide)} for dT = {last}, {spread(narrow)} for dT = {first}"
            )
        # Windows grow with T: no pair of all scales differs in T alone.
        least, most = min(by_loops), max(by_loops)
        ends = [(t, by_loops[t][-1]) for t in (least, most)]
        short, long = (_trained(rows, *pair) for pair in ends)
        return [
            gated_claim(
                "a larger window dT keeps longer loops stable",
                "with a larger dT the error is smaller after many more loops than trained",
                f"error after {LONGER[-1]} T loops: " + "; ".join(numbers),
                cases,
            ),
            gated_claim(
                "more loops T have a smaller error",
                "a larger T can express more, so its error is smaller (the paper adds: if training copes); "
                "with the widest window of each T",
                f"T = {most}: {spread(long)}, T = {least}: {spread(short)}",
                [Case(smaller(long, short), _short(rows, *ends))],
            ),
        ]

    def draw(self, rows: Rows) -> Figure:
        """Errors against loops, a curve per pair."""
        figure, ((axis,),) = panels(1, 1, width=6.4, height=3.6)
        for i, (loops, window) in enumerate(loop_pairs(rows)):
            pair = select(rows, loops=loops, window=window)
            at = [int(t) for t in pair[0]["error"]]
            curves = [[end_error(row, t) for t in at] for row in pair]
            curve(axis, at, curves, f"T = {loops}, dT = {window}", i, marker=".")
            axis.axvline(loops, color="0.85", linewidth=0.8)
        naive = best_reference(rows, "error")
        axis.axhline(median(naive.values), color="0.4", linewidth=0.8, label=naive.name)
        axis.set_xscale("log")
        axis.set_yscale("log")
        title(
            axis,
            "AlgoFormers, grey: loops trained",
            "loops",
            "squared error at the end of a prompt",
        )
        axis.legend(fontsize=8, frameon=False)
        return figure


def _trained(rows: Rows, loops: int, window: int) -> list[float]:
    """The error after as many loops as trained, for each seed."""
    return [end_error(row, loops) for row in select(rows, loops=loops, window=window)]


def _short(rows: Rows, *pairs: tuple[int, int]) -> tuple[str, ...]:
    """Models that have not learned, after T loops, what the best naive predictor has."""
    models = {f"T = {t}, dT = {w}": _trained(rows, t, w) for t, w in pairs}
    return shortfalls(models, best_reference(rows, "error"))


def _longest(rows: Rows, loops: int, window: int) -> list[float]:
    """The error after the longest loop, for each seed."""
    return [end_error(row, loops * LONGER[-1]) for row in select(rows, loops=loops, window=window)]
