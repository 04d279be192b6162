"""What the weights of a model take, checked before they are drawn."""

from __future__ import annotations

from icgd.base.preflight import Part, require_room
from icgd.lab.models.config import ModelConfig

NUMBER = 4
"""Bytes: models of the laboratory are float32."""
BLOCK_SECONDS, RESET_SECONDS = 3e-4, 1.5e-8
"""To make the objects of a block, and to draw a weight."""


def n_blocks(model: ModelConfig) -> int:
    """Blocks with weights of their own."""
    if model.kind != "algoformer":
        return model.n_layer
    ends = (model.n_pre, model.n_post)
    return model.n_layer + sum(model.n_layer if n is None else n for n in ends)


def model_parts(model: ModelConfig, copies: float = 1.0) -> list[Part]:
    """Weights: once to build a model, more often to train it."""
    d, hidden, blocks = model.n_embd, model.hidden, n_blocks(model)
    each, number = copies * NUMBER, RESET_SECONDS
    attention, forward = 4 * d * (d + 1) + 4 * d, hidden * (2 * d + 1)
    deep = blocks > max(d, hidden) / 8
    where = ("model.n_layer", model.n_layer) if deep else ("model.n_embd", d)
    return [
        Part(
            *where,
            each * blocks * attention + 1.2e4 * blocks,
            number * blocks * attention + BLOCK_SECONDS * blocks,
        ),
        Part(
            "model.d_mlp" if model.d_mlp else where[0],
            model.d_mlp or where[1],
            each * blocks * forward,
            number * blocks * forward,
        ),
        Part(
            "model.n_positions",
            model.n_positions,
            each * model.max_tokens * d,
            number * model.max_tokens * d,
        ),
    ]


def check_model(model: ModelConfig) -> None:
    """Refuse a model that does not fit, before its weights are drawn."""
    require_room("Building the model", model_parts(model))
