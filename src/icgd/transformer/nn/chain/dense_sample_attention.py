"""Attention with one head per sample, written out as literal matrices: the proof object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from icgd.transformer.layout import Layout
from icgd.transformer.nn.attention import attention
from icgd.transformer.nn.chain.attention_layer import DenseAttention

if TYPE_CHECKING:
    from icgd.transformer.nn.chain.sample_attention import SampleBank


class DenseSampleBank(nn.Module):
    """One head written out: spreading maps, queries, keys, values, output."""

    def __init__(self, bank: SampleBank, layout: Layout) -> None:
        super().__init__()
        like = bank.offset
        labels = list(bank.readings)
        terms = [(i, t) for i, label in enumerate(labels) for t in bank.readings[label]]
        n_key = sum(layout[t.key].size for _, t in terms)
        n_value = sum(layout[p.source].size for p in bank.paths)
        width, grid = layout.width, n_key + n_value + 1
        W_A = like.new_zeros(len(labels) + 1, width, grid)
        W_Q, W_K = like.new_zeros(width, n_key + 1), like.new_zeros(grid, n_key + 1)
        W_V, W_O = like.new_zeros(grid, n_value), like.new_zeros(n_value, width)
        start = 0
        for i, term in terms:
            size = layout[term.key].size
            here = torch.arange(start, start + size)
            W_A[i, layout.index(term.key).reshape(-1), here] = 1.0
            W_Q[layout.index(term.query).reshape(-1), here] = bank.query[term.name].data.reshape(-1)
            W_K[here, here] = bank.key[term.name].data.reshape(-1)
            start += size
        W_K[grid - 1, n_key] = 1.0
        for path in bank.paths:
            size = layout[path.source].size
            here, column = torch.arange(start, start + size), torch.arange(size) + start - n_key
            W_A[-1, layout.index(path.source).reshape(-1), here] = 1.0
            W_V[here, column] = bank.value[path.name].data.reshape(-1)
            target = layout.index(path.target).reshape(-1)
            W_O[column, target] = bank.output[path.name].data.reshape(-1)
            start += size
        right = torch.stack([*(bank.rates[label].data for label in labels), bank.values.data])
        b_Q = like.new_zeros(n_key + 1)
        b_Q[-1] = 1.0
        position = like.new_zeros(bank.n_tokens, grid)
        position[:, -1] = bank.offset.data
        for name, value in (
            ("W_A", W_A),
            ("right", right),
            ("position", position),
            ("W_Q", W_Q),
            ("b_Q", b_Q),
            ("W_K", W_K),
            ("W_V", W_V),
            ("W_O", W_O),
        ):
            self.register_parameter(name, nn.Parameter(value, requires_grad=False))
        self.label, self.watched = f"attention.{bank.name}", bank.watched
        self.slots = "+".join(t.key for t in bank.readings[labels[0]])
        self._n_first = sum(layout[t.key].size for t in bank.readings[labels[0]])

    W_A: Tensor
    right: Tensor
    position: Tensor
    W_Q: Tensor
    b_Q: Tensor  # noqa: N815
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor

    def asked(self, tokens: Tensor) -> Tensor:
        """The first number every head reads for the first token, (..., head)."""
        n = self._n_first
        query = self.W_K[:n, :n] @ (tokens[..., 0, :] @ self.W_Q)[..., :n].unsqueeze(-1)
        return ((tokens @ self.W_A[0])[..., :n] @ query).squeeze(-1)

    def forward(self, tokens: Tensor) -> Tensor:
        """(..., n, width) -> the sum over heads, (..., n, width)."""
        # Head i spreads token i: (..., head, grid token, entry).
        spread = (tokens.unsqueeze(-3) @ self.W_A).unsqueeze(-2) * self.right[:, None, :, None]
        grid = spread.sum(dim=-4) + self.position
        q = (tokens @ self.W_Q + self.b_Q).unsqueeze(-3)
        k, v = grid @ self.W_K, grid @ self.W_V
        q = q.expand(*k.shape[:-2], *q.shape[-2:])
        return attention(q, k, v).sum(dim=-3) @ self.W_O / tokens.shape[-2]


class DenseSampleAttention(DenseAttention):
    """The same attention with literal matrices: every token asks every head."""

    def __init__(self, banks: Sequence[DenseSampleBank]) -> None:
        super().__init__()
        self.banks = nn.ModuleList(banks)

    def asked(self, tokens: Tensor) -> list[tuple[str, str, Tensor]]:
        """(head, slot, numbers) for whoever watches ranges."""
        return [(b.label, b.slots, b.asked(tokens)) for b in self.banks if b.watched]  # type: ignore[operator, misc]

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: (..., column, entry)."""
        return tokens + sum(bank(tokens) for bank in self.banks)
