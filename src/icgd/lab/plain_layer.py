"""A usual layer of a transformer, as small experiments train it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from icgd.transformer.nn.attention import attention


class PlainLayer(nn.Module):
    """Softmax attention and a feed-forward part with ReLU, each added to what is there.

    normalised  LayerNorm after each of the two
    causal      a token sees earlier ones and itself
    """

    def __init__(
        self, width: int, *, heads: int, hidden: int, normalised: bool = False, causal: bool = False
    ) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norms = nn.ModuleList(
            nn.LayerNorm(width) if normalised else nn.Identity() for _ in range(2)
        )

    def forward(self, h: Tensor) -> Tensor:
        """(B, T, width) -> the same."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(h).chunk(3, -1)
        )
        mixed = attention(q * q.shape[-1] ** -0.5, k, v, kind="softmax", causal=self.causal)
        h = self.norms[0](h + self.out(mixed.transpose(1, 2).flatten(2)))
        out: Tensor = self.norms[1](h + self.down(torch.relu(self.up(h))))
        return out
