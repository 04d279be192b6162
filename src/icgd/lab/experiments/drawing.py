"""Figures of experiments: one look, medians over seeds as lines and their range as a shade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from icgd.lab.experiments.over_seeds import median_curve, range_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that can be told apart with any eyes (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", ":", "-.")


def panels(
    n_rows: int,
    n_columns: int,
    *,
    width: float = 3.4,
    height: float = 2.7,
    sharey: bool = True,
) -> tuple[Figure, list[list[Axes]]]:
    """A figure and its axes, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained", dpi=120)
    axes = figure.subplots(n_rows, n_columns, squeeze=False, sharey=sharey)
    for row in axes:
        for axis in row:
            axis.grid(alpha=0.25, linewidth=0.6)
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(labelsize=8, which="both")
    return figure, [list(row) for row in axes]


def curve(
    axis: Axes,
    x: Sequence[float],
    seeds: Sequence[Sequence[float]],
    label: str,
    colour: int = 0,
    style: int = 0,
    **more: Any,
) -> None:
    """The median over seeds and their range."""
    colour_ = COLOURS[colour % len(COLOURS)]
    axis.plot(
        x,
        median_curve(seeds),
        STYLES[style % len(STYLES)],
        color=colour_,
        label=label,
        linewidth=1.4,
        **more,
    )
    if len(seeds) > 1:
        low, high = range_curve(seeds)
        axis.fill_between(x, low, high, color=colour_, alpha=0.15, linewidth=0)


def legend_below(figure: Figure, axis: Axes, columns: int = 4) -> None:
    """One legend for all panels, of the lines of one of them."""
    lines, labels = axis.get_legend_handles_labels()
    figure.legend(
        lines, labels, loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )


def title(axis: Axes, text: str, x: str = "", y: str = "") -> None:
    """Title and labels."""
    axis.set_title(text, fontsize=9)
    axis.set_xlabel(x, fontsize=8)
    axis.set_ylabel(y, fontsize=8)
