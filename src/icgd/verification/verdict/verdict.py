"""The verdict of `icgd.verify`, whatever was verified."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from icgd.verification.verdict.judgement import Outcome, resolution

if TYPE_CHECKING:
    from rich.table import Table

    from icgd.transformer.program import Run


class Verdict(ABC):
    """What every check can say; constructions add fields of their own.

    max_error        largest distance to the exact optimizer, started at the same point
    max_round_error  largest error of one round from the same state; round_bound bounds it
    global_bound     rigorous bound on the error after the last round
    paper_bound      the bound printed in the paper; NaN where it prints none
    verdict          "passed"; "failed": something lies outside its bound; "inconclusive": nothing does, but the
                     bounds are too large to show anything, and `notes` says why
                     (verification/verdict/judgement.py)
    rounds           a record of every round
    run              the run that was judged; None if it could not be finished
    """

    max_error: float
    max_round_error: float
    round_bound: float
    global_bound: float
    paper_bound: float
    verdict: Outcome
    rounds: Sequence[Any]
    run: Run | None
    notes: list[str]

    @property
    def passed(self) -> bool:
        """Whether everything lies within bounds that mean something."""
        return self.verdict == "passed"

    @property
    def resolution(self) -> float:
        """The fraction of its update that every part which moved was held to, in its best round.

        NaN for a loop, whose every output is held to its bound instead, and where nothing moved.
        """
        has_sight = bool(self.rounds) and hasattr(self.rounds[0], "sight")
        return resolution(self.rounds) if has_sight else math.nan

    @abstractmethod
    def table(self) -> Table:
        """The verdict for the terminal."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a result file."""

    def __repr__(self) -> str:
        fields = {
            name: getattr(self, name)
            for name in ("max_error", "max_round_error", "round_bound", "global_bound")
        }
        numbers = [f"{name}={value:.3g}" for name, value in fields.items() if value == value]
        if not math.isnan(self.resolution):
            numbers.append(f"resolution={self.resolution:.2g}")
        rounds = f"{len(self.rounds):,} rounds"
        return f"{type(self).__name__}(verdict={self.verdict!r}, {', '.join(numbers)}, {rounds})"
