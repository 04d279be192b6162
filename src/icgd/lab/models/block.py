"""Blocks as in GPT-2: normalise, attend, add; normalise, feed forward, add. And stacks of them."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from icgd.lab.models.config import ModelConfig
from icgd.lab.models.gelu import gelu
from icgd.transformer.nn.attention import attention

EPS = 1e-5

Rows = slice | None


class Block(nn.Module):
    """One pre-LN block with fused queries, keys and values; matrices multiply from the right.

    h <- h + Attn(LN(h)) W_O + b_O;  h <- h + gelu(LN(h) W_in + b_in) W_out + b_out

    Scores are divided by the root of the head's width, whatever the kind of attention: a kind changes
    what becomes of the scores and nothing else.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d, hidden = config.n_embd, config.hidden
        self.n_head, self.kind = config.n_head, config.attention
        self.norm_1 = _norm(config)
        self.W_QKV, self.b_QKV = _parameter(d, 3 * d), _parameter(3 * d)
        self.W_O, self.b_O = _parameter(d, d), _parameter(d)
        self.norm_2 = _norm(config)
        self.W_in, self.b_in = _parameter(d, hidden), _parameter(hidden)
        self.W_out, self.b_out = _parameter(hidden, d), _parameter(d)

    def forward(
        self, h: Float[Tensor, "batch token width"], rows: Rows = None
    ) -> Float[Tensor, "batch kept width"]:
        """The tokens after the block; with `rows` only those, which spares the rest's feed-forward part."""
        mixed = self._attend(h)
        if rows is not None:
            mixed, h = mixed[:, rows], h[:, rows]
        shape = h.shape
        h = h.reshape(-1, shape[-1])
        h = torch.addmm(self.b_O, mixed.reshape(h.shape), self.W_O).add_(h)
        active = gelu(torch.addmm(self.b_in, self.norm_2(h), self.W_in))
        return torch.addmm(self.b_out, active, self.W_out).add_(h).view(shape)

    def _attend(self, h: Tensor) -> Tensor:
        n_batch, n_token, d = h.shape
        # The kernel has no temperature. On the weights it costs less than on the queries of all tokens.
        scale = self.W_QKV.new_ones(3 * d)
        scale[:d] = (d // self.n_head) ** -0.5
        flat = self.norm_1(h).reshape(-1, d)
        qkv = torch.addmm(self.b_QKV * scale, flat, self.W_QKV * scale)
        # Split by columns: the gradient is then put together by one copy, not two.
        q, k, v = (
            part.view(n_batch, n_token, self.n_head, -1).transpose(1, 2)
            for part in qkv.view(n_batch, n_token, 3 * d).split(d, dim=-1)
        )
        return attention(q, k, v, kind=self.kind, causal=True).transpose(1, 2).reshape(h.shape)

    def reset(self, std: float, residual_std: float, generator: torch.Generator | None) -> None:
        """Initial weights as in GPT-2: what writes to the residual stream starts smaller."""
        for bias in (self.b_QKV, self.b_O, self.b_in, self.b_out):
            nn.init.zeros_(bias)
        for W in (self.W_QKV, self.W_in):
            nn.init.normal_(W, 0.0, std, generator)
        for W in (self.W_O, self.W_out):
            nn.init.normal_(W, 0.0, residual_std, generator)


class Stack(nn.Module):
    """Blocks on top of each other and a last LayerNorm: a GPT-2 without its embeddings."""

    def __init__(self, config: ModelConfig, n_layer: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(n_layer))
        self.norm = _norm(config)
        self.init_std = config.init_std

    def forward(
        self, h: Float[Tensor, "batch token width"], rows: Rows = None
    ) -> Float[Tensor, "batch kept width"]:
        """The tokens after the stack; with `rows` only those are wanted."""
        last = len(self.blocks) - 1
        for i, block in enumerate(self.blocks):
            h = block(h, rows if i == last else None)
        return self.norm(h)

    def reset(self, generator: torch.Generator | None) -> None:
        """Initial weights as in GPT-2."""
        for block in self.blocks:
            assert isinstance(block, Block)
            std = self.init_std
            block.reset(std, std / (2 * len(self.blocks)) ** 0.5, generator)


def _norm(config: ModelConfig) -> nn.Module:
    return nn.LayerNorm(config.n_embd, eps=EPS) if config.layer_norm else nn.Identity()


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))
