"""Numbers that a user passes, looked at without trusting them."""

from __future__ import annotations

import math
import operator
from typing import SupportsFloat

from icgd.errors import InvalidParameter

LARGEST = 2**62
"""Nothing that is counted here comes near it; beyond it sizes overflow."""


def is_finite(value: SupportsFloat) -> bool:
    """math.isfinite, and False for integers that no float holds.

    >>> is_finite(0.5), is_finite(10**400)
    (True, False)
    """
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def whole_number(name: str, value: object, least: int = 1) -> int:
    """An integer that is large enough, and that memory could ever index; True is none.

    >>> whole_number("steps", 2.5)
    Traceback (most recent call last):
    ...
    icgd.errors.InvalidParameter: `steps` must be an integer >= 1. Got 2.5.
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if number < least:
        raise InvalidParameter(name, value, f"be an integer >= {least}")
    if number > LARGEST:
        raise InvalidParameter(name, value, "be an integer <= 2^62")
    return number
