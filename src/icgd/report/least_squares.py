"""The report on least squares by looped transformers: gradient descent beside Newton's method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from icgd.report.figures import COLOURS, draw, positive
from icgd.report.numbers import number

LINES = {
    "gd_exact": ("gradient descent, exact", COLOURS["sgd"], "solid", 7),
    "gd_transformer": ("gradient descent, transformer", COLOURS["transformer"], "solid", 2),
    "newton_exact": ("Newton's method, exact", "#f0b27a", "solid", 7),
    "newton_transformer": ("Newton's method, transformer", "#009e73", "solid", 2),
    "preconditioned_exact": ("preconditioned descent, exact", "#cc79a7", "solid", 7),
    "preconditioned_transformer": ("preconditioned descent, transformer", "#444444", "solid", 2),
}
NAMES = {
    "gd": "gradient descent", "newton": "Newton's method", "preconditioned": "preconditioned descent",
}  # fmt: skip


def result_rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What came out, in words."""
    errors = result["curves"]["error"]
    return [
        ("Optimizer", NAMES[result["optimizer"]]),
        ("Objective before", number(result.get("objective_before"))),
        ("Objective after, by the transformer", number(result.get("objective_after"))),
        ("Objective of the least-squares solution", number(result.get("objective_library"))),
        ("R² on the training data", number(result.get("r2_transformer"))),
        ("Distance to the least-squares solution", number(result.get("distance"))),
        *(
            (f"Largest difference to exact {NAMES[name]}", number(max(errors[name])))
            for name in NAMES
            if name in errors
        ),
    ]


def plots(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Distance to the solution, step by step, of both algorithms, exact and in context."""
    distance = result["curves"]["distance"]
    traces = [
        {
            "type": "scatter", "name": label, "mode": "lines",
            "x": list(range(1, len(distance[key]) + 1)),
            "y": [None if math.isnan(v) else v for v in positive(distance[key])],
            "line": {"color": colour, "dash": dash, "width": width},
        }
        for key, (label, colour, dash, width) in LINES.items()
        if key in distance
    ]  # fmt: skip
    return [
        {
            "id": "distance", "title": "Distance to the least-squares solution", "x": "loops",
            "y": "|w - w*|", "log": True, "traces": traces,
        }
    ]  # fmt: skip


def figures(result: Mapping[str, Any]) -> dict[str, bytes]:
    """The same as a picture."""
    return {"distance.png": distance_figure(result["curves"]["distance"])}


def distance_figure(distance: Mapping[str, Sequence[float | None]]) -> bytes:
    """|w - w*| on a logarithmic axis: exact algorithms as broad lines, transformers on top."""

    def plot(axes: Axes) -> None:
        for key, (label, colour, _, width) in LINES.items():
            if key not in distance:
                continue
            steps = range(1, len(distance[key]) + 1)
            axes.plot(
                steps, positive(distance[key]), color=colour, linewidth=0.7 * width,
                alpha=0.55 if width > 2 else 1.0, label=label,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set(xlabel="loops", ylabel="|w - w*|")
        axes.set_title("Distance to the least-squares solution", loc="left")
        axes.legend(fontsize=9)

    return draw(plot)
