"""The standard softmax model is transformers' GPT2Model, in both directions."""

from __future__ import annotations

import sys

import pytest
import torch
from model_cases import make, predict, prompts

from icgd.errors import IcgdError, InvalidParameter
from icgd.lab.models.gpt2 import from_gpt2, load_gpt2, to_gpt2

transformers = pytest.importorskip("transformers")

SHAPES = [
    {"n_layer": 1, "n_head": 1, "n_embd": 1, "n_positions": 6},
    {"n_layer": 2, "n_head": 2, "n_embd": 8, "n_positions": 9},
    {"n_layer": 3, "n_head": 4, "n_embd": 12, "n_positions": 6, "d_mlp": 5},
    {"n_layer": 1, "n_head": 8, "n_embd": 64, "n_positions": 40},
]


def by_gpt2(model, gpt2, batch):
    """What a loop around GPT2Model predicts, from the definition of the layout."""
    with torch.no_grad():
        if model.config.layout == "interleaved":
            n_batch, n, d = batch.xs.shape
            width = max(d, model.d_y)
            tokens = torch.zeros(n_batch, 2 * n, width, dtype=batch.xs.dtype)
            for i in range(n):
                tokens[:, 2 * i, :d] = batch.xs[:, i]
                tokens[:, 2 * i + 1, : model.d_y] = batch.ys[:, i]
            step = 2
        else:
            tokens, step = batch.xs, 1
        states = gpt2(inputs_embeds=model.prompt.read_in(tokens)).last_hidden_state
        return model.read_out(states)[:, ::step]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", ["interleaved", "series"])
@pytest.mark.parametrize("n", [1, 6])
def test_the_same_outputs(shape, layout, n):
    model = make(**shape, layout=layout, spread=0.2, seed=3)
    batch = prompts(model, n=n)
    found, theirs = predict(model, batch), by_gpt2(model, to_gpt2(model).eval(), batch)
    assert float((found - theirs).abs().max()) <= 1e-12 * (1 + float(theirs.abs().max()))


@pytest.mark.parametrize("shape", SHAPES[1:3], ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_gpt2_of_their_own_weights_comes_over(shape, seed):
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=5,
        n_positions=2 * shape["n_positions"],
        n_embd=shape["n_embd"],
        n_layer=shape["n_layer"],
        n_head=shape["n_head"],
        n_inner=shape.get("d_mlp"),
        bos_token_id=0,
        eos_token_id=0,
    )
    gpt2 = transformers.GPT2Model(config).double().eval()
    model = from_gpt2(gpt2, 3, 2)
    batch = prompts(model, n=5, seed=seed)
    theirs = by_gpt2(model, gpt2, batch)
    assert float((predict(model, batch) - theirs).abs().max()) <= 1e-12


def test_there_and_back_is_the_same_to_the_bit():
    model = make(n_layer=2, spread=0.3)
    other = make(n_layer=2, seed=9)
    load_gpt2(other, to_gpt2(model))
    for name, weight in model.stack.state_dict().items():
        assert torch.equal(other.stack.state_dict()[name], weight)
    assert torch.equal(other.prompt.positions, model.prompt.positions)
    assert not torch.equal(other.read_out.weight, model.read_out.weight)


def test_the_same_gradients():
    model = make(n_layer=2, spread=0.2)
    batch = prompts(model)
    gpt2 = to_gpt2(model).eval()
    model.loss(batch).backward()
    tokens = model.prompt.tokens(batch.xs, batch.ys)
    states = gpt2(inputs_embeds=model.prompt.read_in(tokens).detach()).last_hidden_state[:, ::2]
    (model.read_out(states) - batch.ys).square().mean().backward()
    for ours, theirs in zip(model.stack.blocks, gpt2.h, strict=True):
        for a, b in (
            (ours.W_QKV, theirs.attn.c_attn.weight),
            (ours.W_out, theirs.mlp.c_proj.weight),
        ):
            assert float((a.grad - b.grad).abs().max()) <= 1e-12 * (1 + float(b.grad.abs().max()))


@pytest.mark.parametrize(
    "settings",
    [{"attention": "relu"}, {"layer_norm": False}, {"kind": "looped", "loops": 2}],
    ids=str,
)
def test_what_is_no_gpt2_does_not_become_one(settings):
    with pytest.raises(InvalidParameter, match="be standard, with softmax attention and LayerNorm"):
        to_gpt2(make(**settings))


def test_a_gpt2_that_is_another_function_is_refused():
    model = make()
    gpt2 = to_gpt2(model)
    with pytest.raises(InvalidParameter, match="have the shape of the model"):
        load_gpt2(make(n_layer=2), gpt2)
    with pytest.raises(InvalidParameter, match="have the shape of the model"):
        load_gpt2(make(n_embd=4), gpt2)
    with pytest.raises(InvalidParameter, match="must have 4 heads"):
        load_gpt2(make(n_head=4), gpt2)
    gpt2.config.activation_function = "relu"
    with pytest.raises(InvalidParameter, match="`activation_function` must be 'gelu_new' or"):
        from_gpt2(gpt2, 3, 2)


def test_without_transformers_the_remedy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(IcgdError, match=r"pip install 'icgd\[train\]'"):
        to_gpt2(make())
