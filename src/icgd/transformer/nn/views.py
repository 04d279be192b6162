"""What a frozen layer can show of itself while it works: for people who watch, never for the result.

A stage is a sub-layer in the order a token goes through them. Layers describe their own stages; the
runtime only carries the descriptions to whoever records a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from icgd.transformer.layout import Layout

StageKind = Literal["feed_forward", "softmax", "relu", "tanh", "sigmoid", "linear", "product"]


@dataclass(frozen=True)
class Grid:
    """Tokens a bank of heads attends over: score_k = asked * linear_k + offset_k, answer values_k.

    levels  where a token stands on the axis of what is asked
    """

    levels: Tensor
    linear: Tensor
    offset: Tensor
    values: Tensor

    def attention(self, queries: Tensor) -> Tensor:
        """The softmax weights of every head, (..., token)."""
        return torch.softmax(queries.unsqueeze(-1) * self.linear + self.offset, dim=-1)


def grid_of(rates: Tensor, offset: Tensor, values: Tensor) -> Grid:
    """The grid of a table of scores: rate_k = 2 beta L_k and offset_k = -beta L_k^2 give L_k back.

    A head of two tokens is a sigmoid and has no levels: its tokens are numbered.
    """
    if offset.numel() <= 2:
        return Grid(torch.arange(offset.numel(), dtype=offset.dtype), rates, offset, values)
    middle = rates == 0
    levels = torch.where(middle, 0.0, -2 * offset / torch.where(middle, 1.0, rates))
    return Grid(levels, rates, offset, values)


@dataclass(frozen=True)
class Interest:
    """How much to show.

    heads   weights are shown for so many heads of a bank, those that ask for the largest numbers
    which   and for these, whatever they ask
    tokens  of slots that every token has to itself, and of attention over tokens, the first so many
    """

    heads: int = 2
    which: tuple[int, ...] = ()
    tokens: int = 64

    def of_heads(self, queries: Tensor) -> list[int]:
        """The heads to show, ascending; queries (n_heads,)."""
        size = queries.abs()
        top = torch.topk(size, min(self.heads, len(size))).indices.tolist()
        return sorted({*top, *(h for h in self.which if h < len(size))})

    def of_tokens(self, n: int) -> list[int]:
        """Tokens whose attention to others is shown: spread over the block, its last one included."""
        rows = max(1, min(n, self.tokens // 2))
        return sorted({round(i * (n - 1) / max(1, rows - 1)) for i in range(rows)} | {n - 1})


@dataclass(frozen=True)
class HeadView:
    """What heads asked and saw.

    over "grid"    asked and read (n_heads,); weights (len(heads), p) over the bank's grid
    over "tokens"  asked and weights (len(heads), n): tokens `heads` asking the first n tokens
    over "units"   asked and read (len(heads), n): a family of heads in token `heads`, unit by unit
    """

    bank: str
    slot: str
    over: Literal["grid", "tokens", "units"]
    asked: Tensor
    heads: Sequence[int]
    read: Tensor | None = None
    weights: Tensor | None = None
    radius: float = float("inf")


@dataclass(frozen=True)
class StageOutline:
    """What a stage is, whatever it is given."""

    name: str
    kind: StageKind
    title: str
    layout: Layout
    gates: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageView:
    """What a stage did with one input.

    open   of every gate of the outline: whether it let something through
    slots  the token it gave back (layers), or what it changed of it (sub-layers of a stack)
    """

    open: tuple[bool, ...] = ()
    slots: Mapping[str, Tensor | float] = field(default_factory=dict)
    heads: Sequence[HeadView] = ()
