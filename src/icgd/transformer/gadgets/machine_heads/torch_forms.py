"""The heads of a machine in torch operations: decode, evaluate the head on what is left, scale back.

Scaling is by powers of two, hence exact. What lies outside of a domain becomes NaN, so that it cannot pass
for an answer; who runs a program compares with `Ranges.domain` and says what happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from icgd.transformer.gadgets.machine_heads.families import LN2
from icgd.transformer.gadgets.machine_heads.ranges import MANTISSA, Ranges
from icgd.transformer.gadgets.machine_heads.ratio import Ratio

INTEGERS = {torch.float64: torch.int64, torch.float32: torch.int32}
BIAS = {torch.float64: 1023, torch.float32: 127}
EDGES = {"log": 0.75}
"""Where the interval u begins that range reduction leaves, 1 unless given."""


class TorchForms:
    """Every head as a function of a tensor.

    ratio   name -> the fitted head
    ranges  spans of exponents
    """

    def __init__(self, ratio: Callable[[str], Ratio], ranges: Ranges) -> None:
        self.ratio, self.ranges = ratio, ranges
        self.bits = MANTISSA[ranges.dtype]
        self.integer, self.bias = INTEGERS[ranges.dtype], BIAS[ranges.dtype]
        self.forms: dict[str, Callable[[Tensor], Tensor]] = {
            "sqrt": self.sqrt,
            "rsqrt": self.rsqrt,
            "reciprocal": self.reciprocal,
            "log": self.log,
            "exp": self.exp,
            "erf": self.erf,
            "sin": lambda q: self._turned(q, 0.0),
            "cos": lambda q: self._turned(q, 0.5),
            "sigmoid": torch.sigmoid,
            "tanh": torch.tanh,
        }

    def function(self, name: str, q: Tensor) -> Tensor:
        """The head of `name` for every entry."""
        return self.forms[name](q)

    def read(self, q: Tensor) -> Tensor:
        """What a product head reads for q."""
        if self.ranges.mode == "fixed":
            return self.ratio("read")(q)
        u, k = self._decoded(q, 2)
        value = self.ratio("read")(u) * self._power(2 * k)
        return self._limited(q.abs(), torch.where(q.abs() <= self.ranges.lowest, 0.0, value))

    def read_watched(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """What is read, and the largest |q| (NaN if one is)."""
        return self.read(q), q.abs().amax() if q.numel() else q.new_zeros(())

    def sqrt(self, q: Tensor) -> Tensor:
        """2^k sqrt(u)."""
        u, k = self._decoded(q, 2)
        value = torch.where(q <= self.ranges.lowest, 0.0, self._head("sqrt", u) * self._power(k))
        return torch.where(q < 0, math.nan, self._limited(q, value))

    def rsqrt(self, q: Tensor) -> Tensor:
        """2^-k / sqrt(u)."""
        u, k = self._decoded(q, 2)
        return self._positive(q, self._head("rsqrt", u) * self._power(-k))

    def reciprocal(self, q: Tensor) -> Tensor:
        """+- 2^-k / u."""
        size = q.abs()
        u, k = self._decoded(size, 1)
        value = self._positive(size, self._head("reciprocal", u) * self._power(-k))
        return torch.copysign(value, q)

    def log(self, q: Tensor) -> Tensor:
        """ln u + k ln 2."""
        u, k = self._decoded(q, 1, EDGES["log"])
        return self._positive(q, self._head("log", u) + k.to(q.dtype) * float(LN2))

    def exp(self, q: Tensor) -> Tensor:
        """2^n exp(r), q = n ln 2 + r."""
        low, high = self.ranges.powers
        n = torch.round(q * (1 / math.log(2))).clamp(low + 1, high - 1)
        first, second = self.ranges.ln2
        r = (q - n * first) - n * second
        value = self.ratio("exp")(r) * self._power(n)
        zero, top = self.ranges.exp_edges
        return torch.where(q > top, math.nan, torch.where(q <= zero, 0.0, value))

    def erf(self, q: Tensor) -> Tensor:
        """The head inside, its limits outside."""
        radius = self.ranges.erf_radius
        inside = self.ratio("erf")(q.clamp(-radius, radius))
        return torch.where(q.abs() > radius, torch.sign(q), inside)

    def _turned(self, q: Tensor, half: float) -> Tensor:
        """sin q = (-1)^n sin(q - n pi); cos q = -(-1)^n sin(q - (n + 1/2) pi)."""
        n = torch.floor(q * (1 / math.pi) + 0.5 - half)
        m = n + half
        first, second = self.ranges.pi
        value = self.ratio("sin")((q - m * first) - m * second)
        even = torch.remainder(n, 2.0) == 0
        flipped = torch.where(even, -value, value) if half else torch.where(even, value, -value)
        return torch.where(q.abs() > self.ranges.reach, math.nan, flipped)

    def _head(self, name: str, u: Tensor) -> Tensor:
        ratio = self.ratio(name)
        return ratio(u - ratio.fit.family.shift)

    def _positive(self, q: Tensor, value: Tensor) -> Tensor:
        return self._limited(q, torch.where(q <= self.ranges.lowest, math.nan, value))

    def _limited(self, size: Tensor, value: Tensor) -> Tensor:
        return torch.where(size > self.ranges.highest, math.nan, value)

    def _decoded(self, q: Tensor, step: int, edge: float = 1.0) -> tuple[Tensor, Tensor]:
        """(u, k) with q = 2^(step k) u, edge < |u| <= 2^step edge; exact."""
        start = int(torch.tensor(edge, dtype=q.dtype).view(self.integer))
        size = q.view(self.integer) & ((1 << (self.bits + self.bias.bit_length() + 1)) - 1)
        k = (size - (start + 1)) >> (self.bits + step - 1)
        low, high = self.ranges.exponents
        k = k.clamp(low // step, high // step)
        return q * self._power(-step * k), k

    def _power(self, exponent: Tensor) -> Tensor:
        """2^exponent."""
        whole = exponent.to(self.integer)
        return ((whole + self.bias) << self.bits).view(self.ranges.dtype)
