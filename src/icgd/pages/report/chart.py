"""What a figure shows, apart from how it is drawn: curves, axes, one sentence beside them.

The page (Plotly) and the figures for a paper (matplotlib) are made from the same charts, so that
they cannot show different numbers.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from icgd.pages.colours import (
    AMBER,
    BLUE,
    CURVES,
    GREEN,
    GREY,
    OLIVE,
    PINK,
    SKY,
    VERMILION,
    WINE,
)

Number = float | None
"""A measured number; None stands for one that is not finite."""
Line = Literal["solid", "dash", "dot", "points"]

COLOURS = {
    "transformer": BLUE.light,
    "sgd": AMBER.light,
    "bound": VERMILION.light,
    "drift": GREY.light,
}
"""Colours that stay apart for colour-blind readers, on white and on dark grey."""
RUN_COLOURS = tuple(hue.light for hue in (BLUE, VERMILION, GREEN, PINK, AMBER, SKY, WINE, OLIVE))
"""One per run of a comparison; lines also differ in their dashes, for those who see no colours."""
ON_DARK = {hue.light: hue.dark for hue in CURVES if hue.light != hue.dark}
"""What a colour becomes on a dark page, where it would sink into the ground."""


@dataclass(frozen=True)
class Series:
    """One curve.

    line   how it is drawn; "points" has no line
    width  in points of a figure on the page
    faint  broad and pale, below another curve that is meant to cover it
    named  whether the legend names it; curves without a name of their own share `group`
    """

    name: str
    x: Sequence[Number]
    y: Sequence[Number]
    colour: str
    line: Line = "solid"
    width: float = 1.5
    faint: bool = False
    named: bool = True
    group: str = ""


@dataclass(frozen=True)
class Chart:
    """Curves over one pair of axes.

    id     name of the file, and of the place on the page
    note   one sentence below: what the axes cannot show
    top    largest value of a logarithmic axis; what lies above leaves the figure
    """

    id: str
    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    note: str = ""
    top: float | None = None


@dataclass(frozen=True)
class Bars:
    """Amounts side by side on a logarithmic axis: one bar per row and kind."""

    id: str
    title: str
    x: str
    rows: tuple[str, ...]
    kinds: dict[str, tuple[Number, ...]]
    colours: dict[str, str]


def positive(values: Sequence[Number]) -> list[float]:
    """Values for a logarithmic axis: what cannot be drawn on one becomes a gap.

    >>> positive([1.0, 0.0, None])
    [1.0, nan, nan]
    """
    return [v if math.isfinite(v) and v > 0 else math.nan for v in gaps(values)]


def gaps(values: Sequence[Number]) -> list[float]:
    """Values for a linear axis: None becomes a gap."""
    return [math.nan if v is None else float(v) for v in values]


def starts_at_zero(values: Iterable[Sequence[Number]]) -> bool:
    """Whether a linear axis begins at 0: rounds and losses do; coefficients have both signs.

    >>> starts_at_zero([[1.0, 2.0], [0.0, None]]), starts_at_zero([[-1.0, 2.0]])
    (True, False)
    """
    return all(not v < 0 for some in values for v in gaps(some))


def drawable(chart: Chart) -> Chart:
    """The chart without curves that have no point on its axes; its note says which."""
    read = positive if chart.log_y else gaps
    seen = [s for s in chart.series if not all(math.isnan(v) for v in read(s.y))]
    lost = [s.name for s in chart.series if s not in seen]
    if not lost:
        return chart
    omission = f"Without a number that could be drawn here: {', '.join(lost)}."
    return replace(chart, series=tuple(seen), note=f"{chart.note} {omission}".strip())


def log_range(chart: Chart) -> tuple[float, float] | None:
    """Limits of a logarithmic axis: a decade of room below and above, so that no line is a border."""
    shown = [v for s in chart.series for v in positive(s.y) if not math.isnan(v)]
    if chart.top is not None:
        shown = [v for v in shown if v <= chart.top]
    if not shown:
        return None
    # Numbers near the ends of the range of floats leave no room for more room.
    return max(min(shown) / 10, 1e-300), min(max(shown) * 10, 1e300)


def plotly(chart: Chart) -> dict[str, Any]:
    """The chart as plain data for the page's script; numbers that JSON does not know are null."""
    limits = log_range(chart) if chart.log_y else None
    return {
        "id": chart.id,
        "x": _text(chart.x),
        "y": _text(chart.y),
        "log_x": chart.log_x,
        "log_y": chart.log_y,
        "range_y": None if limits is None else [math.log10(v) for v in limits],
        "zero_x": not chart.log_x and starts_at_zero(s.x for s in chart.series),
        "zero_y": not chart.log_y and starts_at_zero(s.y for s in chart.series),
        "many": len(chart.series) > 12,
        "traces": [_trace(s, chart) for s in chart.series],
    }


def _trace(s: Series, chart: Chart) -> dict[str, Any]:
    x = positive(s.x) if chart.log_x else gaps(s.x)
    y = positive(s.y) if chart.log_y else gaps(s.y)
    return {
        "type": "scatter",
        "name": _text(s.name),
        "mode": "markers" if s.line == "points" else "lines",
        "x": [None if math.isnan(v) else v for v in x],
        "y": [None if math.isnan(v) else v for v in y],
        "line": {
            "color": s.colour,
            "width": 1.4 * s.width,
            "dash": "solid" if s.line == "points" else s.line,
        },
        "marker": {"color": s.colour, "size": 4},
        "opacity": 0.55 if s.faint else 1.0,
        "showlegend": s.named,
        "legendgroup": _text(s.group or s.name),
    }


def _text(text: str) -> str:
    """Plotly reads a few tags in names; a column may be called anything."""
    return html.escape(text, quote=False)
