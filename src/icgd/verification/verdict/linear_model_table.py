"""The verdict on a linear model as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Table

from icgd.verification.verdict.check_table import add_resolution, table_title

if TYPE_CHECKING:
    from icgd.verification.cot_linear import LinearModelCheck


def linear_model_table(check: LinearModelCheck) -> Table:
    """What was measured at steps 1, 10, 100 .. and on probes, beside its bounds."""
    table = Table(title=table_title(check.verdict))
    for name, side in (
        ("what", "left"),
        ("measured", "right"),
        ("bound", "right"),
        ("holds", "left"),
    ):
        table.add_column(name, justify=side)  # type: ignore[arg-type]

    def row(what: str, measured: float, bound: float, holds: bool) -> None:
        table.add_row(what, f"{measured:.3g}", f"{bound:.3g}", "yes" if holds else "[bold red]no")

    marks = sorted({1, 10, 100, 1000, 10_000, len(check.rounds)})
    for r in (check.rounds[t - 1] for t in marks if t <= len(check.rounds)):
        at = f"step {r.step}: "
        row(
            f"{at}one step from the same w",
            r.step_error,
            r.step_bound,
            r.step_error <= r.step_bound,
        )
        row(f"{at}|w - w_gd|", r.error, r.global_bound, r.error <= r.global_bound)
        if not math.isnan(r.distance):
            row(
                f"{at}distance to the minimiser",
                r.distance,
                r.theorem,
                r.distance <= r.theorem + 1e-9,
            )
    for probe in check.probes:
        label = f"{probe.n_blocks} {probe.kind} probes of {probe.n_examples} ({probe.executor})"
        row(label, probe.error, probe.bound, probe.passed)
    add_resolution(table, check.resolution)
    return table
