"""The figure of lsa-train."""

from __future__ import annotations

from itertools import chain as chained
from typing import TYPE_CHECKING

from icgd.lab.experiments.drawing import curve, panels, title
from icgd.lab.experiments.experiment import Row, Rows
from icgd.lab.experiments.over_seeds import select
from icgd.papers.lsa.experiment.tables import ALL_ENTRIES, ILL, RANDOM, TWO_BLOCKS, chain_cases

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DRAWN = (RANDOM, ILL, ALL_ENTRIES, TWO_BLOCKS)
ERROR = "1/2 |w - w*|^2, mean"


def lsa_figure(rows: Rows) -> Figure:
    """Losses of trainings, errors along the chain, softmax; eigenvalues on the way, other covariances."""
    figure, axes = panels(2, 4, width=3.9, height=3.2, sharey=False)
    (losses, chain, soft, attention), (*eigen, shifts) = axes
    for i, case in enumerate(
        c for c in chain_cases(rows) if c in _DRAWN or c == chain_cases(rows)[0]
    ):
        trained = select(rows, part="chain", case=case)
        at = [w[0] for w in trained[0]["watched"]]
        values = [[max(w[1], 1e-16) for w in r["watched"]] for r in trained]
        curve(losses, at, values, case, i, i // 4)
    losses.set_xscale("symlog", linthresh=100)  # plain descent takes many more steps
    title(losses, "trainings on the chain", "step", "loss")
    for i, case in enumerate(chain_cases(rows)[:2]):
        trained = select(rows, part="chain", case=case)
        k = len(trained[0]["by_step"][0])
        curve(chain, range(k), [r["by_step"][0] for r in trained], f"model, {case}", i)
        curve(chain, range(k), [r["by_step"][1] for r in trained], "descent", i, 1)
    title(chain, "the model's own chain", "steps", ERROR)
    trained = select(rows, part="softmax chain")
    for i, name in enumerate(("softmax", "descent")):
        curves = [r["by_step"][i] for r in trained]
        curve(soft, range(len(curves[0])), curves, name, i, i)
    floor = trained[0]["floor"]
    soft.axhline(floor, color="0.5", linewidth=0.8, label="least loss of one linear step")
    title(soft, "the chain of a softmax layer", "steps", ERROR)
    _draw_shifts(shifts, select(rows, part="chain", case=chain_cases(rows)[0]))
    for axis, case in zip(eigen, (chain_cases(rows)[0], ILL, TWO_BLOCKS), strict=True):
        _draw_eigenvalues(axis, select(rows, part="chain", case=case), case)
    for i, part in enumerate(("softmax chain", "softmax, no chain")):
        trained = select(rows, part=part)
        at = [w[0] for w in trained[0]["watched"]]
        curve(attention, at, [[w[1] for w in r["watched"]] for r in trained], part, i)
    title(attention, "trainings of softmax layers", "step", "loss")
    for axis in (losses, chain, soft, attention, shifts):
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
    axis.set_xlim(0, 2 * max(1, *(_settled(row) for row in rows)))
    axis.legend(fontsize=8, frameon=False)
    title(axis, f"eigenvalues, {case}", "step", "eigenvalue")


def _settled(row: Row) -> float:
    """The last step that was looked at with an eigenvalue more than a hundredth from its end."""
    end = [value for block in row["eigenvalues"][-1] for value in block]
    moving = [
        look[0]
        for look, seen in zip(row["watched"], row["eigenvalues"], strict=True)
        if max(abs(a - b) for a, b in zip(chained.from_iterable(seen), end, strict=True)) > 0.01
    ]
    return float(max(moving, default=0))


def _draw_shifts(axis: Axes, rows: Rows) -> None:
    """Losses by covariance: where descent is stable, or everywhere if it is nowhere."""
    names = list(rows[0]["shifts"])
    for i, by in enumerate(("model", "descent")):
        seeds = [
            [
                r["shifts"][name].get("stable", r["shifts"][name].get("diverging"))["mean"][i]
                for name in names
            ]
            for r in rows
        ]
        curve(axis, range(len(names)), seeds, by, i, i, marker="o" if i else "x")
    axis.set_xticks(range(len(names)), names, rotation=30, fontsize=7)
    title(axis, "other covariances", "eigenvalues", ERROR)
