"""The verdict of a check as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Table

from icgd.verification.verdict.judgement import Outcome

if TYPE_CHECKING:
    from icgd.verification.cot_network import Check


def table_title(verdict: Outcome) -> str:
    """The heading of a verdict's table."""
    return "icgd verify: " + (verdict if verdict == "passed" else verdict.upper())


def check_table(check: Check) -> Table:
    """What was measured, what was promised, and whether it holds."""
    table = Table(title=table_title(check.verdict))
    table.add_column("what")
    table.add_column("measured", justify="right")
    table.add_column("bound", justify="right")
    table.add_column("holds")
    rounds_hold = all(r.round_error <= r.round_bound for r in check.rounds)
    _row(
        table,
        "one round from the same state",
        check.max_round_error,
        check.round_bound,
        rounds_hold,
    )
    final = check.rounds[-1].error if check.rounds else float("nan")
    _row(
        table,
        "end of the run, global bound",
        final,
        check.global_bound,
        final <= check.global_bound,
    )
    _row(
        table, "end of the run, printed L*eps", final, check.paper_bound, final <= check.paper_bound
    )
    table.add_row("largest |W - W_sgd| in any round", f"{check.max_error:.3g}", "", "")
    add_resolution(table, check.resolution)
    _row(
        table,
        "predictions with the final weights",
        check.prediction_error,
        check.prediction_bound,
        check.prediction_error <= check.prediction_bound,
    )
    grid = check.grid
    _row(
        table, f"stored grid, worst at s={grid.at:.4g}", grid.recomputed, grid.promised, grid.passed
    )
    for kind in dict.fromkeys(probe.kind for probe in check.probes):
        for executor in dict.fromkeys(probe.executor for probe in check.probes):
            rows = [p for p in check.probes if p.kind == kind and p.executor == executor]
            worst = max(rows, key=lambda p: (not p.passed, p.error))
            label = f"{len(rows)} probes {kind} ({executor}), worst in {worst.slot}"
            _row(table, label, worst.error, worst.bound, worst.passed)
    return table


def rows_table(
    verdict: Outcome, rows: list[tuple[str, float, float]], *, resolution: float = math.nan
) -> Table:
    """A verdict as rows of (what, measured, bound)."""
    table = Table(title=table_title(verdict))
    table.add_column("what")
    table.add_column("measured", justify="right")
    table.add_column("bound", justify="right")
    table.add_column("holds")
    for what, measured, bound in rows:
        _row(table, what, measured, bound, measured <= bound)
    add_resolution(table, resolution)
    return table


def add_resolution(table: Table, resolution: float) -> None:
    """How much a pass says."""
    if not math.isnan(resolution):
        words = f"{resolution:.2g}" if resolution < 1 else "vacuous"
        table.add_row("bound as a fraction of the update, best round, worst part", "", words, "")


def _row(table: Table, what: str, measured: float, bound: float, holds: bool) -> None:
    verdict = "yes" if holds else "[bold red]no"
    # An infinite bound holds whatever happens: it says nothing.
    shown_bound = "vacuous" if bound == math.inf else f"{bound:.3g}"
    table.add_row(what, f"{measured:.3g}", shown_bound, "" if shown_bound == "vacuous" else verdict)
