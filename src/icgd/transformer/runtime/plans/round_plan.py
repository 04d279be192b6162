"""A whole round as one list of operations.

The steps of a round are always the same, so their plans can be linked beforehand: what one step
stores is what the next one loads, and a slot that nobody reads need not be computed. What remains
per round is the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from icgd.transformer.blocks import Block
from icgd.transformer.mask_rules import Address, Step
from icgd.transformer.runtime.plans.plan import NOTHING, Operation, Plan
from icgd.transformer.runtime.watch import RangeWatch, Watched

Registers = list[Tensor]
WINDOW = 16
"""Operations after which registers that nobody reads any more are let go."""


@dataclass
class RoundPlan:
    """Linked plans of one round.

    loads      (address, slot, register): what a round finds in the live blocks; hats likewise
    results    what it leaves there: per address a template and (slot, register) pairs; hats likewise
    watched    registers the range watch looks at, and where they come from
    """

    loads: list[tuple[Address, str, int]] = field(default_factory=list)
    hat_loads: list[tuple[Address, str, int]] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    results: dict[Address, tuple[Block, list[tuple[str, int]]]] = field(default_factory=dict)
    hat_results: dict[Address, list[tuple[str, int]]] = field(default_factory=dict)
    watched: list[tuple[Watched, int]] = field(default_factory=list)
    n_registers: int = 0

    def __post_init__(self) -> None:
        self._windows: list[tuple[list[Callable[[Registers], None]], list[int]]] = []

    def compile(self) -> None:
        """Turn operations into calls with fixed positions, and sort what is watched."""
        calls = [_call(op) for op in self.operations]
        self._windows = list(zip(_in_windows(calls), self._unread(), strict=True))
        queries = [(source, index) for source, index in self.watched if source.is_query]
        others = [(source, index) for source, index in self.watched if not source.is_query]
        self._asked = [s for s, _ in queries], [i for _, i in queries]
        self._hidden = [s for s, _ in others], [i for _, i in others]

    def log(self, watch: RangeWatch, round_: int, r: Registers) -> None:
        """Hand the watched registers over."""
        sources, indices = self._asked
        if indices:
            watch.log_queries(round_, sources, [r[i] for i in indices])
        sources, indices = self._hidden
        if indices:
            watch.log_preactivations(round_, sources, [r[i] for i in indices])

    def run(self, live: Mapping[Address, Block]) -> Registers:
        """Read the live blocks and compute; nothing is stored yet."""
        r: Registers = [NOTHING] * self.n_registers
        for address, slot, index in self.loads:
            r[index] = live[address].slots[slot]
        for address, slot, index in self.hat_loads:
            r[index] = live[address].hats[slot]
        for calls, unread in self._windows:
            for call in calls:
                call(r)
            for index in unread:
                r[index] = NOTHING
        return r

    def _unread(self) -> list[list[int]]:
        """Per window, the registers that no later operation, result or watch reads."""
        last = {op.output: at for at, op in enumerate(self.operations)}
        for at, op in enumerate(self.operations):
            last.update(dict.fromkeys(op.inputs, at))
        kept = {index for _, index in self.watched}
        kept |= {index for _, pairs in self.results.values() for _, index in pairs}
        kept |= {index for pairs in self.hat_results.values() for _, index in pairs}
        windows: list[list[int]] = [[] for _ in range(0, len(self.operations), WINDOW)]
        for index, at in last.items():
            if index not in kept:
                windows[at // WINDOW].append(index)
        return windows

    def store(self, live: dict[Address, Block], r: Registers) -> None:
        """Put the results where the next round finds them."""
        for address, (template, pairs) in self.results.items():
            there = live.get(address)
            if there is not None and there.kind == template.kind:
                # Same kind of block as before: only its tensors may be new.
                for slot, index in pairs:
                    there.slots[slot] = r[index]
                for slot, index in self.hat_results[address]:
                    there.hats[slot] = r[index]
            else:
                slots = {slot: r[index] for slot, index in pairs}
                hats = {slot: r[index] for slot, index in self.hat_results[address]}
                live[address] = Block(slots, template.signature, hats, kind=template.kind)


def _in_windows(
    calls: list[Callable[[Registers], None]],
) -> list[list[Callable[[Registers], None]]]:
    return [calls[at : at + WINDOW] for at in range(0, len(calls), WINDOW)]


def _call(op: Operation) -> Callable[[Registers], None]:
    function, out = op.function, op.output
    if len(op.inputs) == 1:
        (a,) = op.inputs

        def one(r: Registers) -> None:
            r[out] = function(r[a])

        return one
    if len(op.inputs) == 2:
        a, b = op.inputs

        def two(r: Registers) -> None:
            r[out] = function(r[a], r[b])

        return two
    if len(op.inputs) == 3:
        a, b, c = op.inputs

        def three(r: Registers) -> None:
            r[out] = function(r[a], r[b], r[c])

        return three
    inputs = op.inputs

    def many(r: Registers) -> None:
        r[out] = function(*[r[i] for i in inputs])

    return many


def link_round(
    live: Mapping[Address, Block],
    steps: Sequence[Step],
    wanted: Mapping[Address, frozenset[str]],
    plan_for: Callable[[Sequence[Block], Step], Plan],
) -> RoundPlan:
    """The round from these live blocks, keeping `wanted` slots and whatever later rounds read.

    Later rounds may meet blocks that hold more than the first ones do, so the rounds to come are
    linked as well, until they ask for nothing new.
    """
    needed: set[tuple[Address, str]] = set()
    blocks = dict(live)
    while True:
        full = Linker(blocks, plan_for).link(steps, None)
        loaded = {(address, slot) for address, slot, _ in full.loads if address in full.results}
        blocks.update({address: template for address, (template, _) in full.results.items()})
        if loaded <= needed:
            break
        needed |= loaded
    keep = {
        address: wanted.get(address, frozenset())
        | frozenset(slot for where, slot in needed if where == address)
        for address in full.results
    }
    return Linker(live, plan_for).link(steps, keep)


class Linker:
    """Links the plans of a round's steps, given the kinds of the live blocks."""

    def __init__(
        self, live: Mapping[Address, Block], plan_for: Callable[[Sequence[Block], Step], Plan]
    ) -> None:
        self._plan_for = plan_for
        self._blocks = dict(live)
        self._where: dict[tuple[Address, str], int] = {}
        self._hat_where: dict[tuple[Address, str], int] = {}
        self._computed: dict[tuple[Hashable, tuple[int, ...]], int] = {}
        self.linked = RoundPlan()

    def link(
        self, steps: Sequence[Step], wanted: Mapping[Address, frozenset[str]] | None
    ) -> RoundPlan:
        """Link all steps, then keep only what `wanted` slots and the watch depend on (None: all)."""
        written: dict[Address, Block] = {}
        for step in steps:
            blocks = [self._blocks[address] for address in step.reads]
            written[step.writes] = self._append(self._plan_for(blocks, step), step)
            self._blocks[step.writes] = written[step.writes]
        for address, block in written.items():
            every = frozenset(block.slots)
            keep = every if wanted is None else wanted.get(address, frozenset())
            signature = tuple(
                (slot, tag)
                for slot, tag in block.signature
                if slot in keep or not isinstance(tag, str)
            )
            pairs = [(slot, self._where[address, slot]) for slot in block.slots if slot in keep]
            hats = [slot for slot in block.hats if slot in keep]
            template = Block({}, signature, dict.fromkeys(hats, NOTHING))
            self.linked.results[address] = (template, pairs)
            self.linked.hat_results[address] = [
                (slot, self._hat_where[address, slot]) for slot in hats
            ]
        self._drop_unused()
        self.linked.compile()
        return self.linked

    def _append(self, plan: Plan, step: Step) -> Block:
        position: dict[int, int] = {}
        for which, slot, index in plan.loads:
            position[index] = self._register(
                step.reads[which], slot, self._where, self.linked.loads
            )
        for which, slot, index in plan.hat_loads:
            position[index] = self._register(
                step.reads[which], slot, self._hat_where, self.linked.hat_loads
            )
        for op in plan.operations:
            inputs = tuple(position[i] for i in op.inputs)
            same = (op.key, inputs)
            if op.key is not None and same in self._computed:
                position[op.output] = self._computed[same]
                continue
            position[op.output] = self._new()
            if op.key is not None:
                self._computed[same] = position[op.output]
            self.linked.operations.append(Operation(op.function, inputs, position[op.output]))
        for slot, index in plan.stores:
            self._where[step.writes, slot] = position[index]
        for slot, index in plan.hat_stores:
            self._hat_where[step.writes, slot] = position[index]
        for label, slot, index in plan.watched:
            source = Watched(step.kind, step.writes[1], label, slot, limits=plan.limits.get(label))
            self.linked.watched.append((source, position[index]))
        # Only the kind of this block matters while linking; its tensors come when a round runs.
        return Block(
            {slot: NOTHING for slot, _ in plan.stores},
            plan.signature,
            {slot: NOTHING for slot, _ in plan.hat_stores},
        )

    def _register(
        self,
        address: Address,
        slot: str,
        where: dict[tuple[Address, str], int],
        loads: list[tuple[Address, str, int]],
    ) -> int:
        if (address, slot) not in where:
            where[address, slot] = self._new()
            loads.append((address, slot, where[address, slot]))
        return where[address, slot]

    def _new(self) -> int:
        self.linked.n_registers += 1
        return self.linked.n_registers - 1

    def _drop_unused(self) -> None:
        linked = self.linked
        needed = {index for _, index in linked.watched}
        needed |= {index for _, pairs in linked.results.values() for _, index in pairs}
        needed |= {index for pairs in linked.hat_results.values() for _, index in pairs}
        kept = []
        for op in reversed(linked.operations):
            if op.output in needed:
                needed.update(op.inputs)
                kept.append(op)
        linked.operations = kept[::-1]
        linked.loads = [load for load in linked.loads if load[2] in needed]
        linked.hat_loads = [load for load in linked.hat_loads if load[2] in needed]
