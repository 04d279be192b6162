"""Tables and figure of cot-d."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from icgd.lab.experiments.drawing import curve, panels, title
from icgd.lab.experiments.experiment import ResultTable, Row, Rows
from icgd.lab.experiments.over_seeds import distinct, select, spread
from icgd.papers.cot.appendix_d.compared import BEST, PLAIN
from icgd.papers.cot.appendix_d.rows import (
    NAIVE_GUESSES,
    at_other_depth,
    exploding,
    groups,
    offs,
    offs_of_all,
    offs_with_exact,
    other_depths,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("Block", "d", "N")


def operator_tables(rows: Rows) -> list[ResultTable]:
    """Losses beside naive guesses, and how far chains are off."""
    losses, chains, deeper = [], [], []
    for group in groups(rows):
        first = group[0]
        name = (first["case"], f"{first['d']}", f"{first['layers']}")
        losses.append((*name, *_losses(group)))
        chains.append((*name, *_distances(group)))
        others = other_depths(first)
        if others:
            deeper.append((*name, *(at_other_depth(group, n) for n in others)))
    tables = [
        ResultTable(
            "Losses on students that were never seen (squared Frobenius norm), and of guesses that need no "
            "operator",
            (
                *COLUMNS,
                "Forward",
                "Backward",
                "Its weights",
                "Forward: copies, means",
                "least squares",
                "Backward: copies, zeros",
                "least squares",
                "Weights: copies",
            ),
            tuple(losses),
        ),
        ResultTable(
            "Roll-outs: |W - W_true| over all layers after the last round, and how far the true "
            "weights move (root mean squares and medians over students), then the first as a part of "
            "the second, also with one of the two operators exact. The last two columns have the share "
            "of students on which SGD itself explodes (it moves them by more than their norm), and the "
            "part when they count; all other roots of means leave them out",
            (
                *COLUMNS,
                "Off",
                "Off, median",
                "Moved",
                "Moved, median",
                "Part",
                "Forward exact",
                "Backward exact",
                "SGD explodes",
                "Part, all students",
            ),
            tuple(chains),
        ),
    ]
    if deeper:
        names = tuple("Other depth" for _ in deeper[0][3:])
        heading = (
            "Students of other depths, with the same operators: off by this part of the movement"
        )
        tables.append(ResultTable(heading, (*COLUMNS, *names), tuple(deeper)))
    return tables


def _losses(rows: Sequence[Row]) -> list[str]:
    ours = [spread([r["loss"][loss] for r in rows]) for loss in NAIVE_GUESSES]
    guesses = [name for names in NAIVE_GUESSES.values() for name in names]
    return [*ours, *(spread([r["baselines"][name] for r in rows]) for name in guesses)]


def _distances(rows: Sequence[Row]) -> list[str]:
    at = [r["chains"][str(r["layers"])] for r in rows]
    names = ("off_mean", "off_median", "moved_mean", "moved_median")
    numbers = [
        *([math.sqrt(c[name][-1]) for c in at] for name in names),
        offs(rows),
        *(offs_with_exact(rows, way) for way in ("forward", "backward")),
        exploding(rows),
        offs_of_all(rows),
    ]
    return [spread(values) for values in numbers]


def operator_figure(rows: Rows) -> Figure:
    """Figure 2, and what chains come to."""
    d = rows[0]["d"]
    depths = [r["layers"] for r in select(rows, case=PLAIN, seed=rows[0]["seed"], d=d)]
    figure, axes = panels(2, 3, width=3.4, height=2.8, sharey=False)
    for axis, layers in zip(axes[0], depths, strict=False):
        trained = select(rows, case=PLAIN, layers=layers, d=d)
        for i, way in enumerate(trained[0]["curves"]):
            for part, name in enumerate(("train", "validation")):
                curves = [[pair[part] for pair in r["curves"][way]] for r in trained]
                curve(axis, range(1, len(curves[0]) + 1), curves, f"{way}, {name}", i, 1 - part)
        axis.set_yscale("log")
        title(axis, f"plain block, N = {layers}", "epoch", "loss")
    axes[0][0].legend(fontsize=7, frameon=False)
    wide = [w for w in distinct(rows, "d") if w != d]
    shown = [(PLAIN, d), (BEST, d), *((BEST, w) for w in wide)]
    for axis, (case, width) in zip(axes[1], shown, strict=False):
        trained = select(rows, case=case, d=width, layers=rows[0]["layers"])
        at = str(rows[0]["layers"])
        for i, (key, name) in enumerate((("off", "chain"), ("moved", "leaving weights alone"))):
            curves = [[math.sqrt(v) for v in r["chains"][at][f"{key}_mean"]] for r in trained]
            curve(axis, range(1, len(curves[0]) + 1), curves, name, i, i)
        axis.set_yscale("log")
        block = case if case == PLAIN else "products, new students"
        title(axis, f"{block}, d = {width}", "round", "|W - W_true|")
        axis.legend(fontsize=7, frameon=False)
    return figure
