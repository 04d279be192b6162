"""Charts as pictures: for the page, and for a paper at the width of a column.

Titles say what is drawn, not what it shows: a figure must not claim what the numbers may deny. In a
paper the caption says it, so there is no title there. Equal charts give equal bytes: no date and no
version is written into a file. Nothing needs a display or touches matplotlib's global state.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from icgd.pages.report.chart import Bars, Chart, Series, gaps, log_range, positive, starts_at_zero

FORMATS = ("png", "pdf", "svg")
WIDTHS = {"single": 3.4, "double": 7.0}
"""Inches: one column and two columns of a journal."""
_NO_DATE: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Date": None, "Creator": None},
}


@dataclass(frozen=True)
class Look:
    """Size and type of a picture.

    width, height  inches; height None is 0.62 of the width and room for the legend
    font           points of labels; ticks and legend are a point smaller on a page, equal in print
    line           factor on every line's width
    """

    width: float = 7.0
    height: float | None = None
    font: float = 11.0
    small: float = 9.0
    line: float = 1.0
    dpi: int = 144
    title: bool = True

    def style(self) -> Any:
        """Matplotlib's settings for it."""
        return {
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "font.size": self.font,
            "axes.titlesize": self.font + 1,
            "axes.labelsize": self.font,
            "xtick.labelsize": self.small,
            "ytick.labelsize": self.small,
            "legend.fontsize": self.small,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.8 * self.line,
            "xtick.major.width": 0.8 * self.line,
            "ytick.major.width": 0.8 * self.line,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "grid.linewidth": 0.6 * self.line,
            "axes.axisbelow": True,
            "legend.frameon": False,
            "figure.constrained_layout.use": True,
            # Type 42 fonts are embedded as they are: journals refuse type 3.
            "pdf.fonttype": 42,
            "svg.fonttype": "path",
            "svg.hashsalt": "icgd",
        }


PAGE = Look()
STILL = Look(title=False)
"""On the page the heading is above the picture."""


def paper(width: float) -> Look:
    """The look of a figure in a paper: 8-point labels at the final size, no title."""
    return Look(width=width, font=8.0, small=8.0, line=0.75, dpi=300, title=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Names of columns may be in any script; what the font lacks is drawn as a box, without a word."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def picture(chart: Chart | Bars, look: Look = PAGE, format: str = "png") -> bytes:
    """A chart as a file."""
    with matplotlib.rc_context(look.style()), quiet():
        if isinstance(chart, Bars):
            figure = _bars_figure(chart, look)
        else:
            figure = _curves_figure(chart, look)
        return saved(figure, format)


def draw(plot: Callable[[Axes], None], *, width: float = 7.0, height: float = 4.0) -> bytes:
    """Draw one pair of axes by hand and return the PNG file."""
    look = Look(width=width, height=height)
    with matplotlib.rc_context(look.style()), quiet():
        figure = _figure(look, height)
        plot(figure.add_subplot())
        return saved(figure, "png")


def saved(figure: Figure, format: str) -> bytes:
    """The file of a figure, the same for equal figures."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=format, metadata=_NO_DATE[format])
    return buffer.getvalue()


def _figure(look: Look, height: float) -> Figure:
    figure = Figure(figsize=(look.width, height), dpi=look.dpi)
    FigureCanvasAgg(figure)
    return figure


def plain(text: str) -> str:
    """Text as it is: a dollar sign in the name of a column is no formula."""
    return text.replace("$", r"\$")


def columns(names: list[str], look: Look) -> int:
    """How many entries of a legend stand side by side.

    >>> columns(["measured", "bound"], Look(width=3.4, small=8.0))
    2
    """
    longest = max((len(name) for name in names), default=0)
    each = 0.56 * look.small * longest / 72 + 0.5
    return max(1, min(len(names), int(look.width / each)))


def _curves_figure(chart: Chart, look: Look) -> Figure:
    named = [s for s in chart.series if s.named]
    n_columns = columns([s.name for s in named], look)
    n_rows = math.ceil(len(named) / n_columns) if named else 0
    legend_height = n_rows * 1.45 * look.small / 72
    height = look.height or 0.55 * look.width + legend_height + (0.25 if look.title else 0.1)
    figure = _figure(look, height)
    axes = figure.add_subplot()
    handles = [(s, _plot(axes, s, chart, look)) for s in chart.series]
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
        limits = log_range(chart)
        if limits is not None:
            axes.set_ylim(*limits)
        elif chart.series:
            axes.set_yticks([])
    elif chart.series and starts_at_zero(s.y for s in chart.series):
        axes.set_ylim(bottom=0)
    if not chart.log_x and chart.series and starts_at_zero(s.x for s in chart.series):
        axes.set_xlim(left=0)
    axes.set(xlabel=plain(chart.x), ylabel=plain(chart.y))
    if look.title:
        axes.set_title(plain(chart.title), loc="left")
    if len(named) > 1:
        figure.legend(
            [handle for s, handle in handles if s.named],
            [plain(s.name) for s in named],
            loc="outside lower left",
            ncols=n_columns,
            handlelength=2.0,
            columnspacing=1.2,
            borderaxespad=0.2,
            labelspacing=0.3,
            markerscale=2.5,
        )
    return figure


def _plot(axes: Axes, s: Series, chart: Chart, look: Look) -> Any:
    x = positive(s.x) if chart.log_x else gaps(s.x)
    y = positive(s.y) if chart.log_y else gaps(s.y)
    dots = s.line == "points"
    styles: dict[str, Any] = {
        "solid": "-",
        "dash": (0, (4, 2)),
        "dot": (0, (1, 1.4)),
        "points": "none",
    }
    (drawn,) = axes.plot(
        x,
        y,
        color=s.colour,
        linestyle=styles[s.line],
        linewidth=look.line * s.width,
        alpha=0.5 if s.faint else 1.0,
        marker="." if dots else "none",
        markersize=3.5 * look.line,
        markeredgewidth=0,
    )
    return drawn


def _bars_figure(chart: Bars, look: Look) -> Figure:
    n, kinds = len(chart.rows), list(chart.kinds)
    each = 2.1 * look.font / 72 * max(1, len(kinds))
    height = look.height or n * (each + 0.06) + (1.0 if look.title else 0.75)
    figure = _figure(look, height)
    axes = figure.add_subplot()
    share = 0.8 / len(kinds)
    amounts = [v for values in chart.kinds.values() for v in positive(values) if not math.isnan(v)]
    if amounts:
        axes.set_xscale("log")
        # Room on the right for the number beside the longest bar.
        decades = math.log10(max(amounts) / min(amounts)) + 1.5
        axes.set_xlim(min(amounts) / 10, max(amounts) * 10 ** (0.3 * decades))
    for i, kind in enumerate(kinds):
        at = [k + (i - (len(kinds) - 1) / 2) * share for k in range(n)]
        values = positive(chart.kinds[kind])
        drawn = axes.barh(
            at,
            values,
            0.88 * share,
            color=chart.colours[kind],
            label=plain(kind),
        )
        texts = ["" if math.isnan(v) else f" {v:.3g}" for v in values]
        axes.bar_label(drawn, texts, fontsize=look.small)
    axes.set_yticks(range(n), [plain(row) for row in chart.rows])
    axes.set_ylim(n - 0.5, -0.5)
    axes.set_xlabel(plain(chart.x))
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    if look.title:
        axes.set_title(plain(chart.title), loc="left")
    if len(kinds) > 1:
        figure.legend(loc="outside lower left", ncols=columns(kinds, look), borderaxespad=0.2)
    return figure
