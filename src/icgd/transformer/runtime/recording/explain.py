"""A step of a layer, opened up: which gates let something through, what heads asked, what flowed.

Works on the same symbolic values as a plan (runtime/plans/plan.py), keeping every token in between. Used
when a run is recorded; nothing of it is on the way of a run that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from icgd.transformer.blocks import Block, closed_from, make_block
from icgd.transformer.layout import Layout
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.feedforward import FeedForward, FeedForwardPart
from icgd.transformer.nn.symbolic import Closed, Const, Reg, Value
from icgd.transformer.nn.views import HeadView, Interest, StageView
from icgd.transformer.runtime.plans.plan import PlanBuilder, Term


def explain_layer(layer: Layer, blocks: Sequence[Block], interest: Interest) -> list[StageView]:
    """What each of the three stages did with these blocks of one problem."""
    return _Observer(layer, blocks).explain(blocks, interest)


def first_problem(block: Block, layout: Layout) -> Block:
    """The block of the first problem of a batch."""
    slots = {}
    for name, value in block.slots.items():
        n_axes = len(layout[name].shape) + layout[name].each
        slots[name] = value[(0,) * (value.dim() - n_axes)]
    return Block(slots, block.signature)


def with_flags(block: Block, layout: Layout) -> Block:
    """A block read off literal tokens, its flags as numbers known beforehand."""
    values: dict[str, Tensor | float] = {}
    for slot in layout:
        value = block.value(slot.name)
        flag = isinstance(value, Tensor) and value.dim() == 0 and not slot.each
        values[slot.name] = float(value) if flag else value
    return make_block(values)


class _Observer(PlanBuilder):
    """A plan builder that remembers what happened on the way."""

    def __init__(self, layer: Layer, blocks: Sequence[Block]) -> None:
        super().__init__(layer, layer.prefixes, blocks, batched=False)
        self._asked: list[tuple[str, str, Reg, Reg]] = []

    def heads(self, label: str, slot: str, query: Reg, read: Reg) -> None:
        """See Builder."""
        self._asked.append((label, slot, query, read))

    def explain(self, blocks: Sequence[Block], interest: Interest) -> list[StageView]:
        """Run the layer stage by stage and look at every token in between."""
        opened_pre, before = self._feed_forward(self.layer.pre)
        self.layer.attention.emit(self, self.layer.radius)
        self._next_token(in_place=False)
        mixed = dict(self._token)
        opened_post, after = self._feed_forward(self.layer.post)
        _, registers = self.plan.run(blocks)

        def held(token: dict[str, Value]) -> dict[str, Tensor | float]:
            return {slot: _written_out(value, registers) for slot, value in token.items()}

        def opened(tests: Sequence[bool | Callable[[list[Tensor]], bool]]) -> tuple[bool, ...]:
            return tuple(t if isinstance(t, bool) else t(registers) for t in tests)

        return [
            StageView(opened(opened_pre), held(before)),
            StageView((), held(mixed), self._views(registers, interest)),
            StageView(opened(opened_post), held(after)),
        ]

    def _feed_forward(
        self, ffn: FeedForward
    ) -> tuple[list[bool | Callable[[list[Tensor]], bool]], dict[str, Value]]:
        """Emit part by part: a gate is open if it wrote something."""
        opened: list[bool | Callable[[list[Tensor]], bool]] = []
        for part in ffn.gadgets():
            known = {slot: len(terms) for slot, terms in self._terms.items()}
            part.emit(self)
            wrote = [t for slot, terms in self._terms.items() for t in terms[known.get(slot, 0) :]]
            # Altered weights fall back to literal units, which write zeros where they are shut.
            opened.append(self._opened(part, wrote))
        for part in ffn.paths():
            part.emit(self)
        self._next_token(in_place=False)
        return opened, dict(self._token)

    def _opened(
        self, part: FeedForwardPart, wrote: list[Term]
    ) -> bool | Callable[[list[Tensor]], bool]:
        if not part.is_plain():
            return _any_nonzero(wrote)
        off = [self.read(slot) for slot in getattr(part, "off", ())]
        if not any(isinstance(value, (Reg, Closed)) for value in off):
            return bool(wrote)

        # Shut entry by entry: it is open if any entry is, even one that lets a zero through.
        def any_entry(registers: list[Tensor]) -> bool:
            shut = sum(_written_out(value, registers) for value in off)
            return bool((torch.as_tensor(shut) == 0).any())

        return any_entry

    def _views(self, registers: list[Tensor], interest: Interest) -> list[HeadView]:
        grids, views = self.layer.grids(), []
        for label, slot, asked_at, read_at in self._asked:
            queries, read = registers[asked_at.index], registers[read_at.index]
            shown = interest.of_heads(queries)
            grid = grids.get(label)
            weights = None if grid is None else grid.attention(queries[shown])
            views.append(
                HeadView(label, slot, "grid", queries, shown, read, weights, self.layer.radius)
            )
        return views


def _any_nonzero(terms: Sequence[Term]) -> Callable[[list[Tensor]], bool]:
    values = [value for value, _ in terms if isinstance(value, Reg)]
    constant = any(isinstance(value, Const) for value, _ in terms)
    return lambda registers: constant or any(bool(registers[v.index].any()) for v in values)


def _written_out(value: Value, registers: list[Tensor]) -> Tensor | float:
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Reg):
        return registers[value.index]
    if isinstance(value, Closed):
        return closed_from(registers[value.activation.index], value.slope)
    return torch.zeros(()).item()
