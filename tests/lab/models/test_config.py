"""A configuration that cannot be is refused when it is made, by name, value and remedy."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from icgd.errors import InvalidParameter
from icgd.lab.models.config import ModelConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"n_head": 5, "n_embd": 64},
            r"`n_head` must divide n_embd = 64. Got 5. For example n_head=4.",
        ),
        (
            {"n_head": 7, "n_embd": 5},
            r"`n_head` must divide n_embd = 5. Got 7. For example n_head=5.",
        ),
        ({"n_head": 0}, r"`n_head` must be >= 1. Got 0."),
        ({"n_layer": 0}, r"`n_layer` must be >= 1. Got 0."),
        ({"n_embd": -8}, r"`n_embd` must be >= 1. Got -8."),
        ({"d_mlp": 0}, r"`d_mlp` must be >= 1. Got 0."),
        ({"n_positions": 0}, r"`n_positions` must be >= 1"),
        ({"kind": "looped", "loops": 0}, r"`loops` must be >= 1. Got 0."),
        ({"kind": "looped", "window": -1}, r"`window` must be >= 0. Got -1. 0 counts the last"),
        ({"kind": "standard", "loops": 3}, r"`loops` must be left out for kind='standard'"),
        ({"kind": "standard", "window": 3}, r"`window` must be left out for kind='standard'"),
        ({"kind": "looped", "n_pre": 1}, r"`n_pre` must be left out for kind='looped'"),
        ({"kind": "algoformer", "n_post": 0}, r"`n_post` must be >= 1. Got 0."),
        ({"dropout": 0.1}, r"`dropout` must be 0. Got 0.1."),
        ({"kind": "rnn"}, r"`kind` must be 'standard', 'looped' or 'algoformer'. Got 'rnn'."),
        ({"attention": "cosine"}, r"`attention` must be 'softmax', 'relu' or 'linear'"),
        ({"layout": "wide"}, r"`layout` must be 'interleaved', 'concatenated' or 'series'"),
        ({"n_layer": "three"}, r"`n_layer` must be a valid integer. Got 'three'."),
        ({"n_layer": True}, r"`n_layer` must be a valid integer. Got True."),
        ({"layers": 3}, r"`layers` must be a setting of a model. Got 3. Known: kind, n_layer,"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(InvalidParameter, match=message):
        ModelConfig(**settings)


def test_inside_another_model_it_is_that_models_error_with_the_same_words():
    class Outer(BaseModel):
        model: ModelConfig

    with pytest.raises(ValidationError, match="`n_head` must divide n_embd = 64"):
        Outer(model={"n_head": 5})


def test_it_goes_through_json_unchanged():
    config = ModelConfig(kind="algoformer", loops=20, window=15, n_pre=2, attention="relu")
    assert ModelConfig.model_validate_json(config.model_dump_json()) == config
    assert ModelConfig(**config.model_dump()) == config


def test_sizes_that_follow():
    assert ModelConfig(n_embd=12, n_head=3).hidden == 48
    assert ModelConfig(d_mlp=7).hidden == 7
    assert ModelConfig(n_positions=41).max_tokens == 82
    assert ModelConfig(n_positions=41, layout="series").max_tokens == 41
