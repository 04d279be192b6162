"""The standard model: a stack of blocks with a read-in and a read-out."""

from __future__ import annotations

from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.lab.models.base import InContextModel
from icgd.lab.models.block import Stack
from icgd.lab.models.config import ModelConfig


class StandardModel(InContextModel):
    """A GPT-2 that reads vectors; with softmax attention transformers' GPT2Model (`gpt2.py`)."""

    def __init__(self, config: ModelConfig, d_x: int, d_y: int) -> None:
        super().__init__(config, d_x, d_y)
        self.stack = Stack(config, config.n_layer)

    def states(self, P: Tensor, loops: int, first: int) -> list[Tensor]:
        """The asked tokens after the stack: one iterate."""
        if loops != 1:
            raise InvalidParameter("loops", loops, "be 1 for a standard model, which has no loop")
        return [self.stack(P, self.prompt.rows)]
