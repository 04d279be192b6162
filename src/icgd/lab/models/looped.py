"""The looped model: one stack applied again and again, given the prompt anew every time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from icgd.lab.models.base import InContextModel
from icgd.lab.models.block import Rows, Stack
from icgd.lab.models.config import ModelConfig


class LoopedModel(InContextModel):
    """h_0 = 0, h_t = stack(h_{t-1} + P): the looped transformer of Yang et al. (2024).

    P is the prompt as read in, with positions. The stack ends in its LayerNorm, so that one loop is the
    standard model and no state grows with the loops. Without injection h_0 = P and h_t = stack(h_{t-1}).
    """

    def __init__(self, config: ModelConfig, d_x: int, d_y: int) -> None:
        super().__init__(config, d_x, d_y)
        self.stack = Stack(config, config.n_layer)

    def states(self, P: Tensor, loops: int, first: int) -> list[Tensor]:
        """The asked tokens after iterations first .. loops."""
        rows = self.prompt.rows
        iterates = looped(self.stack, P, loops, first, self.config, rows)
        return [h if t == loops or rows is None else h[:, rows] for t, h in iterates]


def looped(
    stack: Stack, P: Tensor, loops: int, first: int, config: ModelConfig, rows: Rows = None
) -> Iterator[tuple[int, Tensor]]:
    """Iterations first .. loops as (number, tokens); of the last one only `rows` if given."""
    h = P
    for t in range(1, loops + 1):
        injected = h + P if config.inject and t > 1 else h
        if t < first and config.truncate:
            with torch.no_grad():
                h = stack(injected)
        else:
            h = stack(injected, rows if t == loops else None)
        if t >= first:
            yield t, h
