"""What a position may use: the examples before it, and its own input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import InvalidParameter
from icgd.lab.tasks.batch import Batch

Features = Callable[[Batch], Tensor]
"""(B, n, p) features of every position, each from its own prefix alone."""


@dataclass(frozen=True)
class Prefix:
    """The examples in front of each position, in float64.

    xs, ys  (B, n, p), (B, n, d_y)
    usable  (n, n) bool: row i says which examples position i may use, all of them before i
    """

    xs: Tensor
    ys: Tensor
    usable: Tensor

    @property
    def n_positions(self) -> int:
        """Positions of a prompt."""
        return int(self.xs.shape[1])

    def examples(self, i: int) -> tuple[Tensor, Tensor]:
        """Inputs (B, m, p) and targets (B, m, d_y) that position i may use."""
        chosen = self.usable[i]
        return self.xs[:, chosen], self.ys[:, chosen]

    def counts(self) -> Tensor:
        """(n,): how many examples each position has, at least 1 so that one can divide by it."""
        return self.usable.sum(1).clamp(min=1).to(self.xs)

    def sums(self, per_example: Tensor) -> Tensor:
        """Sums of (B, n, ...) numbers over the examples of every position, (B, n, ...)."""
        flat = per_example.flatten(2)
        return (self.usable.to(flat) @ flat).unflatten(2, per_example.shape[2:])


def prefix_of(batch: Batch, features: Features | None = None, period: int | None = None) -> Prefix:
    """The examples that each position of a batch may use.

    features  map of the batch to (B, n, p) features in place of xs
    period    use only examples at a distance of a multiple of it (a chain's states of one layer)

    In a series a target that nothing predicts is no example: positions that are not counted are left out.
    """
    xs = batch.xs if features is None else features(batch)
    n = batch.n_points
    if tuple(xs.shape[:2]) != tuple(batch.ys.shape[:2]):
        raise InvalidParameter(
            "features", tuple(xs.shape), f"be of shape {tuple(batch.ys.shape[:2])} + (p,)"
        )
    at = torch.arange(n, device=xs.device)
    usable = at[:, None] > at[None, :]
    if period is not None:
        usable &= (at[:, None] - at[None, :]) % whole_number("period", period) == 0
    if batch.kind == "series" and batch.counted is not None:
        usable &= batch.counted.to(xs.device)[None, :]
    return Prefix(xs.double(), batch.ys.double(), usable)


@dataclass(frozen=True)
class Baseline(ABC):
    """A predictor without training: baseline(batch) is (B, n, d_y), every position from its prefix alone.

    features, period  of `prefix_of`

    Positions without an example get 0. Computed in float64, given back in the precision of the targets.
    """

    _: KW_ONLY
    features: Features | None = None
    period: int | None = None

    def __call__(self, batch: Batch) -> Tensor:
        """Predictions (B, n, d_y)."""
        return self.predict(self.prefix(batch)).to(batch.ys.dtype)

    def prefix(self, batch: Batch) -> Prefix:
        """What the positions of a batch may use."""
        return prefix_of(batch, self.features, self.period)

    @abstractmethod
    def predict(self, prefix: Prefix) -> Tensor:
        """Predictions in float64."""
