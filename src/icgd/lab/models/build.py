"""From a configuration to a model with initial weights."""

from __future__ import annotations

import torch

from icgd.lab.models.algoformer import AlgoFormer
from icgd.lab.models.base import InContextModel
from icgd.lab.models.config import ModelConfig
from icgd.lab.models.looped import LoopedModel
from icgd.lab.models.sizes import check_model
from icgd.lab.models.standard import StandardModel

MODELS: dict[str, type[InContextModel]] = {
    "standard": StandardModel,
    "looped": LoopedModel,
    "algoformer": AlgoFormer,
}


def build_model(
    config: ModelConfig, d_x: int, d_y: int, *, generator: torch.Generator | None = None
) -> InContextModel:
    """A model for prompts of d_x inputs and d_y outputs.

    generator   of the initial weights; None: PyTorch's global one

    >>> model = build_model(ModelConfig(n_layer=1, n_head=2, n_embd=8, n_positions=4), 3, 1)
    >>> model(torch.ones(5, 4, 3), torch.ones(5, 4, 1)).shape
    torch.Size([5, 4, 1])
    """
    check_model(config)
    model = MODELS[config.kind](config, d_x, d_y)
    model.reset(generator)
    return model
