"""Figures of a run as PNG, one idea each: does it learn, is it exact, what does it cost.

Titles say what is drawn, not what it shows: a figure must not claim what the numbers may deny.

Every function takes plain numbers and gives back the bytes of a PNG file, so that a caller decides
where they go. Nothing here needs a display or touches matplotlib's global state.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

Number = float | None
"""A measured number; None stands for one that is not finite."""

COLOURS = {"transformer": "#0072b2", "sgd": "#e69f00", "bound": "#d55e00", "drift": "#777777"}
"""Colours that stay apart for colour-blind readers, on white and on dark grey."""

_STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


def positive(values: Sequence[Number]) -> list[float]:
    """Values for a logarithmic axis: what cannot be drawn on one becomes a gap.

    >>> positive([1.0, 0.0, None])
    [1.0, nan, nan]
    """
    return [
        v if v is not None and math.isfinite(v) and v > 0 else math.nan for v in map(_float, values)
    ]


def _float(value: Number) -> float | None:
    return None if value is None else float(value)


def draw(plot: Callable[[Axes], None], *, width: float = 7.0, height: float = 4.0) -> bytes:
    """Draw one pair of axes and return the PNG file."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), dpi=144)
        FigureCanvasAgg(figure)
        plot(figure.add_subplot())
        buffer = io.BytesIO()
        # No creation date or software version: equal numbers give equal files.
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


ROUNDS = {
    "cot": "round (one example each)",
    "stack": "step (all rows)",
    "forward_mode": "step (all rows)",
}
"""What one round is, by method."""


def loss_figure(curve: Mapping[str, Sequence[Number]], rounds_are: str = ROUNDS["cot"]) -> bytes:
    """Loss of the network trained by the transformer and of the one trained by SGD, overlaid.

    curve  "round", "transformer", "sgd": equally long; the loss is the mean of 1/2 |o - y|^2
    """

    def plot(axes: Axes) -> None:
        rounds = _gaps(curve["round"])
        axes.plot(
            rounds, _gaps(curve["sgd"]), color=COLOURS["sgd"], linewidth=5, alpha=0.55,
            label="trained by torch.optim.SGD",
        )  # fmt: skip
        axes.plot(
            rounds, _gaps(curve["transformer"]), color=COLOURS["transformer"], linewidth=1.4,
            label="trained by the frozen transformer",
        )  # fmt: skip
        axes.set(xlabel=rounds_are, ylabel="mean loss", ylim=(0, None))
        axes.set_title("Loss of both networks: same start, same rows", loc="left")
        axes.legend()

    return draw(plot)


def error_figure(curve: Mapping[str, Sequence[Number]]) -> bytes:
    """Error of every single round on a logarithmic axis, with its bound.

    curve  "round", "round_error", "round_bound", "error": equally long; the largest absolute
           difference of any weight
    """

    def plot(axes: Axes) -> None:
        rounds = _gaps(curve["round"])
        bound, measured = positive(curve["round_bound"]), positive(curve["round_error"])
        drift = positive(curve["error"])
        axes.plot(rounds, bound, color=COLOURS["bound"], linewidth=1.2, label="bound of one round")
        axes.plot(
            rounds, drift, color=COLOURS["drift"], linewidth=1.2, linestyle="--",
            label="measured: whole run so far",
        )  # fmt: skip
        axes.plot(
            rounds, measured, color=COLOURS["transformer"], marker=".", markersize=3,
            linestyle="none", label="measured: one round",
        )  # fmt: skip
        axes.set_yscale("log")
        axes.set(xlabel="round", ylabel="largest weight difference")
        axes.set_title("Error of every round, and its bound", loc="left")
        _room_on_log_axis(axes, [*bound, *measured, *drift])
        axes.legend(loc="upper right", ncols=3, fontsize=9, columnspacing=1.2)
        silent = sum(1 for e in curve["round_error"] if e == 0)
        if silent:
            axes.annotate(
                f"rounds with error exactly 0, which a logarithmic axis cannot show: {silent}",
                (0.0, -0.2), xycoords="axes fraction", fontsize=8, color=COLOURS["drift"],
            )  # fmt: skip

    return draw(plot)


def cost_figure(result: Mapping[str, Any]) -> bytes:
    """FLOPs of the run with literal matrices and with the structured executor, as bars."""
    bars = {
        "literal matrices\n(dense executor)": float(result["dense_flops"]),
        "structure used\n(structured executor)": float(result["structured_flops"]),
    }

    def plot(axes: Axes) -> None:
        drawn = axes.barh(
            list(bars), list(bars.values()), color=[COLOURS["sgd"], COLOURS["transformer"]],
            height=0.55,
        )  # fmt: skip
        axes.bar_label(drawn, [f" {value:.3g}" for value in bars.values()])
        axes.set_xscale("log")
        largest, smallest = max(bars.values()), min(bars.values())
        if smallest > 0:
            axes.set_xlim(smallest / 30, largest * 1000)
        axes.invert_yaxis()
        axes.set_xlabel("floating-point operations of the whole run (matrix products)")
        axes.set_title(
            f"{result['blocks']:,} layer calls in {result['rounds']:,} rounds", loc="left"
        )
        axes.grid(axis="y", visible=False)

    return draw(plot, height=2.8)


def _gaps(values: Sequence[Number]) -> list[float]:
    return [math.nan if v is None else float(v) for v in values]


def _room_on_log_axis(axes: Axes, values: Sequence[float]) -> None:
    """A decade below and two above: a flat line does not fill the figure, the legend has its place."""
    shown = [v for v in values if not math.isnan(v)]
    if shown:
        axes.set_ylim(min(shown) / 10, max(shown) * 100)


def all_figures(result: Mapping[str, Any]) -> dict[str, bytes]:
    """The figures of a result by file name; curves that are missing are left out."""
    curves = result.get("curves") or {}
    figures = {}
    if curves.get("loss", {}).get("round"):
        figures["loss.png"] = loss_figure(curves["loss"], ROUNDS[result.get("method", "cot")])
    if curves.get("error", {}).get("round"):
        figures["error.png"] = error_figure(curves["error"])
    figures["cost.png"] = cost_figure(result)
    return figures
