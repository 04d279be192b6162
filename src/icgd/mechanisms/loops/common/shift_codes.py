"""Codes of positions in which a shift is a linear map, and heads that read a token so many places away."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from icgd.mechanisms.loops.common.parts import SHARP, hard_head, rotary_codes, rotation
from icgd.transformer.layout import Layout
from icgd.transformer.nn.stack.softmax_sublayer import Rows, SoftmaxHead


@dataclass(frozen=True)
class ShiftCodes:
    """p_t = [cos w t; sin w t] for positions t < n.

    codes        (n, 2m)
    frequencies  (m,): w
    gap          1 - the largest p_s.p_t / m over s != t
    """

    codes: Tensor
    frequencies: Tensor
    gap: float

    @property
    def width(self) -> int:
        """Entries of a code."""
        return self.codes.shape[1]

    def query(self, shift: int) -> Tensor:
        """The matrix that asks for position t + shift, so sharply that no other weight survives."""
        return SHARP / (self.gap * len(self.frequencies)) * rotation(self.frequencies, shift)

    def head(
        self, layout: Layout, shift: int, value: Rows, target: str, dtype: torch.dtype
    ) -> SoftmaxHead:
        """Token t adds the value of token t + shift to `target`; without such a token, a mixture.

        Statement: [ALGO] Lemma A.3

        Differs from the paper: rotary codes; generic ones must be stored shifted as well. Where t + shift is no
        position the softmax mixes tokens, so that a gate has to follow.
        """
        asks, keys = [[("code", self.query(shift))]], [[("code", 1.0)]]
        return hard_head(layout, asks, keys, value, target, dtype)


@lru_cache(maxsize=64)
def shift_codes(n: int) -> ShiftCodes:
    """Codes of n positions with 4 ceil(log2(n + 1)) entries, from a fixed seed.

    >>> made = shift_codes(20)
    >>> moved = made.codes[3] @ rotation(made.frequencies, -2).T
    >>> bool(torch.allclose(moved, made.codes[1], atol=1e-13))
    True
    """
    codes, frequencies, gap = rotary_codes(n, 2 * math.ceil(math.log2(n + 1)))
    return ShiftCodes(codes, frequencies, gap)
