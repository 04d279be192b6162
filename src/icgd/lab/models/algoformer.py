"""The AlgoFormer: a stack that prepares, one that is looped, one that concludes."""

from __future__ import annotations

from torch import Tensor

from icgd.lab.models.base import InContextModel
from icgd.lab.models.block import Stack
from icgd.lab.models.config import ModelConfig
from icgd.lab.models.looped import looped


class AlgoFormer(InContextModel):
    """post(loop(... loop(pre(P)))), trained on the iterates of its last loops.

    Statement: [ALGO] Equations 2 and 6

    h_0 = 0, h_t = loop(h_{t-1} + pre(P)), prediction t = post(h_t); the loss is the mean over
    t = T0 .. T, T0 = max(T - dT, 1).

    Differs from the paper: Equation 2 shows no injection of pre(P), which is `inject=False` here:
    h_0 = pre(P), h_t = loop(h_{t-1}). Equation 6 divides T - T0 + 1 terms by T - T0 (which is 0 for
    dT = 0) and lets T0 be 0, no loop at all; here it is their mean, and T0 >= 1. Every stack ends in a
    LayerNorm.
    """

    def __init__(self, config: ModelConfig, d_x: int, d_y: int) -> None:
        super().__init__(config, d_x, d_y)
        n_layer = config.n_layer
        self.pre = Stack(config, n_layer if config.n_pre is None else config.n_pre)
        self.loop = Stack(config, n_layer)
        self.post = Stack(config, n_layer if config.n_post is None else config.n_post)

    def states(self, P: Tensor, loops: int, first: int) -> list[Tensor]:
        """The asked tokens of post, applied to every iterate first .. loops."""
        iterates = looped(self.loop, self.pre(P), loops, first, self.config)
        return [self.post(h, self.prompt.rows) for _, h in iterates]
