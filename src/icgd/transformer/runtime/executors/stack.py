"""Runs a stack of layers: the state is one block of tokens that every step replaces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.transformer.blocks import Block, pack_block, unpack_block
from icgd.transformer.layout import Layout
from icgd.transformer.mask_rules import Address, Step
from icgd.transformer.nn.stack.head_family import Question
from icgd.transformer.nn.stack.stack import AttentionSublayer, Stack, Sublayer, unwatched
from icgd.transformer.nn.views import Interest, StageView
from icgd.transformer.runtime.watch import RangeWatch, Watched, out_of_range

SPREAD = 2.0**-20
"""Relative difference between tokens up to which a shared slot counts as equal in all of them, besides what
heads with large weights may round differently from token to token."""


class StackExecutor:
    """One evaluation of a stack: "collapsed" (fast), "sparse" (index arrays) or "dense" (literal)."""

    grows = False

    def __init__(
        self, stack: Stack, layout: Layout, n_columns: int, evaluation: str, watch: RangeWatch
    ) -> None:
        self.stack, self.layout, self.n_columns = stack, layout, n_columns
        self.evaluation, self.watch = evaluation, watch
        shared = [layout.index(s.name).reshape(-1) for s in layout if not s.each]
        self._shared = torch.cat(shared) if shared else None
        self._rounded = torch.zeros(layout.width, dtype=torch.float64, device=stack.like.device)

    def load(self, block: Block) -> Tensor:
        """The block as tokens, (..., token, entry)."""
        return pack_block(block, self.layout, self.n_columns, self.stack.like)

    def dump(self, tokens: Tensor) -> Block:
        """Tokens as slots; shared slots must be equal in all tokens."""
        if self._shared is None:
            return unpack_block(tokens, self.layout)
        shared = tokens[..., self._shared]
        apart = (shared - shared[..., :1, :]).abs()
        room = SPREAD * max(1.0, float(shared.abs().max())) + self._rounded[self._shared]
        if not bool((apart <= room).all()):  # also true for NaN
            raise AssumptionViolated(
                f"Tokens disagree by {float(apart.max()):.3g} in slots that all of them share. The layer's "
                "weights were altered, or training diverged: lower lr."
            )
        return unpack_block(tokens, self.layout)

    def step(self, blocks: Sequence[Tensor], step: Step, round_: int) -> Tensor:
        """All layers of the stack, one after the other."""
        tokens = blocks[0]
        for place, (name, layer) in enumerate(self.stack.each(), 1):

            def look(
                question: Question, value: Tensor, reach: float, _name: str = name, _at: int = place
            ) -> None:
                layer = _at if question.layer is None else question.layer
                where = Watched(_name, layer, question.label, question.label, question.option)
                self._look(where, value, reach, round_)

            self._expect_rounding(layer, tokens)
            tokens = getattr(layer, self.evaluation)(tokens, look)
        return tokens

    def _expect_rounding(self, layer: Sublayer, tokens: Tensor) -> None:
        """Tokens add up the same numbers, each by itself: from step to step they may come further apart."""
        if self._shared is None or not isinstance(layer, AttentionSublayer):
            return
        families = layer.each()
        if (
            self.evaluation == "collapsed"
        ):  # what is the same on one side is computed once for all tokens
            families = [f for f in families if not (f.same_query or f.same_key)]
        if not families:
            return
        size = tokens.abs().flatten(0, -2).amax(dim=0).double()
        units = size + sum(family.rounding(size, tokens.shape[-2]) for family in families)
        self._rounded = self._rounded + torch.finfo(tokens.dtype).eps * units

    def explain(self, blocks: Sequence[Tensor], interest: Interest) -> list[StageView]:
        """See Executor: per sub-layer what its heads asked, and the slots it changed."""
        tokens, views = blocks[0], []
        while tokens.dim() > 2:
            tokens = tokens[0]
        for name, layer in self.stack.each():
            after = getattr(layer, self.evaluation)(tokens, unwatched)
            before, now = (self.layout.unpack(t[: interest.tokens]) for t in (tokens, after))
            changed = {
                slot.name: now[slot.name] if slot.each else now[slot.name][0]
                for slot in self.layout
                if not torch.equal(before[slot.name], now[slot.name])
            }
            heads = [
                replace(head, bank=f"{name}.{head.bank}") for head in layer.views(tokens, interest)
            ]
            views.append(StageView((), changed, heads))
            tokens = after
        return views

    def _look(self, source: Watched, value: Tensor, reach: float, round_: int) -> None:
        if math.isinf(reach):
            return
        low, high = torch.aminmax(value)
        largest = max(-float(low), float(high)) if bool(low == low) else math.nan
        if not largest <= reach and math.isfinite(self.watch.radius):  # also true for NaN
            unit = int(value.abs().flatten().argmax()) % value.shape[-1] + 1
            raise out_of_range(source, unit, largest, reach, round_)
        self.watch.use(largest / reach)
        if source.label in self.stack.kinks:
            self.watch.log_preactivations(round_, [source], [value])

    def round(self, live: dict[Address, Tensor], steps: Sequence[Step], round_: int) -> None:
        """All steps of a round."""
        for step in steps:
            live[step.writes] = self.step([live[a] for a in step.reads], step, round_)
