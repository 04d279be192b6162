"""Who executes a tape, and how far each of its answers may be from the exact one.

Both sides of a comparison are bounded against the same exact tape: the machine, whose heads err by their
certificates, and PyTorch, whose functions err by a few units in the last place. Both may take sums in
any order, with or without fused multiply-adds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from icgd.transformer.gadgets.machine_heads.head_table import HeadTable
from icgd.transformer.gadgets.machine_heads.heads import Heads

TORCH_FUNCTION = 8.0
"""Relative error of PyTorch's exp, log, erf, ... in units of u: four units in the last place."""
TORCH_FACTOR = 4
"""A factor on a route may stand for so many multiplications or divisions of PyTorch: 1 / n, 2 alpha, ..."""


class Side(Protocol):
    """One of those who execute a tape.

    u        unit roundoff
    sums     how often PyTorch or a matrix may round where the tape rounds a sum once
    factors  the same for a factor on a route
    tiny     absolute error of a result that may underflow
    odd      whether functions that are 0 at 0 are exactly so
    """

    u: float
    sums: int
    factors: int
    tiny: float
    odd: bool

    def read(self, least: Tensor, size: Tensor) -> Tensor:
        """Bound on what the factor of a product is misread by, least <= |factor| <= size."""

    def function(self, name: str, low: Tensor, high: Tensor, size: Tensor) -> Tensor:
        """Bound on the error of a function on low..high, where |f| <= size; infinite where it has no answer."""


class TorchSide:
    """PyTorch, with its own operations in the order of the tape or any other.

    Where PyTorch has one kernel for several instructions (log_softmax, gelu) its error is taken to be no larger
    than theirs together.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        limits = torch.finfo(dtype)
        self.u, self.tiny = limits.eps / 2, limits.tiny
        self.sums, self.factors, self.odd = 1, TORCH_FACTOR, True

    def read(self, least: Tensor, size: Tensor) -> Tensor:
        """PyTorch reads exactly."""
        return torch.zeros_like(size)

    def function(self, name: str, low: Tensor, high: Tensor, size: Tensor) -> Tensor:
        """A few units in the last place."""
        return TORCH_FUNCTION * self.u * size + self.tiny


class MachineSide:
    """The machine with its fast executor: heads evaluated to full precision."""

    def __init__(self, heads: Heads) -> None:
        self.heads = heads
        limits = torch.finfo(heads.dtype)
        self.u, self.tiny = limits.eps / 2, limits.tiny
        self.sums, self.factors, self.odd = 1, 1, True

    def read(self, least: Tensor, size: Tensor) -> Tensor:
        """The head's error; numbers that are too small are read as 0, others beyond the domain not at all."""
        error = self.heads.error("read")
        bound = torch.where(size == 0, 0.0, error.relative * size + error.absolute)
        return self._readable(least, size, bound)

    def _readable(self, least: Tensor, size: Tensor, bound: Tensor) -> Tensor:
        domain = self.heads.domain("read")
        lost = torch.where(least <= domain.zero_below, size.clamp(max=domain.zero_below), 0.0)
        return torch.where(domain.contains(size), torch.maximum(bound, lost), math.inf)

    def function(self, name: str, low: Tensor, high: Tensor, size: Tensor) -> Tensor:
        """The head's error, relative to what it may compute."""
        error = self.heads.error(name)
        bound = (error.relative * size + error.absolute) / (1 - error.relative) + self.tiny
        return self._in_domain(name, low, high, bound)

    def _in_domain(self, name: str, low: Tensor, high: Tensor, bound: Tensor) -> Tensor:
        domain, below = self.heads.domain(name), self.heads.error(name).below
        if below:
            answered_by_0 = (low <= domain.zero_below) & ~((low == 0) & (high == 0))
            bound = torch.where(answered_by_0, bound.clamp(min=below), bound)
        inside = domain.contains(low) & domain.contains(high)
        if (
            domain.of_size and domain.open_low
        ):  # an interval around 0 meets what lies below the domain
            inside &= (low > 0) | (high < 0)
        return torch.where(inside, bound, math.inf)


class LiteralSide(MachineSide):
    """The machine with literal matrices: every head is a softmax over its tokens."""

    def __init__(self, heads: Heads) -> None:
        super().__init__(heads)
        self._buckets: dict[str, _Errors] = {}
        self.sums, self.odd = 2, False  # positive and negative parts are summed apart

    def read(self, least: Tensor, size: Tensor) -> Tensor:
        """The error of the literal head, and of values multiplied into its tokens."""
        domain, bound = self.heads.domain("read"), self._literal(self.heads.table("read"), size)
        if domain.zero_below:  # no bucket answers: exactly 0
            bound = torch.where(size <= domain.zero_below, 0.0, bound)
        return self._readable(least, size, bound)

    def function(self, name: str, low: Tensor, high: Tensor, size: Tensor) -> Tensor:
        """The error of the literal heads at either end; their gains are monotone between."""
        error, table = self.heads.error(name), self.heads.table(name)
        ends = [self._literal(table, end) for end in (low, high)]
        bound = torch.maximum(*ends)
        bound = torch.where((low < 0) & (high > 0), bound.clamp(min=table.error), bound)
        unanswered = ~bound.isfinite()
        bound = torch.where(unanswered, error.below, bound) + error.absolute + self.tiny
        return self._in_domain(name, low, high, bound)

    def _literal(self, table: HeadTable, s: Tensor) -> Tensor:
        """Of the bucket that a number lies in, or of both at an edge; infinite where there is none."""
        if table.name not in self._buckets:
            self._buckets[table.name] = _Errors.of(table, self.u)
        known = self._buckets[table.name]
        below, above = (torch.full_like(s, end) for end in (-math.inf, math.inf))
        answers = [known(torch.nextafter(s, end)) for end in (below, above)]
        bound = torch.maximum(*answers)
        return torch.where(bound.isfinite(), bound, torch.minimum(*answers))


@dataclass(frozen=True)
class _Errors:
    """Bounds on the error of literal heads, bucket by bucket, in the order of the numbers they are open for."""

    starts: Tensor
    ends: Tensor
    errors: Tensor

    @classmethod
    def of(cls, table: HeadTable, u: float) -> _Errors:
        """Out of a table; see HeadTable.literal_error. Products multiply values into the tokens first."""
        n, largest = table.n_tokens, float(table.values.abs().max())
        rows = []
        for bucket in table.buckets:
            start, end = sorted((bucket.sign * bucket.low, bucket.sign * bucket.high))
            error = abs(bucket.gain) * (table.error + 4 * u * (n + 8) * largest)
            rows.append((start, end, error + 4 * u * (n + 8) * abs(bucket.plus)))
        return cls(*torch.tensor(sorted(rows), dtype=torch.float64).T.contiguous())

    def __call__(self, s: Tensor) -> Tensor:
        """For numbers that are no edges."""
        at = (torch.searchsorted(self.starts, s.contiguous(), right=True) - 1).clamp(min=0)
        inside = (s >= self.starts[at]) & (s <= self.ends[at])
        return torch.where(inside, self.errors[at], math.inf)
