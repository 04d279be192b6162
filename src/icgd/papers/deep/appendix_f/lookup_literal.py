"""The look-up block as the matrices of Definition 11: every ReLU of both feed-forward layers.

A token is [its slots, the average], the last coordinate spare and 0 outside the block. Feed-forward layers
add to the token, so both take back what is there with two units per coordinate.
"""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.papers.deep.appendix_f.lookup import F64, ContextLookup
from icgd.transformer.nn.attention import attention
from icgd.transformer.nn.feedforward import DenseFeedForward

MAX_UNITS = 20_000


class LiteralContextLookup:
    """FF(H) = H + W_2 relu(W_1 H + b_1) + b_2 around one softmax head, nothing left out.

    Statement: [DEEP] Definition 11

    Differs from the paper: b_1 has as many entries as there are hidden units and b_2 as a token has; the
    definition gives them other lengths.
    """

    def __init__(self, block: ContextLookup) -> None:
        if len(block.knots) > MAX_UNITS:
            raise InvalidParameter(
                "block",
                len(block.knots),
                f"have at most {MAX_UNITS} knots",
                remedy="Larger tables are evaluated by sorting: call the block itself.",
            )
        self.block, self.d = block, len(block.wiring.slots)
        self.ff1, self.ff2 = self._quantiser(), self._table()

    def _quantiser(self) -> DenseFeedForward:
        """(F.7) for every slot: 2 D units, and two that take the input back."""
        D, ramp, d = self.block.n_levels, self.block.ramp, self.d
        start = torch.arange(D, dtype=F64) / (D * ramp)
        ones, back = torch.ones(D, dtype=F64), torch.tensor([1.0, -1.0], dtype=F64)
        bias = torch.cat([-start, -start - 1, 0 * back])
        read = torch.cat([ones / ramp, ones / ramp, back])
        write = torch.cat([ones / D, -ones / D, -back])
        pick = torch.eye(d + 1, d, dtype=F64)
        return _layer(
            torch.kron(pick, read.unsqueeze(0)),
            bias.repeat(d),
            torch.kron(pick.T.contiguous(), write.unsqueeze(1)),
            bias.new_zeros(d + 1),
        )

    def _table(self) -> DenseFeedForward:
        """One unit per knot, bending the sum to the next slope."""
        block, d = self.block, self.d
        wide = block.knots.diff()
        keep = torch.cat([wide > 0, wide.new_ones(1, dtype=torch.bool)])
        knots, values = block.knots[keep], block.values[keep]
        slopes = values.diff(dim=0) / knots.diff().unsqueeze(-1)
        flat = slopes.new_zeros(1, slopes.shape[-1])
        bends = torch.cat([slopes, flat]) - torch.cat([flat, slopes])
        head = block.head
        project = torch.cat([head.project, head.project.new_tensor([head.weight])])
        back = torch.eye(d + 1, dtype=F64)
        spare = bends.new_zeros(len(bends), 1)
        return _layer(
            torch.cat([project.unsqueeze(-1).expand(-1, len(knots)), back, -back], dim=1),
            torch.cat([-knots, knots.new_zeros(2 * (d + 1))]),
            torch.cat([torch.cat([bends, spare], dim=1), -back, back]),
            torch.cat([values[0], values.new_zeros(1)]),
        )

    @property
    def n_units(self) -> tuple[int, int]:
        """Hidden units of both feed-forward layers."""
        return self.ff1.b_in.numel(), self.ff2.b_in.numel()

    def attend(self, tokens: Tensor) -> Tensor:
        """H + W_O V H softmax((K H)^T Q H), all three matrices of rank 1."""
        head, zero = self.block.head, tokens.new_zeros(1)
        first = torch.eye(self.d + 1, dtype=tokens.dtype)[:1]
        W_Q, W_K, W_V = (
            torch.cat([side, zero]).unsqueeze(-1) @ first
            for side in (head.query, head.key, head.value)
        )
        W_O = first.flip(-1).expand(self.d + 1, -1) * first.T
        return tokens + attention(tokens @ W_Q, tokens @ W_K, tokens @ W_V) @ W_O

    def __call__(self, tokens: Tensor) -> Tensor:
        """One pass, on tokens without their spare coordinate."""
        spare = tokens.new_zeros(*tokens.shape[:-1], 1)
        return self.ff2(self.attend(self.ff1(torch.cat([tokens, spare], dim=-1))))


def _layer(W_in: Tensor, b_in: Tensor, W_out: Tensor, b_out: Tensor) -> DenseFeedForward:
    return DenseFeedForward(W_in, b_in, W_out, b_out, torch.eye(len(b_out), dtype=b_out.dtype))
