"""`icgd run --trace`: the recording of a run, and the page that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from icgd.cli.run.settings import Settings

if TYPE_CHECKING:
    import icgd

TRACE, VIEWER = "trace.json", "viewer.html"
DROPPED = (TRACE, VIEWER)
"""What a run without --trace must not leave from one before."""
BUDGET = 14.0


def recorded(
    settings: Settings, program: icgd.Program, X: Any, Y: Any, **how: Any
) -> icgd.Trace | None:
    """The run once more, with the recorder on, if it was asked for."""
    if not settings.trace:
        return None
    import icgd

    typer.echo("recording the run once more for the viewer", err=True)
    try:
        return icgd.record_trace(
            program,
            X,
            Y,
            executor=settings.executor,  # type: ignore[arg-type]
            progress=True,
            budget_mb=settings.trace_budget or BUDGET,
            **how,
        )
    except icgd.InvalidParameter as refused:
        if refused.name != "budget_mb":
            raise
        raise icgd.InvalidParameter(
            "--trace-budget",
            refused.value,
            refused.must,
            remedy="Raise it; the other results are kept.",
        ) from refused


def summary(trace: icgd.Trace | None) -> dict[str, Any]:
    """What a result says of its recording."""
    if trace is None:
        return {}
    return {"trace": {"rounds": trace.n_rounds, "rounds_in_detail": len(trace.rounds)}}


def add_trace(trace: icgd.Trace, directory: Path) -> None:
    """trace.json and viewer.html."""
    from icgd.pages.viewer import write_page

    trace.save(directory / TRACE)
    write_page(directory / TRACE, directory / VIEWER)
