"""Heads as they stand in a literal layer: tokens, buckets, thermometers and a sink.

A bucket is one softmax head of its own for the number s it is asked. It attends over tokens with scores
    rate_j (scale s + shift) + rate_j low_shift + offset_j
and over one sink token, whose value is 0 and whose score is -C0 + C off(s). It contributes
    sum_j w_j (gain value_j + plus),
and a function is the sum over its buckets. Where a bucket is open, off is exactly 0 and the sink weighs exactly
nothing; where it is shut, off >= 1 and every token weighs exactly nothing. So exactly one bucket answers.

The thermometer of a bucket open on low < sign s <= high has two ReLU units at most,
    off = relu(1 - K (sign s - low)) + relu(K' (sign s - high)),
where 1 / K and 1 / K' are the spacing of floats beyond low and high: powers of two, so that the units are
exact where they are near 0, and off by a rounding at worst elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.transformer.gadgets.machine_heads.ranges import MANTISSA

UNDERFLOW = 800.0
"""exp(-UNDERFLOW) is 0, in float32 and in float64."""


@dataclass(frozen=True)
class Bucket:
    """One literal head: open on low < sign s <= high."""

    low: float = -math.inf
    high: float = math.inf
    sign: float = 1.0
    scale: float = 1.0
    shift: float = 0.0
    low_shift: float = 0.0
    gain: float = 1.0
    plus: float = 0.0

    def units(self, dtype: torch.dtype) -> tuple[tuple[float, float], ...]:
        """(coefficient, bias) of the ReLU units of s whose sum is `off`; none if always open.

        >>> Bucket(1.0, 4.0).units(torch.float64) == ((-(2.0**52), 2.0**52 + 1), (2.0**50, -(2.0**52)))
        True
        """
        units = []
        if self.low > -math.inf:
            slope = _per_spacing(self.low, dtype)
            units.append((-self.sign * slope, 1.0 + slope * self.low))
        if self.high < math.inf:
            slope = _per_spacing(self.high, dtype)
            units.append((self.sign * slope, -slope * self.high))
        return tuple(units)

    def off(self, s: Tensor) -> Tensor:
        """The thermometer: 0 where the bucket is open, at least 1 where it is shut."""
        off = torch.zeros_like(s)
        for slope, bias in self.units(s.dtype):
            off = off + torch.relu(slope * s + bias)
        return off

    def holds(self, s: Tensor) -> Tensor:
        """Whether the bucket is open."""
        return (self.sign * s > self.low) & (self.sign * s <= self.high)


def _per_spacing(edge: float, dtype: torch.dtype) -> float:
    """1 / the spacing of floats just above an edge."""
    if edge == 0 or (edge < 0 and math.frexp(edge)[0] == -0.5):
        raise AssumptionViolated(
            f"A bucket cannot end at {edge:g}: floats are not evenly spaced around it. Move the edge."
        )
    return 2.0 ** (MANTISSA[dtype] + 1 - math.frexp(edge)[1])


@dataclass(frozen=True)
class HeadTable:
    """A function as literal heads.

    rates, offsets, values  of the tokens, all buckets share them
    buckets   one literal head each
    error     bound on what a bucket's softmax mean, literally evaluated, errs by: absolute, before the gain
    """

    name: str
    rates: Tensor
    offsets: Tensor
    values: Tensor
    buckets: Sequence[Bucket]
    radius: float
    error: float

    @property
    def dtype(self) -> torch.dtype:
        """Of the tokens."""
        return self.rates.dtype

    @property
    def sink(self) -> tuple[float, float]:
        """(C0, C): the sink's score is -C0 + C off.

        The largest score of a token at an edge is S; beyond it the thermometer rises faster than any score.
        """
        reach = self.radius if math.isfinite(self.radius) else 0.0
        largest = float((self.rates.abs() * 1.01 * reach + self.offsets.abs()).max())
        C0 = 2.0 ** math.ceil(math.log2(UNDERFLOW + largest))
        return C0, 4 * C0

    @property
    def n_tokens(self) -> int:
        """Tokens of a head, the sink aside."""
        return self.rates.numel()

    def bucket_values(self, bucket: Bucket) -> Tensor:
        """What the tokens hold in a bucket: gain value_j + plus."""
        return bucket.gain * self.values + bucket.plus

    def literal(self, s: Tensor) -> Tensor:
        """The sum over all buckets of softmax over tokens and sink, as matrices compute it."""
        return sum((self.contribution(bucket, s) for bucket in self.buckets), torch.zeros_like(s))

    def contribution(self, bucket: Bucket, s: Tensor) -> Tensor:
        """What one bucket adds for every entry of s."""
        local = (bucket.scale * s + bucket.shift).unsqueeze(-1)
        scores = local * self.rates + (self.rates * bucket.low_shift + self.offsets)
        if bucket.units(self.dtype):
            C0, C = self.sink
            sink = (C * bucket.off(s) - C0).unsqueeze(-1)
            scores = torch.cat([scores, sink], dim=-1)
        weights = torch.softmax(scores, dim=-1)[..., : self.n_tokens]
        return weights @ self.bucket_values(bucket)

    def literal_error(self, s: Tensor) -> Tensor:
        """Bound on |literal(s) - f(s)| where a bucket is open; infinite where none is."""
        u = torch.finfo(self.dtype).eps / 2
        bound = torch.full_like(s, math.inf)
        for bucket in self.buckets:
            rounding = 4 * u * (self.n_tokens + 8) * abs(bucket.plus)
            bound = torch.where(bucket.holds(s), abs(bucket.gain) * self.error + rounding, bound)
        return bound
