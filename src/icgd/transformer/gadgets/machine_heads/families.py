"""The functions heads are fitted to, each on the interval that range reduction leaves, with exact values.

An interval is centred: a head is asked s = u - shift, |s| <= radius, where u is what the reduction leaves of
the argument. Values are exact to 40 digits, so that a fit is judged by something that does not round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

import torch

DIGITS = 45
"""Of every exact number here."""
_SMALL = Decimal(10) ** -(DIGITS + 2)


def exactly() -> AbstractContextManager[Context]:
    """A block in which decimal arithmetic keeps DIGITS digits.

    >>> with exactly():
    ...     print(len(str(Decimal(1) / 3)))
    47
    """
    return localcontext(Context(prec=DIGITS))


LN2 = Decimal("0.69314718055994530941723212145817656807550013436025525")
PI = Decimal("3.14159265358979323846264338327950288419716939937510582")


def exact_sin(x: Decimal) -> Decimal:
    """sin x by its series, for |x| < 2."""
    term = total = x
    k = 1
    while abs(term) > _SMALL:
        term = -term * x * x / ((k + 1) * (k + 2))
        k += 2
        total += term
    return total


def exact_erf(x: Decimal) -> Decimal:
    """erf x = 2 / sqrt(pi) exp(-x^2) sum_k 2^k x^(2k+1) / (1 3 ... (2k+1)): nothing cancels.

    >>> round(exact_erf(Decimal(1)), 12)
    Decimal('0.842700792950')
    """
    term = total = x
    k = 0
    while abs(term) > _SMALL:
        k += 1
        term = term * 2 * x * x / (2 * k + 1)
        total += term
    return 2 * total * (-x * x).exp() / PI.sqrt()


@dataclass(frozen=True)
class Family:
    """A function on |s| <= radius, with what its certificate needs.

    exact      f(s), to 40 digits
    odd        whether f(-s) = -f(s): the head then has an error relative to s
    relative   whether the error is measured relative to f (never, where f has a zero but is not odd)
    slope      bound on |f'(s)|
    condition  bound on |s f'(s)|, over |f(s)| where the error is relative
    largest    (R, b) -> bound on |f| for complex s, |Re s| <= R and |Im s| <= b; infinite near a singularity
    least      (R, b) -> the same from below, where the error is relative and f is not odd
    """

    name: str
    exact: Callable[[Decimal], Decimal]
    radius: float
    shift: float
    slope: float
    condition: float
    largest: Callable[[float, float], float]
    least: Callable[[float, float], float] | None = None
    odd: bool = False
    levels_are_values: bool = False
    """The identity: nothing is fitted, a token's value is its level."""

    @property
    def relative(self) -> bool:
        """Whether errors are relative to f."""
        return self.odd or self.least is not None


def _right_of_zero(
    shift: float, bound: Callable[[float], float]
) -> Callable[[float, float], float]:
    """A bound in terms of the distance of s + shift to 0, if it stays on the right."""
    return lambda R, b: bound(shift - R) if shift > R else math.inf


def _erf_bound(R: float, b: float) -> float:
    # |erf(x + iy)| <= |erf x| + 2 / sqrt(pi) int_0^y exp(t^2 - x^2) dt
    return 1 + 1.13 * b * math.exp(b * b)


def _far(shift: float, R: float, b: float) -> float:
    """The largest |s + shift|."""
    return math.hypot(shift + R, b)


def _families(erf_radius: float) -> dict[str, Family]:
    centre4, centre2, centre = Decimal("2.5"), Decimal("1.5"), Decimal("1.125")
    families = (
        Family(
            "read",
            lambda s: s,
            4.0,
            0.0,
            1.0,
            1.0,
            math.hypot,
            odd=True,
            levels_are_values=True,
        ),
        Family(
            "sqrt",
            lambda s: (s + centre4).sqrt(),
            1.5,
            2.5,
            0.5,
            0.75,
            lambda R, b: math.sqrt(_far(2.5, R, b)),
            _right_of_zero(2.5, math.sqrt),
        ),
        Family(
            "rsqrt",
            lambda s: 1 / (s + centre4).sqrt(),
            1.5,
            2.5,
            0.5,
            0.75,
            _right_of_zero(2.5, lambda x: 1 / math.sqrt(x)),
            lambda R, b: 1 / math.sqrt(_far(2.5, R, b)),
        ),
        Family(
            "reciprocal",
            lambda s: 1 / (s + centre2),
            0.5,
            1.5,
            1.0,
            0.5,
            _right_of_zero(1.5, lambda x: 1 / x),
            lambda R, b: 1 / _far(1.5, R, b),
        ),
        Family(
            "log",
            lambda s: (s + centre).ln(),
            0.375,
            1.125,
            4 / 3,
            0.5,
            lambda R, b: (
                max(-math.log(1.125 - R), math.log(_far(1.125, R, b))) + math.pi / 2
                if R < 1.125
                else math.inf
            ),
        ),
        Family(
            "exp",
            lambda s: s.exp(),
            0.3475,
            0.0,
            1.42,
            0.3475,
            lambda R, b: math.exp(R),
            lambda R, b: math.exp(-R),
        ),
        Family("erf", exact_erf, erf_radius, 0.0, 1.13, 1.0, _erf_bound, odd=True),
        Family("sin", exact_sin, 1.5725, 0.0, 1.0, 1.0, lambda R, b: math.cosh(b), odd=True),
    )
    return {family.name: family for family in families}


FAMILIES = {torch.float64: _families(6.0), torch.float32: _families(3.96875)}
"""erf is 1 to rounding beyond 6 (float64) or 3.97 (float32)."""

TOKENS: dict[torch.dtype, dict[str, tuple[int, float, float]]] = {
    torch.float64: {
        "read": (28, 1.45, 8.25),
        "sqrt": (40, 1.4, 8.25),
        "rsqrt": (44, 1.4, 8.25),
        "reciprocal": (32, 1.45, 8.25),
        "log": (32, 1.45, 8.25),
        "exp": (28, 1.4, 8.25),
        "erf": (80, 1.7, 8.25),
        "sin": (28, 1.45, 8.25),
    },
    # At these rates no polynomial of a head leaves the range of float32.
    torch.float32: {
        "read": (20, 1.2, 6.0),
        "sqrt": (24, 1.2, 6.0),
        "rsqrt": (28, 1.2, 6.0),
        "reciprocal": (24, 1.2, 6.0),
        "log": (20, 1.2, 6.0),
        "exp": (20, 1.2, 6.0),
        "erf": (40, 1.45, 6.0),
        "sin": (20, 1.2, 6.0),
    },
}
"""Tokens, rho and margin of every head: the fewest tokens whose fit is exact to about one rounding."""
