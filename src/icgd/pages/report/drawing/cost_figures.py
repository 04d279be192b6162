"""Figures of what constructions cost: bars for one network, and growth with depth and steps."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from icgd.base.construction import by_method, methods
from icgd.pages.colours import GREEN, GREY
from icgd.pages.report.drawing.figures import COLOURS, draw, positive

METHOD_COLOURS = {
    "stack": COLOURS["bound"],
    "forward_mode": GREEN.light,
    "cot": COLOURS["transformer"],
    "sgd": COLOURS["sgd"],
}


def method_name(method: str) -> str:
    """A method and the paper it comes from.

    >>> method_name("stack"), method_name("sgd")
    ('stack of layers [DEEP]', 'plain SGD')
    """
    if method not in methods():
        return "plain SGD"
    known = by_method(method)
    return f"{known.label or method} {known.statement.partition(' ')[0]}".strip()


def colour_of(method: str) -> str:
    """The colour of a method; grey for one from outside."""
    return METHOD_COLOURS.get(method, GREY.light)


def cost_bars(costs: Sequence[Mapping[str, Any]]) -> bytes:
    """Operations per example by method and cost model, as PNG.

    costs  MethodCost.to_dict() of each method
    """
    models = list(costs[0]["flops_per_example"])

    def plot(axes: Axes) -> None:
        share = 0.8 / len(costs)
        for i, cost in enumerate(costs):
            method = cost["method"]
            at = [k + (i - (len(costs) - 1) / 2) * share for k in range(len(models))]
            heights = positive([cost["flops_per_example"][model] for model in models])
            axes.bar(at, heights, 0.9 * share, color=colour_of(method), label=method_name(method))
        axes.set_yscale("log")
        axes.set_xticks(range(len(models)), models)
        axes.set(xlabel="cost model", ylabel="operations per example")
        widths = ", ".join(str(w) for w in costs[0]["widths"])
        axes.set_title(f"Cost of one example's gradient, widths {widths}", loc="left")
        axes.legend(fontsize=9)

    return draw(plot)


def growth_figure(
    depths: Sequence[int],
    by_depth: Mapping[str, tuple[str, str, Sequence[float]]],
    steps: Sequence[int],
    by_steps: Mapping[str, tuple[str, str, Sequence[float]]],
) -> bytes:
    """Operations per example against N beside memory against the number of steps.

    by_depth, by_steps  curves by label: (method, line style, values)
    """
    style: Any = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(11.0, 4.8), dpi=144)
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2)
        _curves(left, depths, by_depth)
        left.set(xlabel="layers N of the network", ylabel="operations per example")
        left.set_xticks([2, 4, 8, 16], ["2", "4", "8", "16"])
        left.set_title("One example's gradient", loc="left")
        _curves(right, steps, by_steps)
        right.set(xlabel="passes over the data", ylabel="bytes")
        right.set_title("Memory", loc="left")
        for axes in (left, right):
            axes.legend(fontsize=8)
            axes.minorticks_off()
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _curves(
    axes: Axes, x: Sequence[int], curves: Mapping[str, tuple[str, str, Sequence[float]]]
) -> None:
    for label, (method, line, values) in curves.items():
        axes.plot(x, values, color=colour_of(method), linestyle=line, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
