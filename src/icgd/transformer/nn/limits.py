"""Where heads may be asked: what the range watch holds their queries against."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Limits:
    """low <= q <= high, or low < q where `open_low`; |q| where `of_size`; always a finite number.

    what    is asked, for messages: "The head of log"
    shown   the interval in symbols
    remedy  what to do about a number outside
    """

    what: str
    low: float
    high: float
    open_low: bool
    of_size: bool
    shown: str
    remedy: str

    def measured(self, q: Tensor) -> Tensor:
        """What lies between the limits."""
        return q.abs() if self.of_size else q

    def hold(self, least: float, largest: float) -> bool:
        """Whether numbers between these extremes lie within; never where one is NaN."""
        above = least > self.low if self.open_low else least >= self.low
        return above and largest <= self.high and math.isfinite(least) and math.isfinite(largest)

    def inside(self, q: Tensor) -> Tensor:
        """Entry by entry."""
        size = self.measured(q)
        above = size > self.low if self.open_low else size >= self.low
        return above & (size <= self.high) & q.isfinite()
