"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


class Shown(str):
    """A number as text, which still knows the number; the page gives both."""

    raw: Any

    def __new__(cls, text: str, raw: Any) -> Shown:
        """Text for people, and what it was made of."""
        shown = super().__new__(cls, text)
        shown.raw = raw
        return shown


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
        return Shown(f"{value:,}" if abs(value) < 10**9 else f"{float(value):.3g}", value)
    if not math.isfinite(value):
        return "not finite"
    usual = value == 0 or 1e-3 <= abs(value) < 1e5
    return Shown(f"{value:.4g}" if usual else f"{value:.3g}", value)


def percent(value: Any) -> str:
    """A share of one in percent.

    >>> percent(0.12345)
    '12.3 %'
    """
    return number(value) if value is None else Shown(f"{100 * float(value):.3g} %", value)


def range_row(result: Mapping[str, Any]) -> tuple[str, str]:
    """How much of their certified range heads used, where they have one and it was watched.

    >>> range_row({"range_use": 0.0, "radius": None})
    ('Range used, largest |s| / radius', 'no limit: the head reads every number')
    """
    title, use, radius = (
        "Range used, largest |s| / radius",
        result.get("range_use"),
        result.get("radius"),
    )
    if "radius" in result and (radius is None or not math.isfinite(radius)):
        return title, "no limit: the head reads every number"
    return title, "not measured" if use == 0 else percent(use)
