"""`icgd run --trace`: the recording of a run, and the page that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from icgd.cli.run.settings import Settings

if TYPE_CHECKING:
    import icgd

TRACE, VIEWER = "trace.json", "viewer.html"
DROPPED = (TRACE, VIEWER)
"""What a run without --trace must not leave from one before."""
T = TypeVar("T")
BUDGET = 14.0


@dataclass(frozen=True)
class Recording:
    """The trace of a run that was made anyway, or why there is none."""

    recorder: icgd.Recorder | None = None
    refused: icgd.InvalidParameter | None = None

    def trace(self) -> icgd.Trace | None:
        """The trace, if one was asked for; a budget that was too small is refused here."""
        if self.refused is not None:
            raise self.refused
        return None if self.recorder is None else self.recorder.trace()


def recorded(
    settings: Settings,
    program: icgd.Program,
    X: Any,
    Y: Any,
    work: Callable[[icgd.Recorder | None], T],
    **start: Any,
) -> tuple[T, Recording]:
    """Do the work, a run, with a recorder on if one was asked for.

    A recording that does not fit its budget stops the run. It is then done again without one, so that the other
    results are kept.
    """
    if not settings.trace:
        return work(None), Recording()
    import icgd
    from icgd.verification.walks.record_trace import exact_recorder

    try:
        budget = settings.trace_budget or BUDGET
        recorder = exact_recorder(program, X, Y, budget_mb=budget, **start)
        return work(recorder), Recording(recorder)
    except icgd.InvalidParameter as refused:
        if refused.name != "budget_mb":
            raise
        complaint = icgd.InvalidParameter(
            "--trace-budget",
            refused.value,
            refused.must,
            remedy="Raise it; the other results are kept.",
        )
        complaint.__cause__ = refused
    return work(None), Recording(refused=complaint)


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
