"""The loop: read the visible blocks, apply the frozen layer, write the next block. Nothing else.

Every construction of the package runs through this function; a new theorem brings a layer, a mask
rule and blocks, never a change here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from icgd.errors import AssumptionViolated
from icgd.nn.masks import Address, Step
from icgd.runtime.blocks import Block
from icgd.runtime.watch import RangeWatch


class Executor(Protocol):
    """Applies the layer to blocks in a form of its own choosing."""

    watch: RangeWatch

    def load(self, block: Block) -> Any:
        """Bring a block into this executor's form."""

    def dump(self, block: Any) -> Block:
        """Bring a block back."""

    def step(self, blocks: Sequence[Any], step: Step, round_: int) -> Any:
        """Apply the layer."""


@dataclass(frozen=True)
class TraceEntry:
    """One generated block and what it was made from."""

    round: int
    step: Step
    block: Block


@dataclass
class LoopState:
    """Live blocks by address, and what was counted on the way."""

    live: dict[Address, Any] = field(default_factory=dict)
    rounds: int = 0
    blocks_written: int = 0
    live_blocks_max: int = 0
    trace: list[TraceEntry] = field(default_factory=list)


def execute(
    steps: Sequence[Step],
    prompt: Mapping[Address, Block],
    arrivals: Iterable[Mapping[Address, Block]],
    executor: Executor,
    *,
    state: LoopState | None = None,
    keep_trace: bool = False,
    on_round: Callable[[int], None] | None = None,
) -> LoopState:
    """Run one round per arrival.

    steps     the mask rule's schedule of a round
    prompt    blocks the run starts with
    arrivals  per round, the blocks that become visible in it (an example's X and Y)
    state     pass one in to look at the live blocks while the loop runs
    """
    state = state if state is not None else LoopState()
    state.live.update({address: executor.load(block) for address, block in prompt.items()})
    live, load, apply = state.live, executor.load, executor.step
    for arrived in arrivals:
        state.rounds += 1
        for address, block in arrived.items():
            live[address] = load(block)
        for step in steps:
            try:
                visible = [live[address] for address in step.reads]
            except KeyError as missing:
                raise AssumptionViolated(
                    f"Step {step.kind} of round {state.rounds} sees block {missing.args[0]}, which the "
                    "prompt does not hold. A step with nothing to see has no defined output; mend the "
                    "mask rule."
                ) from None
            live[step.writes] = apply(visible, step, state.rounds)
            if keep_trace:
                state.trace.append(TraceEntry(state.rounds, step, executor.dump(live[step.writes])))
        state.live_blocks_max = max(state.live_blocks_max, len(live))
        executor.watch.end_round()
        if on_round is not None:
            on_round(state.rounds)
    state.blocks_written = state.rounds * len(steps)
    executor.watch.flush()
    return state
