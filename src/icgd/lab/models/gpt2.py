"""The standard softmax model as transformers' GPT2Model and back: the same weights, the same outputs.

transformers is imported only here, when a function is called; it comes with the extra `train`.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn

from icgd.errors import IcgdError, InvalidParameter
from icgd.lab.models.block import EPS, Block
from icgd.lab.models.config import ModelConfig, TokenLayout
from icgd.lab.models.standard import StandardModel

_ACTIVATIONS = ("gelu_new", "gelu_pytorch_tanh")


def to_gpt2(model: StandardModel) -> Any:
    """A GPT2Model with this model's weights: the stack between read-in and read-out.

    `gpt2(inputs_embeds=model.prompt.read_in(tokens)).last_hidden_state` is what `model.read_out` reads.
    """
    config = model.config
    if (
        not isinstance(model, StandardModel)
        or config.attention != "softmax"
        or not config.layer_norm
    ):
        raise InvalidParameter(
            "model",
            f"{config.kind}, {config.attention} attention, layer_norm={config.layer_norm}",
            "be standard, with softmax attention and LayerNorm",
            remedy="GPT2Model knows nothing else.",
        )
    library = _transformers()
    settings = library.GPT2Config(
        vocab_size=1,
        n_positions=config.max_tokens,
        n_embd=config.n_embd,
        n_layer=config.n_layer,
        n_head=config.n_head,
        n_inner=config.hidden,
        activation_function="gelu_new",
        layer_norm_epsilon=EPS,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    gpt2 = library.GPT2Model(settings).to(model.prompt.positions)
    with torch.no_grad():
        for ours, theirs in _pairs(model, gpt2):
            theirs.copy_(ours)
    return gpt2


def load_gpt2(model: StandardModel, gpt2: Any) -> None:
    """Copy the weights of a GPT2Model into a model of the same shape; read-in and read-out stay."""
    _check(gpt2.config)
    pairs = list(_pairs(model, gpt2)) if len(gpt2.h) == model.config.n_layer else []
    if not pairs or any(ours.shape != theirs.shape for ours, theirs in pairs):
        raise InvalidParameter(
            "gpt2", _shape(gpt2.config), f"have the shape of the model, {_shape_of(model)}"
        )
    if gpt2.config.n_head != model.config.n_head:
        raise InvalidParameter("gpt2", gpt2.config.n_head, f"have {model.config.n_head} heads")
    with torch.no_grad():
        for ours, theirs in pairs:
            ours.copy_(theirs)


def from_gpt2(
    gpt2: Any, d_x: int, d_y: int, *, layout: TokenLayout = "interleaved"
) -> StandardModel:
    """A standard model with the weights of a GPT2Model and a new read-in and read-out."""
    theirs = gpt2.config
    _check(theirs)
    per_point = 2 if layout == "interleaved" else 1
    if theirs.n_positions % per_point:
        raise InvalidParameter(
            "n_positions",
            theirs.n_positions,
            "be even for the interleaved layout, two tokens a point",
        )
    config = ModelConfig(
        n_layer=theirs.n_layer,
        n_head=theirs.n_head,
        n_embd=theirs.n_embd,
        d_mlp=theirs.n_inner,
        n_positions=theirs.n_positions // per_point,
        layout=layout,
    )
    model = StandardModel(config, d_x, d_y)
    model.reset()
    model.to(gpt2.wpe.weight)
    load_gpt2(model, gpt2)
    return model


def _pairs(model: StandardModel, gpt2: Any) -> list[tuple[Tensor, Tensor]]:
    """Parameters that are the same: ours, theirs. Their Conv1D multiplies from the right, as we do."""
    pairs: list[tuple[Tensor, Tensor]] = [(model.prompt.positions, gpt2.wpe.weight)]
    for block, other in zip(model.stack.blocks, gpt2.h, strict=True):
        assert isinstance(block, Block)
        pairs += _norms(block.norm_1, other.ln_1) + _norms(block.norm_2, other.ln_2)
        pairs += [
            (block.W_QKV, other.attn.c_attn.weight),
            (block.b_QKV, other.attn.c_attn.bias),
            (block.W_O, other.attn.c_proj.weight),
            (block.b_O, other.attn.c_proj.bias),
            (block.W_in, other.mlp.c_fc.weight),
            (block.b_in, other.mlp.c_fc.bias),
            (block.W_out, other.mlp.c_proj.weight),
            (block.b_out, other.mlp.c_proj.bias),
        ]
    return pairs + _norms(model.stack.norm, gpt2.ln_f)


def _norms(ours: nn.Module, theirs: Any) -> list[tuple[Tensor, Tensor]]:
    assert isinstance(ours, nn.LayerNorm)
    return [(ours.weight, theirs.weight), (ours.bias, theirs.bias)]


def _check(config: Any) -> None:
    """Refuse what would silently be another function here."""
    wanted: dict[str, tuple[object, ...]] = {
        "activation_function": _ACTIVATIONS,
        "layer_norm_epsilon": (EPS,),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    }
    for name, allowed in wanted.items():
        if getattr(config, name) not in allowed:
            raise InvalidParameter(
                name,
                getattr(config, name),
                f"be {' or '.join(map(repr, allowed))} in the GPT2Config",
            )


def _shape(config: Any) -> tuple[int, ...]:
    return (config.n_layer, config.n_embd, config.n_inner or 4 * config.n_embd, config.n_positions)


def _shape_of(model: StandardModel) -> str:
    c = model.config
    return f"(layers, width, hidden, tokens) = {(c.n_layer, c.n_embd, c.hidden, c.max_tokens)}"


def _transformers() -> Any:
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        raise IcgdError(
            "This needs the package transformers. Install it with: pip install 'icgd[train]'."
        ) from error
