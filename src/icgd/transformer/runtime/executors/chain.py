"""Two executors of one layer: dense (the proof object) and structured (what users run)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor

from icgd.transformer.blocks import Block, pack_block, unpack_block
from icgd.transformer.layout import Layout
from icgd.transformer.mask_rules import Address, Step
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.views import Interest, StageView
from icgd.transformer.runtime.plans.plan import Plan, PlanBuilder
from icgd.transformer.runtime.plans.round_plan import RoundPlan, link_round
from icgd.transformer.runtime.recording.explain import explain_layer, first_problem, with_flags
from icgd.transformer.runtime.watch import RangeWatch, Watched


@dataclass
class Plans:
    """Plans of a layer: of steps by the kinds of their blocks, and linked ones of whole rounds.

    kinds  small numbers for everything of a block that a plan may depend on, never given twice
    """

    steps: dict[object, Plan] = field(default_factory=dict)
    rounds: dict[tuple[int, ...], RoundPlan] = field(default_factory=dict)
    kinds: dict[object, int] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def kind(self, named: object) -> int:
        """The number of a kind of block; threads that ask at once get the same one."""
        return self.kinds.setdefault(named, next(self.numbers))


class StructuredExecutor:
    """Runs plans: one per combination of block kinds, made when first met.

    keep_all  never update weights in place, for when old blocks are still wanted (a trace)
    wanted    slots that outlive a round, besides what the next round reads; all others may be skipped
    """

    grows = False

    def __init__(
        self,
        layer: Layer,
        prefixes: Sequence[str],
        watch: RangeWatch,
        *,
        batched: bool,
        keep_all: bool = False,
        wanted: Mapping[Address, frozenset[str]] | None = None,
    ) -> None:
        self.layer, self.prefixes, self.watch = layer, tuple(prefixes), watch
        self.batched, self.keep_all = batched, keep_all
        self.wanted = dict(wanted or {})
        self.plans = Plans()

    def load(self, block: Block) -> Block:
        """Blocks are already in this executor's form."""
        return block

    def dump(self, block: Block) -> Block:
        """See load."""
        return block

    def step(self, blocks: Sequence[Block], step: Step, round_: int) -> Block:
        """Write the next block from the visible ones."""
        plan = self._plan(blocks, step)
        block, registers = plan.run(blocks)
        for label, slot, index in plan.watched:
            source = Watched(step.kind, step.writes[1], label, slot, limits=plan.limits.get(label))
            log = self.watch.log_queries if source.is_query else self.watch.log_preactivations
            log(round_, [source], [registers[index]])
        return block

    def explain(self, blocks: Sequence[Block], interest: Interest) -> list[StageView]:
        """See Executor."""
        layout = self.layer.post.target
        return explain_layer(self.layer, [first_problem(b, layout) for b in blocks], interest)

    def round(self, live: dict[Address, Block], steps: Sequence[Step], round_: int) -> None:
        """All steps of a round in one go, keeping only what the session wants to see again."""
        kinds = [b.kind if b.kind >= 0 else self._kind(b) for b in live.values()]
        key = (id(steps), *kinds)
        linked = self.plans.rounds.get(key)
        if linked is None:
            linked = link_round(live, steps, self.wanted, self._plan)
            for template, _ in linked.results.values():
                self._kind(template)
            self.plans.rounds[key] = linked
        registers = linked.run(live)
        linked.store(live, registers)
        linked.log(self.watch, round_, registers)

    def _plan(self, blocks: Sequence[Block], step: Step) -> Plan:
        key = (*[self._kind(block) for block in blocks], step.reusable)
        plan = self.plans.steps.get(key)
        if plan is None:
            reusable = frozenset() if self.keep_all else step.reusable
            plan = PlanBuilder(
                self.layer, self.prefixes, blocks, batched=self.batched, reusable=reusable
            ).build()
            self.plans.steps[key] = plan
        return plan

    def _kind(self, block: Block) -> int:
        """A small number for everything of a block that a plan may depend on."""
        if block.kind < 0:
            named = (block.signature, tuple(block.hats))
            block.kind = self.plans.kind(named)
        return block.kind


class DenseExecutor:
    """Literal matrices on literal tokens: every column, every head, softmax over the grid."""

    grows = False

    def __init__(
        self, layer: Layer, block_layout: Layout, n_columns: int, watch: RangeWatch
    ) -> None:
        self.layer, self.dense = layer, layer.dense(n_columns)
        self.layout, self.n_columns, self.watch = block_layout, n_columns, watch
        self._like = layer.attention.like
        self._working = layer.attention.layout
        self._preactivations = [
            watched
            for part in layer.post.parts.values()
            if (watched := getattr(part, "watched", None))
        ]

    def load(self, block: Block) -> Tensor:
        """The block as tokens, (..., column, entry)."""
        return pack_block(block, self.layout, self.n_columns, self._like)

    def dump(self, tokens: Tensor) -> Block:
        """Tokens as slots."""
        return unpack_block(tokens, self.layout)

    def step(self, blocks: Sequence[Tensor], step: Step, round_: int) -> Tensor:
        """One call of the layer on the stacked visible blocks."""
        tokens = torch.cat(list(blocks), dim=-1)
        middle = self.dense.pre(tokens)
        limits = self.dense.attention.limits
        for label, slot, queries in self.dense.attention.asked(middle):
            source = Watched(step.kind, step.writes[1], label, slot, limits=limits.get(label))
            self.watch.log_queries(round_, [source], [queries])
        mixed = self.dense.attention(middle)
        for z_slot, flag_slot in self._preactivations:
            self._log_hidden(mixed, z_slot, flag_slot, step, round_)
        return self.dense.post(mixed)

    def explain(self, blocks: Sequence[Tensor], interest: Interest) -> list[StageView]:
        """See Executor: worked out from the same tokens without the literal matrices."""
        seen = [
            with_flags(first_problem(self.dump(block), self.layout), self.layout)
            for block in blocks
        ]
        return explain_layer(self.layer, seen, interest)

    def _log_hidden(
        self, mixed: Tensor, z_slot: str, flag_slot: str, step: Step, round_: int
    ) -> None:
        work = self._working
        z = mixed[..., 0, work.slice(z_slot)]
        if bool((mixed[..., 0, work.slice(flag_slot)] == 1.0).all()):
            source = Watched(step.kind, step.writes[1], "preactivation", z_slot)
            self.watch.log_preactivations(round_, [source], [z])

    def round(self, live: dict[Address, Tensor], steps: Sequence[Step], round_: int) -> None:
        """All steps of a round, one call of the layer each."""
        for step in steps:
            live[step.writes] = self.step([live[a] for a in step.reads], step, round_)
