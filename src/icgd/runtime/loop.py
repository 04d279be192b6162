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

    def round(self, live: dict[Address, Any], steps: Sequence[Step], round_: int) -> None:
        """Apply the layer for every step of a round, reading and writing the live blocks."""


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
    live = state.live
    for arrived in arrivals:
        state.rounds += 1
        for address, block in arrived.items():
            live[address] = executor.load(block)
        if state.rounds == 1:
            check_sight(steps, live)
        if keep_trace:
            for step in steps:
                visible = [live[address] for address in step.reads]
                live[step.writes] = executor.step(visible, step, state.rounds)
                state.trace.append(TraceEntry(state.rounds, step, executor.dump(live[step.writes])))
        else:
            executor.round(live, steps, state.rounds)
        state.live_blocks_max = max(state.live_blocks_max, len(live))
        executor.watch.end_round()
        if on_round is not None:
            on_round(state.rounds)
    state.blocks_written = state.rounds * len(steps)
    executor.watch.flush()
    return state


def check_sight(steps: Sequence[Step], live: Mapping[Address, Any]) -> None:
    """Every step must see blocks that exist by then."""
    known = set(live)
    for step in steps:
        missing = [address for address in step.reads if address not in known]
        if missing or not step.reads:
            what = (
                f"sees block {missing[0]}, which the prompt does not hold"
                if missing
                else "sees no block"
            )
            raise AssumptionViolated(
                f"Step {step.kind} writing {step.writes} {what}. A step with nothing to see has no defined "
                "output; mend the mask rule."
            )
        known.add(step.writes)
