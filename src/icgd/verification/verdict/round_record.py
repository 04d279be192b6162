"""What is written down of every round of a checked run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from icgd.base.growth import Growth
from icgd.verification.verdict.judgement import Sight
from icgd.verification.weight_arithmetic import worst


@dataclass(frozen=True)
class RoundRecord:
    """One round: distances to the oracle and the three bounds.

    error        |W - W_sgd| since the start, largest entry over all layers (and problems)
    round_error  |one transformer round - one exact round from the same weights|
    update       |one exact round - the weights it starts from|, largest entry
    sight        what the bounds of this round show, see verification/verdict/judgement.py
    """

    round: int
    error: float
    round_error: float
    round_bound: float
    global_bound: float
    paper_bound: float
    near_kink: int
    update: float
    sight: Sight

    @property
    def number(self) -> int:
        """See Judged."""
        return self.round


def records_growth(n_rounds: int, name: str, value: object) -> Growth:
    """What judges whether the records of so many rounds will fit into memory.

    name, value  the parameter that sets their number
    """
    return Growth(f"Verifying {n_rounds:,} rounds", name, value, n_rounds)


def worst_record(rows: Sequence[RoundRecord]) -> RoundRecord:
    """One round of several problems: the worst of every number, and all kinks."""
    names = ("error", "round_error", "round_bound", "global_bound", "paper_bound")
    columns = {name: worst(getattr(row, name) for row in rows) for name in names}
    return RoundRecord(
        rows[0].round,
        near_kink=sum(row.near_kink for row in rows),
        update=min(row.update for row in rows),
        sight=Sight.of_all([row.sight for row in rows]),
        **columns,
    )
