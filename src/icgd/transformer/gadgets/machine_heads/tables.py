"""The literal heads of every function: which buckets a range needs, and what each does."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import torch

from icgd.transformer.gadgets.heads.spectral_theory import (
    gaussian_moments,
    head_error,
    inflation,
    score_roundoff,
    summing,
)
from icgd.transformer.gadgets.machine_heads.families import LN2, PI, exactly
from icgd.transformer.gadgets.machine_heads.fitting import Fit
from icgd.transformer.gadgets.machine_heads.head_table import Bucket, HeadTable
from icgd.transformer.gadgets.machine_heads.ranges import SLACK, Ranges

HALF = Decimal("0.5")


def _decoded(
    ranges: Ranges, shift: float, step: int, edge: float, signs: tuple[float, ...]
) -> list[tuple[int, Bucket]]:
    """Buckets (edge 2^(step k), edge 2^(step (k+1))] that decode the span, with their k."""
    low, high = ranges.exponents
    last = high // step - (1 if edge == 1.0 else 0)
    buckets = []
    for k in range(low // step, last + 1):
        size = 2.0 ** (step * k)
        start = max(edge * size, ranges.lowest)
        end = min(edge * 2**step * size, ranges.highest)
        buckets += [(k, Bucket(start, end, sign, sign / size, -shift)) for sign in signs]
    return buckets


def _with(bucket: Bucket, gain: float, plus: float = 0.0) -> Bucket:
    return replace(bucket, gain=gain, plus=plus)


def _read(ranges: Ranges, shift: float) -> list[Bucket]:
    if ranges.mode == "fixed":
        return [Bucket()]
    pairs = _decoded(ranges, shift, 2, 1.0, (1.0, -1.0))
    return [_with(bucket, bucket.sign * 4.0**k) for k, bucket in pairs]


def _sqrt(ranges: Ranges, shift: float) -> list[Bucket]:
    return [_with(b, 2.0**k) for k, b in _decoded(ranges, shift, 2, 1.0, (1.0,))]


def _rsqrt(ranges: Ranges, shift: float) -> list[Bucket]:
    return [_with(b, 2.0**-k) for k, b in _decoded(ranges, shift, 2, 1.0, (1.0,))]


def _reciprocal(ranges: Ranges, shift: float) -> list[Bucket]:
    pairs = _decoded(ranges, shift, 1, 1.0, (1.0, -1.0))
    return [_with(b, b.sign * 2.0**-k) for k, b in pairs]


def _log(ranges: Ranges, shift: float) -> list[Bucket]:
    with exactly():
        pairs = _decoded(ranges, shift, 1, 0.75, (1.0,))
        return [_with(b, 1.0, ranges.rounded(k * LN2)) for k, b in pairs]


def _exp(ranges: Ranges, shift: float) -> list[Bucket]:
    low, high = ranges.powers
    first, second = ranges.ln2
    buckets = []
    with exactly():
        for n in range(low + 1, high):
            start, end = (ranges.rounded((n + side) * LN2) for side in (-HALF, HALF))
            buckets.append(Bucket(start, end, 1.0, 1.0, -n * first, -n * second, 2.0**n))
    return buckets


def _erf(ranges: Ranges, shift: float) -> list[Bucket]:
    R = ranges.erf_radius
    edge = torch.tensor(R, dtype=ranges.dtype)
    near = float(torch.nextafter(edge, torch.zeros_like(edge)))  # -R itself is outside
    return [
        Bucket(-R, R),
        Bucket(R, sign=1.0, scale=0.0, gain=0.0, plus=1.0),
        Bucket(near, sign=-1.0, scale=0.0, gain=0.0, plus=-1.0),
    ]


def _turned(ranges: Ranges, half: Decimal) -> list[Bucket]:
    first, second = ranges.pi
    slack = SLACK if half else Decimal(0)
    buckets = []
    with exactly():
        for n in range(-ranges.turns, ranges.turns + 1):
            centre = n + half
            start, end = (ranges.rounded((centre + side) * PI + slack) for side in (-HALF, HALF))
            high, low = -float(centre) * first, -float(centre) * second
            sign = (-1.0) ** n * (-1.0 if half else 1.0)
            buckets.append(Bucket(start, end, 1.0, 1.0, high, low, sign))
    return buckets


BUCKETS: dict[str, Callable[[Ranges, float], list[Bucket]]] = {
    "read": _read,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "reciprocal": _reciprocal,
    "log": _log,
    "exp": _exp,
    "erf": _erf,
    "sin": lambda ranges, shift: _turned(ranges, Decimal(0)),
    "cos": lambda ranges, shift: _turned(ranges, HALF),
}


def fitted_table(name: str, fit: Fit, ranges: Ranges) -> HeadTable:
    """The literal heads of a fitted function."""
    g, dtype = fit.sums.geometry, fit.dtype
    level = torch.tensor(g.levels(), dtype=torch.float64)
    buckets = BUCKETS[name](ranges, fit.family.shift)
    return HeadTable(
        name,
        (2 * g.beta * level).to(dtype),
        (-g.beta * level * level).to(dtype),
        fit.values().to(dtype),
        tuple(buckets),
        g.radius,
        literal_error(fit),
    )


def literal_error(fit: Fit) -> float:
    """Bound on the error of the softmax over the tokens, evaluated as matrices are: absolute.

    A score rate_j s + offset_j errs by u (4 beta (2 |s L| + L^2 + s^2) + 3), its weight relatively by as much;
    with deviations of values at most 2 max |c| and the moments of L under the weights that bounds the mean.
    """
    g = fit.sums.geometry
    u = torch.finfo(fit.dtype).eps / 2
    if fit.family.levels_are_values:
        return head_error(g, g.radius, u)
    m, a = gaussian_moments(g.rho, g.margin), g.radius
    near = a + g.sigma * m.first
    squares = a * a + 2 * a * g.sigma * m.first + g.sigma**2 * m.second
    score = 4 * g.beta * (2 * a * near + squares + a * a) + 3
    value = 2 * fit.largest_value
    inflate = inflation(score_roundoff(g, u))
    return fit.error + inflate * u * value * score + summing(g, u) * 2 * value


def native_table(name: str, dtype: torch.dtype) -> HeadTable:
    """sigmoid by two tokens, tanh by three: a softmax at its most ordinary, without a grid.

    sigmoid  scores (q, 0), values (1, 0)
    tanh     scores (4 q, 2 q, 0) + (0, ln 2, 0), values (1, 0, -1): w_0 - w_2 = tanh q, 2 w_1 = 1 - tanh(q)^2

    The only error is rounding: of scores, at most 5 |q| u where the weight is not yet constant, of exp, sum and
    quotient.
    """
    u = torch.finfo(dtype).eps / 2
    rows = {
        "sigmoid": [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]],
        "tanh": [[4.0, 2.0, 0.0], [0.0, math.log(2), 0.0], [1.0, 0.0, -1.0]],
    }[name]
    rates, offsets, values = (torch.tensor(row, dtype=dtype) for row in rows)
    return HeadTable(name, rates, offsets, values, (Bucket(),), math.inf, 16 * u)
