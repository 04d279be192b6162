"""How well softmax heads multiply when they are run in their linear range, and at which scale best.

A head with a sink of score C and scores z_j = c s_j gives e^C softmax_j = e^{z_j} / (1 + e^{-C} sum_l e^{z_l}).
Differences of such heads approximate s_j = z_j / c:
    printed   (e^z - 1) / c                          relative error |z| / 2
    sym       sinh(z) / c                            z^2 / 6
    four      (8 sinh(z) - sinh(2z)) / (6 c)         z^4 / 30
each with a factor 1 - N e^{-C} from the sink, and with rounding: softmax computes exp(z - C), so that z is
known to half a unit in the last place of C, which costs ulp(C) / (2c) per number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from icgd.errors import InvalidParameter

MODES = ("printed", "sym", "four")
SINK = {2.0**-53: 31.9, 2.0**-24: 15.9}
"""Just below a power of two: above it the unit in the last place doubles."""
_ORDER = {"printed": 1, "sym": 2, "four": 4}
_FACTOR = {"printed": 0.5, "sym": 1 / 6, "four": 1 / 30}
_NOISE = {"printed": 2.0, "sym": 1.0, "four": 1.5}
"""Sum of |weights| of the heads, times c."""


@dataclass(frozen=True)
class Linearised:
    """A chosen mode at a chosen scale: heads (factor of s in the score, weight before e^C)."""

    mode: str
    C: float
    c: float
    heads: tuple[tuple[float, float], ...]


def check_mode(mode: str) -> str:
    """One of the linearised modes."""
    if mode not in MODES:
        raise InvalidParameter("mode", mode, f"be one of {', '.join((*MODES, 'spectral'))}")
    return mode


def curvature_error(mode: str, z: float) -> float:
    """Relative error of reading z off the mode's heads: leading order, |z| small.

    >>> curvature_error("sym", 1e-3) < 2e-7
    True
    """
    return _FACTOR[check_mode(mode)] * abs(z) ** _ORDER[mode]


def last_place(C: float, eps: float = 2.0**-52) -> float:
    """The unit in the last place of C, in a format whose 1 is followed by 1 + eps.

    >>> last_place(31.9) == math.ulp(31.9)
    True
    """
    return eps * 2.0 ** (math.frexp(C)[1] - 1)


def rounding_error(mode: str, z: float, C: float, ulp: float | None = None) -> float:
    """Error per unit of the largest number, from z being known to half an ulp of C."""
    return _NOISE[check_mode(mode)] * (last_place(C) if ulp is None else ulp) / 2 / abs(z)


def best_z(mode: str, C: float, ulp: float | None = None) -> float:
    """The scale z* = c max|s| at which curvature and rounding together are smallest.

    Statement: [ALGO] Lemma A.2

    Differs from the paper: it takes c to 0, where rounding takes over.

    >>> 1e-5 < best_z("sym", 31.9) < 1e-4
    True
    """
    p, a = _ORDER[check_mode(mode)], _FACTOR[mode]
    b = _NOISE[mode] * (last_place(C) if ulp is None else ulp) / 2
    return (b / (a * p)) ** (1 / (p + 1))


def error_law(mode: str, *, n_tokens: int, C: float, z: float, ulp: float | None = None) -> float:
    """Error of sum_j v_j s_j per unit of max|s| sum_j |v_j|: sink + curvature + rounding.

    ulp  unit in the last place of C, that of float64 unless given
    """
    sink = n_tokens * math.exp(-C)
    return sink + curvature_error(mode, z) + rounding_error(mode, z, C, ulp)


def linearised(
    mode: str, bound: float, *, C: float, c: float | None = None, ulp: float | None = None
) -> Linearised:
    """Heads of a mode for |s| <= bound, at the best scale unless c is given."""
    if not (math.isfinite(bound) and bound > 0):
        raise InvalidParameter("bound", bound, "be a finite number > 0")
    c = best_z(mode, C, ulp) / bound if c is None else c
    heads = {
        "printed": ((c, 1 / c), (0.0, -1 / c)),
        "sym": ((c, 0.5 / c), (-c, -0.5 / c)),
        "four": (
            (c, 2 / (3 * c)),
            (-c, -2 / (3 * c)),
            (2 * c, -1 / (12 * c)),
            (-2 * c, 1 / (12 * c)),
        ),
    }[check_mode(mode)]
    return Linearised(mode, C, c, heads)
