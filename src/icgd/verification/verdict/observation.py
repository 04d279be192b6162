"""Who looks on while a run is judged: a function after every round, and a recorder for the viewer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from icgd.transformer.runtime.recording.recorder import Recorder

Observer = Callable[[int, Any, Any], None]
"""Of (round, weights, exact weights)."""


@dataclass(frozen=True)
class Watched:
    """One run serves the verdict, curves and the trace."""

    observe: Observer | None = None
    recorder: Recorder | None = None

    def recording(self, judge: Callable[[int, Any], None]) -> Recorder | Callable[[int, Any], None]:
        """What `program.run(record=...)` is given: the judge, and with it the recorder."""
        if self.recorder is None:
            return judge
        self.recorder.after_round = judge
        return self.recorder

    def note(self, round_: int, weights: Any, exact: Any) -> None:
        """Tell the observer, if there is one."""
        if self.observe is not None:
            self.observe(round_, weights, exact)


NOBODY = Watched()
