"""What is written down of every round of a checked run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RoundRecord:
    """One round: distances to the oracle and the three bounds.

    error        |W - W_sgd| since the start, largest entry over all layers (and problems)
    round_error  |one transformer round - one exact round from the same weights|
    """

    round: int
    error: float
    round_error: float
    round_bound: float
    global_bound: float
    paper_bound: float
    near_kink: int
