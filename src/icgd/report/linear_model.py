"""The report on a linear model fitted in context: coefficient paths beside scikit-learn's answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from icgd.report.figures import COLOURS, cost_figure, draw, positive
from icgd.report.numbers import number, percent

BOUNDS = {
    "round_bound": (
        "Per step, rigorous", "max_round_error",
        "One step of the transformer against one exact step from the same weights: the certified error "
        "of every head, and rounding.",
    ),
    "global_bound": (
        "Whole run, rigorous", "max_error",
        "The sum of the per-step bounds. Steps of gradient descent on a smooth convex loss never "
        "increase distances while lr <= 2/beta, so errors add up and no more.",
    ),
    "paper_bound": (
        "Distance to the minimiser, theorem", "distance",
        "The bound of the paper's theorem with its constants on these data, at a step size of at most "
        "1/beta; for the lasso the distance is the gap of the objective.",
    ),
}  # fmt: skip
PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#444444",
    "#882255", "#44aa99", "#aa4499", "#117733",
)  # fmt: skip


def result_rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What came out, in words."""
    scores = {
        "accuracy": "Accuracy on the training data",
        "d2": "Deviance explained on the training data",
        "r2_transformer": "R² on the training data",
    }
    return [
        ("Objective before", number(result.get("objective_before"))),
        ("Objective after, fitted by the transformer", number(result.get("objective_after"))),
        ("Objective of scikit-learn's fit", number(result.get("objective_library"))),
        *((text, number(result[key])) for key, text in scores.items() if key in result),
        ("Largest difference to exact gradient descent", number(result["max_error"])),
        (
            "Largest coefficient difference to scikit-learn",
            number(result.get("max_difference_library")),
        ),
        ("Largest error of one step", number(result["max_round_error"])),
        ("Steps above their bound", f"{result['rounds_over_bound']:,} of {result['rounds']:,}"),
        ("Condition number kappa", number(result["constants"].get("kappa"))),
        ("Range used, largest |s| / radius", percent(result.get("range_use"))),
    ]


def bound_rows(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The bounds, each with the measured number it speaks about."""
    return [
        {
            "title": title,
            "why": why,
            "value": number(result[key]),
            "measured": number(result[measured]),
        }
        for key, (title, measured, why) in BOUNDS.items()
    ]


def plots(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Coefficient paths, and errors with their bounds."""
    curves = result.get("curves") or {}
    found = []
    path, fit = curves.get("path") or {}, curves.get("fit") or {}
    if path.get("round"):
        found.append(
            {
                "id": "path", "title": "Coefficients step by step; dotted: scikit-learn",
                "x": "step", "y": "coefficient", "log": False, "traces": _path_traces(result),
            }
        )  # fmt: skip
    if fit.get("round"):
        lines = (
            ("theorem's bound on the distance", "theorem", COLOURS["bound"], "solid"),
            ("distance to the minimiser", "distance", COLOURS["sgd"], "solid"),
            ("sum of step bounds", "global_bound", COLOURS["bound"], "dot"),
            ("difference to exact gradient descent", "error", COLOURS["transformer"], "solid"),
        )
        found.append(
            {
                "id": "fit", "title": "Distances and their bounds", "x": "step", "y": "distance",
                "log": True,
                "traces": [
                    {
                        "type": "scatter", "name": name, "mode": "lines", "x": list(fit["round"]),
                        "y": [None if math.isnan(v) else v for v in positive(fit[key])],
                        "line": {"color": colour, "dash": dash, "width": 2},
                    }
                    for name, key, colour, dash in lines
                ],
            }
        )  # fmt: skip
    return found


def _path_traces(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    path = result["curves"]["path"]
    traces: list[dict[str, Any]] = []
    for i, (name, values) in enumerate(path["coefficients"].items()):
        colour = PALETTE[i % len(PALETTE)]
        traces.append(
            {
                "type": "scatter", "name": name, "mode": "lines", "x": list(path["round"]),
                "y": list(values), "line": {"color": colour, "width": 2}, "legendgroup": name,
            }
        )  # fmt: skip
        target = result["coefficients"][name].get("scikit-learn")
        if target is not None:
            ends = [path["round"][0], path["round"][-1]]
            traces.append(
                {
                    "type": "scatter", "name": f"{name}, scikit-learn", "mode": "lines", "x": ends,
                    "y": [target, target], "line": {"color": colour, "width": 1, "dash": "dot"},
                    "legendgroup": name, "showlegend": False,
                }
            )  # fmt: skip
    return traces


def figures(result: Mapping[str, Any]) -> dict[str, bytes]:
    """The figures of a result by file name; curves that are missing are left out."""
    curves = result.get("curves") or {}
    drawn = {}
    if (curves.get("path") or {}).get("round"):
        drawn["path.png"] = path_figure(result)
    if (curves.get("fit") or {}).get("round"):
        drawn["fit.png"] = fit_figure(curves["fit"])
    drawn["cost.png"] = cost_figure(result)
    return drawn


def path_figure(result: Mapping[str, Any]) -> bytes:
    """Every coefficient along the chain of thought, with scikit-learn's answer as a dotted line."""
    path = result["curves"]["path"]

    def plot(axes: Axes) -> None:
        for i, (name, values) in enumerate(path["coefficients"].items()):
            colour = PALETTE[i % len(PALETTE)]
            axes.plot(path["round"], values, color=colour, linewidth=1.4, label=name)
            target = result["coefficients"][name].get("scikit-learn")
            if target is not None:
                axes.axhline(target, color=colour, linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        axes.set(xlabel="step", ylabel="coefficient")
        axes.set_title("Coefficients step by step; dotted: scikit-learn", loc="left")
        if len(path["coefficients"]) <= 16:
            axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))

    return draw(plot)


def fit_figure(curve: Mapping[str, Sequence[float | None]]) -> bytes:
    """Distances to the minimiser and to exact gradient descent on a logarithmic axis, with bounds."""

    def plot(axes: Axes) -> None:
        for key, label, colour, style in (
            ("theorem", "theorem's bound", COLOURS["bound"], "-"),
            ("distance", "distance to the minimiser", COLOURS["sgd"], "-"),
            ("global_bound", "sum of step bounds", COLOURS["bound"], ":"),
            ("error", "difference to exact gradient descent", COLOURS["transformer"], "-"),
        ):
            axes.plot(
                [math.nan if v is None else v for v in curve["round"]], positive(curve[key]),
                color=colour, linestyle=style, linewidth=1.4, label=label,
            )  # fmt: skip
        axes.set_yscale("log")
        axes.set(xlabel="step", ylabel="distance")
        axes.set_title("Distances and their bounds", loc="left")
        axes.legend(fontsize=9, loc="center right")

    return draw(plot)
