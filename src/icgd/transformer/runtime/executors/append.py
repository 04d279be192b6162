"""Runs a layer that appends: every step reads the whole prompt and adds its last token to it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.transformer.blocks import Block, pack_block, unpack_block
from icgd.transformer.layout import Layout
from icgd.transformer.mask_rules import Address, Step
from icgd.transformer.nn.chain.linear_attention_layer import LinearAttentionLayer
from icgd.transformer.nn.views import Interest, StageView
from icgd.transformer.runtime.watch import RangeWatch


class AppendExecutor:
    """A prompt that grows by one token a step.

    literal  True: every token of the prompt is computed with the literal matrices and the last one kept;
             False: the last one alone, from tokens that can contribute to it
    """

    grows = True

    def __init__(
        self, layer: LinearAttentionLayer, layout: Layout, *, literal: bool, watch: RangeWatch
    ) -> None:
        self.layer, self.layout, self.literal, self.watch = layer, layout, literal, watch

    def load(self, block: Block) -> Tensor:
        """The block as tokens, (..., token, entry); a block is as long as its slots are."""
        lengths = {
            value.shape[value.dim() - len(slot.shape) - 1]
            for slot in self.layout
            if isinstance(value := block.value(slot.name), Tensor)
        }
        return pack_block(block, self.layout, lengths.pop(), self.layer.like)

    def dump(self, tokens: Tensor) -> Block:
        """Tokens as slots."""
        return unpack_block(tokens, self.layout)

    def step(self, blocks: Sequence[Tensor], step: Step, round_: int) -> Tensor:
        """The prompt with one more token; or, given tokens that ask, these with their answers.

        Tokens that ask see the newest token of the prompt and each other.
        """
        prompt, *asking = blocks
        if asking:
            answered = self.layer(torch.cat([prompt[..., -1:, :], *asking], dim=-2))
            _check_finite(answered, "An answer", "Scale the rows that ask, or the data, down.")
            return answered
        token = self.layer(prompt)[..., -1:, :] if self.literal else self.layer.last(prompt)
        remedy = "Lower lr below 2 / lambda_max, or run fewer steps."
        _check_finite(token, f"The chain of thought overflowed: token {round_}", remedy)
        return torch.cat([prompt, token], dim=-2)

    def explain(self, blocks: Sequence[Tensor], interest: Interest) -> list[StageView]:
        """See Executor."""
        prompt = blocks[0]
        while prompt.dim() > 2:
            prompt = prompt[0]
        slots = self.layout.unpack(self.layer.last(prompt))
        return [StageView((), slots, self.layer.views(prompt, interest))]

    def round(self, live: dict[Address, Tensor], steps: Sequence[Step], round_: int) -> None:
        """All steps of a round."""
        for step in steps:
            live[step.writes] = self.step([live[a] for a in step.reads], step, round_)


def _check_finite(values: Tensor, what: str, remedy: str) -> None:
    if not bool(values.isfinite().all()):
        raise AssumptionViolated(f"{what} holds infinity or NaN. {remedy}")
