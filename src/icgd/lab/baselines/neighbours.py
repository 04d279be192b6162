"""The nearest examples of the prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import InvalidParameter
from icgd.lab.baselines.prefix import Baseline, Prefix


@dataclass(frozen=True)
class NearestNeighbours(Baseline):
    """The mean target of the k nearest examples, of all as long as there are fewer than k.

    weighting  "uniform", or "distance": weights 1 / distance, and only examples at distance 0 if there are any

    Of examples at one distance the earlier is nearer.
    """

    k: int = 3
    weighting: Literal["uniform", "distance"] = "uniform"

    def __post_init__(self) -> None:
        whole_number("k", self.k)
        if self.weighting not in ("uniform", "distance"):
            raise InvalidParameter("weighting", self.weighting, 'be "uniform" or "distance"')

    def predict(self, prefix: Prefix) -> Tensor:
        """Position by position."""
        predictions = [torch.zeros_like(prefix.ys[:, 0])]
        for i in range(1, prefix.n_positions):
            X, Y = prefix.examples(i)
            if not X.shape[1]:
                predictions.append(predictions[0])
                continue
            # Differences, not the expanded square: equal points must be at distance exactly 0.
            distance = (X - prefix.xs[:, i : i + 1]).norm(dim=-1)
            nearest, order = distance.sort(dim=1, stable=True)
            nearest, order = nearest[:, : self.k], order[:, : self.k]
            chosen = Y.gather(1, order.unsqueeze(-1).expand(-1, -1, Y.shape[2]))
            weight = self._weights(nearest)
            predictions.append((weight.unsqueeze(-1) * chosen).sum(1) / weight.sum(1, keepdim=True))
        return torch.stack(predictions, 1)

    def _weights(self, distance: Tensor) -> Tensor:
        if self.weighting == "uniform":
            return torch.ones_like(distance)
        same = distance == 0
        inverse = 1 / torch.where(same, 1.0, distance)
        return torch.where(same.any(1, keepdim=True), same.to(distance), inverse)
