"""The report on least squares by looped transformers: three algorithms beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icgd.pages.colours import AMBER, BLUE, GREEN, PINK, SKY, VERMILION
from icgd.pages.report.chart import Chart, Series, drawable
from icgd.pages.report.stories.network import DIFFERENCE
from icgd.pages.report.stories.numbers import number

LINES = {
    "gd": (AMBER.light, BLUE.light),
    "newton": (SKY.light, VERMILION.light),
    "preconditioned": (PINK.light, GREEN.light),
}
"""Colours of the exact algorithm, a broad line, and of the transformer, a thin one on top."""
NAMES = {
    "gd": "gradient descent",
    "newton": "Newton's method",
    "preconditioned": "preconditioned descent",
}


def _largest(values: Any) -> float | None:
    """None if any is not finite: a maximum over the others would hide it."""
    return None if not values or None in values else max(values)


def result_rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What came out, in words."""
    errors = (result.get("curves") or {}).get("error") or {}
    return [
        ("Optimizer", NAMES[result["optimizer"]]),
        ("Objective before", number(result.get("objective_before"))),
        ("Objective after, by the transformer", number(result.get("objective_after"))),
        ("Objective of the least-squares solution", number(result.get("objective_library"))),
        ("R² on the training data", number(result.get("r2_transformer"))),
        ("Distance to the least-squares solution", number(result.get("distance"))),
        *(
            (f"Largest difference to exact {NAMES[name]}", number(_largest(errors[name])))
            for name in NAMES
            if name in errors
        ),
    ]


def charts(result: Mapping[str, Any]) -> list[Chart]:
    """Distance to the solution and to the exact algorithm, loop by loop."""
    curves, panels = result.get("curves") or {}, []
    distance, errors = curves.get("distance") or {}, curves.get("error") or {}
    series = []
    for name, (below, above) in LINES.items():
        for kind, colour in (("exact", below), ("transformer", above)):
            values = distance.get(f"{name}_{kind}")
            if values:
                exact = kind == "exact"
                series.append(
                    Series(
                        f"{NAMES[name]}, {kind}",
                        loops(values),
                        values,
                        colour,
                        width=5 if exact else 1.5,
                        faint=exact,
                    )
                )
    if series:
        panels.append(
            Chart(
                "distance",
                "Distance to the least-squares solution",
                "loops",
                "|w − w*|",
                tuple(series),
                log_x=True,
                log_y=True,
            )
        )
    drawn = tuple(
        Series(
            NAMES[name],
            loops(errors[name]),
            errors[name],
            above,
            "points" if len(errors[name]) > 40 else "solid",
        )
        for name, (_, above) in LINES.items()
        if errors.get(name)
    )
    if drawn:
        panels.append(
            Chart(
                "error",
                "Difference to the exact algorithm",
                "loops",
                DIFFERENCE,
                drawn,
                log_x=True,
                log_y=True,
                note="Differences of exactly 0 are not drawn: a logarithmic axis cannot show them."
                if any(v == 0 for s in drawn for v in s.y)
                else "",
            )
        )
    return [drawable(chart) for chart in panels]


def loops(values: Any) -> list[float]:
    """1, 2, 3, ..."""
    return [float(k) for k in range(1, len(values) + 1)]
