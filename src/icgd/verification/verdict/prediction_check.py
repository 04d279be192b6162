"""Predictions of a program against exact ones: an error, and the bound it must keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from icgd.verification.weight_arithmetic import worst

PREDICTED_ROWS = 4
"""Rows of the data that a check asks for."""


@dataclass(frozen=True)
class PredictionCheck:
    """The largest error of a prediction, and the bound where it comes nearest to being broken."""

    error: float
    bound: float

    @classmethod
    def worst(cls, errors: Sequence[float], bounds: Sequence[float]) -> PredictionCheck:
        """The prediction that breaks its own bound most, else the one with the largest error."""
        pairs = list(zip(errors, bounds, strict=True))
        broken = [pair for pair in pairs if not pair[0] <= pair[1]]
        if broken:
            return cls(*max(broken, key=lambda pair: pair[0] - pair[1]))
        return cls(worst(errors), worst(bounds))
