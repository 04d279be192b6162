"""The report on a linear model fitted in context: coefficient paths beside scikit-learn's answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from icgd.pages.colours import (
    AMBER,
    BLUE,
    CHARCOAL,
    FOREST,
    GREEN,
    OLIVE,
    PINK,
    SILVER,
    SKY,
    VERMILION,
    WINE,
)
from icgd.pages.report.chart import COLOURS, Chart, Series, drawable
from icgd.pages.report.stories.network import DIFFERENCE, over, zeros_said
from icgd.pages.report.stories.numbers import number, range_row

BOUNDS = {
    "round_bound": (
        "Per step, rigorous",
        "max_round_error",
        "One step of the transformer against one exact step from the same weights: the certified error "
        "of every head, and rounding.",
    ),
    "global_bound": (
        "Whole run, rigorous",
        "max_error",
        "The sum of the per-step bounds. Steps of gradient descent on a smooth convex loss never "
        "increase distances while lr <= 2/beta, so errors only add up.",
    ),
    "paper_bound": (
        "Distance to the minimiser, theorem",
        "distance",
        "The bound of the paper's theorem with its constants on these data, at a step size of at most "
        "1/beta; for the lasso the distance is the gap of the objective.",
    ),
}
PALETTE = tuple(
    hue.light for hue in (BLUE, AMBER, GREEN, PINK, SKY, VERMILION, OLIVE, WINE, FOREST, CHARCOAL)
)
"""For as many coefficients; the smaller ones of a larger model are grey."""
OTHERS = SILVER.light
LARGEST_KAPPA = 2.0**52
"""Above it the smallest curvature is a rounding error of the largest."""


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
        ("Steps above their bound", over(result)),
        condition_row(result),
        range_row(result),
    ]


def condition_row(result: Mapping[str, Any]) -> tuple[str, str]:
    """The condition number where it has a meaning; else the rank that says why it has none."""
    kappa = (result.get("constants") or {}).get("kappa")
    if kappa is not None and kappa < LARGEST_KAPPA:
        return "Condition number kappa", number(kappa)
    rank, n = result.get("rank"), len(result.get("coefficients") or {})
    if rank is not None and rank < n:
        return "Rank of the features", f"{rank} of {n}: the solution is not unique"
    return "Condition number kappa", "none: the curvature vanishes to rounding"


def bound_rows(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The bounds, each with the measured number it speaks about."""
    return [
        {
            "key": key,
            "title": title,
            "why": why,
            "value": number(result[key]),
            "measured": number(result[measured]),
        }
        for key, (title, measured, why) in BOUNDS.items()
    ]


def charts(result: Mapping[str, Any]) -> list[Chart]:
    """Coefficient paths, distances with their bounds, and errors of single steps."""
    curves = result.get("curves") or {}
    path, fit = curves.get("path") or {}, curves.get("fit") or {}
    drawn = []
    if path.get("round"):
        drawn.append(path_chart(result))
    if fit.get("round"):
        x = fit["round"]
        drawn.append(
            Chart(
                "fit",
                "Distances and their bounds",
                "step",
                distance_name(result),
                (
                    Series("theorem's bound on the distance", x, fit["theorem"], COLOURS["bound"]),
                    Series("distance to the minimiser", x, fit["distance"], COLOURS["sgd"]),
                    Series("sum of step bounds", x, fit["global_bound"], COLOURS["bound"], "dot"),
                    Series("difference to exact descent", x, fit["error"], COLOURS["transformer"]),
                ),
                log_y=True,
            )
        )
        drawn.append(
            Chart(
                "step",
                "Error of every step, and its bound",
                "step",
                DIFFERENCE,
                (
                    Series("bound of one step", x, fit["step_bound"], COLOURS["bound"]),
                    Series(
                        "measured: one step", x, fit["step_error"], COLOURS["transformer"], "points"
                    ),
                ),
                log_y=True,
                note=zeros_said(fit["step_error"], "steps"),
            )
        )
    return [drawable(chart) for chart in drawn]


def distance_name(result: Mapping[str, Any]) -> str:
    """What `distance` measures: the lasso's minimiser need not be one point."""
    gap = result.get("model") == "lasso"
    return "distance or gap" if gap else "distance"


def path_chart(result: Mapping[str, Any]) -> Chart:
    """Every coefficient along the chain of thought, with scikit-learn's answer as a dotted line.

    The largest ones have a colour and a name, the others are grey: nobody can follow thirty.
    """
    path, answers = result["curves"]["path"], result.get("coefficients") or {}
    rounds, values = path["round"], path["coefficients"]
    sizes = {name: _last(curve) for name, curve in values.items()}
    largest = sorted(sizes, key=lambda name: -sizes[name])[: len(PALETTE)]
    coloured = [name for name in values if name in largest]
    series = []
    for name in sorted(values, key=lambda name: name in largest):
        shown = name in largest
        colour = PALETTE[coloured.index(name)] if shown else OTHERS
        width = 1.5 if shown else 0.8
        series.append(
            Series(name, rounds, values[name], colour, width=width, named=shown, group=name)
        )
        target = (answers.get(name) or {}).get("scikit-learn")
        if target is not None:
            ends, level = [rounds[0], rounds[-1]], [target, target]
            series.append(
                Series(
                    f"{name}, scikit-learn",
                    ends,
                    level,
                    colour,
                    "dot",
                    0.9,
                    named=False,
                    group=name,
                )
            )
    grey = len(values) - len(coloured)
    return Chart(
        "path",
        "Coefficients step by step; dotted: scikit-learn",
        "step",
        "coefficient",
        tuple(series),
        log_x=True,
        note=f"Grey: the coefficients that are smallest at the end ({grey})." if grey else "",
    )


def _last(curve: list[float | None]) -> float:
    ends = [abs(v) for v in curve[-1:] if v is not None]
    return ends[0] if ends and math.isfinite(ends[0]) else 0.0
