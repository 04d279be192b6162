"""Numbers as people read them."""

from __future__ import annotations

import math
from typing import Any


def number(value: Any) -> str:
    """A number as people read it; None is one that is not finite.

    >>> number(1.23456e-9), number(2210), number(2662166707200), number(None), number(0.5566713)
    ('1.23e-09', '2,210', '2.66e+12', 'not finite', '0.5567')
    """
    if value is None:
        return "not finite"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**9 else f"{value:.3g}"
    if not math.isfinite(value):
        return "not finite"
    return f"{value:.4g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3g}"


def percent(value: Any) -> str:
    """A share of one in percent.

    >>> percent(0.12345)
    '12.3 %'
    """
    return number(value) if value is None else f"{100 * float(value):.3g} %"
