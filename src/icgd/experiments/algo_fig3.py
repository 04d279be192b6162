"""ALGO, Figure 3: how T and dT matter, and loops longer than trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from icgd.experiments.algo_fig2 import LAPTOP as FIG2_LAPTOP
from icgd.experiments.algo_fig2 import OVERNIGHT as FIG2_OVERNIGHT
from icgd.experiments.algo_fig2 import PAPER as FIG2_PAPER
from icgd.experiments.algo_fig2 import SMOKE as FIG2_SMOKE
from icgd.experiments.algoformers import (
    DIFFERS,
    LAST_POSITIONS,
    REGRESSION,
    AlgoSize,
    end_error,
    loop_pairs,
    model_cell,
    resized,
)
from icgd.experiments.cells import Cell
from icgd.experiments.drawing import curve, panels, title
from icgd.experiments.experiment import Claim, Experiment, ResultTable, Rows, Scale
from icgd.experiments.over_seeds import combined, select, smaller, told

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
    title: ClassVar = "the loops T and the window dT of an AlgoFormer"
    differs: ClassVar = (
        *DIFFERS,
        "The text does not name all pairs (T, dT) of the figure; those of the table are ours.",
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
        made = []
        for seed in range(size.seeds):
            for loops, window in size.pairs:
                model = size.model("algoformer", loops=loops, window=window)
                key = {"loops": loops, "window": window}
                measured = sorted({*range(1, loops + 1), *(loops * m for m in LONGER)})
                made.append(
                    model_cell(size, model, {"name": REGRESSION}, seed, key, loops=measured)
                )
        return made

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Errors after T loops and after more."""
        lines = []
        for loops, window in loop_pairs(rows):
            found = select(rows, loops=loops, window=window)
            errors = [told([end_error(row, loops * m) for row in found]) for m in LONGER]
            lines.append((f"{loops}", f"{window}", *errors))
        heading = f"Mean squared error over the last {LAST_POSITIONS} positions after more loops than trained"
        return [ResultTable(heading, ("T", "dT", *(f"{m} T loops" for m in LONGER)), tuple(lines))]

    def claims(self, rows: Rows) -> list[Claim]:
        """Stability by dT at equal T, and capacity by T."""
        pairs = loop_pairs(rows)
        claims = []
        by_loops = {t: sorted(w for u, w in pairs if u == t) for t, _ in pairs}
        ladders = {t: windows for t, windows in by_loops.items() if len(windows) > 1}
        stable, found = [], []
        for t, windows in ladders.items():
            narrow, wide = (_longest(rows, t, w) for w in (windows[0], windows[-1]))
            stable.append(smaller(wide, narrow))
            found.append(
                f"T = {t}: {told(wide)} for dT = {windows[-1]}, {told(narrow)} for dT = {windows[0]}"
            )
        claims.append(
            Claim(
                "a larger window dT keeps longer loops stable",
                "with a larger dT the error is smaller after many more loops than trained",
                f"error after {LONGER[-1]} T loops: " + "; ".join(found),
                combined(stable),
            )
        )
        # Windows grow with T: no pair of all scales differs in T alone.
        first, last = min(by_loops), max(by_loops)
        short, long = (
            [end_error(r, t) for r in select(rows, loops=t, window=by_loops[t][-1])]
            for t in (first, last)
        )
        claims.append(
            Claim(
                "more loops T have a smaller error",
                "a larger T can express more, so its error is smaller (the paper adds: if training copes); "
                "with the widest window of each T",
                f"T = {last}: {told(long)}, T = {first}: {told(short)}",
                smaller(long, short),
            )
        )
        return claims

    def draw(self, rows: Rows) -> Figure:
        """Errors against loops, a curve per pair."""
        figure, ((axis,),) = panels(1, 1, width=6.4, height=3.6)
        for i, (loops, window) in enumerate(loop_pairs(rows)):
            found = select(rows, loops=loops, window=window)
            at = [int(t) for t in found[0]["error"]]
            curves = [[end_error(row, t) for t in at] for row in found]
            curve(axis, at, curves, f"T = {loops}, dT = {window}", i, marker=".")
            axis.axvline(loops, color="0.85", linewidth=0.8)
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


def _longest(rows: Rows, loops: int, window: int) -> list[float]:
    """The error after the longest loop, for each seed."""
    return [end_error(row, loops * LONGER[-1]) for row in select(rows, loops=loops, window=window)]
