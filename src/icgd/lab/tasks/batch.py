"""A batch of prompts, whatever the task: what every model reads and every baseline solves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

PromptKind = Literal["pairs", "series"]


@dataclass(frozen=True)
class Batch:
    """Prompts of one task; position i is predicted from everything before it and x_i.

    xs, ys   (B, n, d_x), (B, n, d_y)
    kind     "pairs": the tokens are x_1 y_1 x_2 y_2 ...;  "series": they are x_1 x_2 ..., and y_i is what
             follows x_i
    counted  (n,) bool: positions that enter losses and metrics; None: all of them
    """

    xs: Tensor
    ys: Tensor
    kind: PromptKind = "pairs"
    counted: Tensor | None = None

    @property
    def n_points(self) -> int:
        """Positions of a prompt."""
        return int(self.xs.shape[1])

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        counted = None if self.counted is None else self.counted.to(device)
        return Batch(self.xs.to(device), self.ys.to(device), self.kind, counted)

    def mean(self, per_position: Tensor) -> Tensor:
        """The mean of (..., n) numbers over the positions that count."""
        return (
            per_position.mean() if self.counted is None else per_position[..., self.counted].mean()
        )
