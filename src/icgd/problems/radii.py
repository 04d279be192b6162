"""Radii of a problem: bounds on |x|, |w| or |y| that constants are made of."""

from __future__ import annotations

import math

from icgd.errors import InvalidParameter

NARROWEST, WIDEST = 1e-150, 1e150
"""Radii whose squares, and the reciprocals of these, are ordinary numbers."""


def checked_radius(name: str, value: object) -> float | None:
    """A number from NARROWEST to WIDEST, or None.

    >>> checked_radius("x_radius", 1e200)
    Traceback (most recent call last):
    ...
    icgd.errors.InvalidParameter: `x_radius` must lie between 1e-150 and 1e+150. Got 1e+200. Scale the data.
    """
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidParameter(name, value, "be a finite number")
    if number <= 0:
        raise InvalidParameter(name, value, "be > 0")
    if not NARROWEST <= number <= WIDEST:
        must = f"lie between {NARROWEST:g} and {WIDEST:g}"
        raise InvalidParameter(name, value, must, remedy="Scale the data.")
    return number
