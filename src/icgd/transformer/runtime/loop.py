"""The loop: read the visible blocks, apply the frozen layer, write the next block. Nothing else.

Every construction of the package runs through this function; a new theorem brings a layer, a mask
rule and blocks, never a change here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from icgd.errors import AssumptionViolated
from icgd.transformer.blocks import Block
from icgd.transformer.mask_rules import Address, Step
from icgd.transformer.nn.views import Interest, StageView
from icgd.transformer.runtime.watch import RangeWatch


class Executor(Protocol):
    """Applies the layer to blocks in a form of its own choosing.

    grows  whether a step gives back the block it saw with one more token, not another block
    """

    watch: RangeWatch
    grows: bool

    def load(self, block: Block) -> Any:
        """Bring a block into this executor's form."""

    def dump(self, block: Any) -> Block:
        """Bring a block back."""

    def step(self, blocks: Sequence[Any], step: Step, round_: int) -> Any:
        """Apply the layer."""

    def round(self, live: dict[Address, Any], steps: Sequence[Step], round_: int) -> None:
        """Apply the layer for every step of a round, reading and writing the live blocks."""

    def explain(self, blocks: Sequence[Any], interest: Interest) -> list[StageView]:
        """What each stage of the layer does with these blocks (of the first problem), for people."""


class StepWatcher(Protocol):
    """Looks at single steps, in the rounds it wants to see."""

    def begin_round(self, round_: int, arrived: Collection[Address]) -> bool:
        """Whether the steps of this round are to be made one by one and shown."""

    def before_step(
        self, step: Step, live: Mapping[Address, Any], executor: Executor, round_: int
    ) -> None:
        """Called with the blocks a step is about to see."""

    def after_step(self, step: Step, block: Any, executor: Executor, round_: int) -> None:
        """Called with the block it wrote."""


@dataclass(frozen=True)
class TraceEntry:
    """One generated block and what it was made from."""

    round: int
    step: Step
    block: Block


@dataclass
class BlockKeeper:
    """Keeps every block that is written."""

    entries: list[TraceEntry] = field(default_factory=list)

    def begin_round(self, round_: int, arrived: Collection[Address]) -> bool:
        """See StepWatcher."""
        return True

    def before_step(
        self, step: Step, live: Mapping[Address, Any], executor: Executor, round_: int
    ) -> None:
        """See StepWatcher."""

    def after_step(self, step: Step, block: Any, executor: Executor, round_: int) -> None:
        """See StepWatcher."""
        self.entries.append(TraceEntry(round_, step, executor.dump(block)))


@dataclass
class LoopState:
    """Live blocks by address, and what was counted on the way."""

    live: dict[Address, Any] = field(default_factory=dict)
    rounds: int = 0
    blocks_written: int = 0
    live_blocks_max: int = 0


def execute(
    steps: Sequence[Step] | Callable[[int], Sequence[Step]],
    prompt: Mapping[Address, Block],
    arrivals: Iterable[Mapping[Address, Block]],
    executor: Executor,
    *,
    state: LoopState | None = None,
    watcher: StepWatcher | None = None,
    on_round: Callable[[int], None] | None = None,
) -> LoopState:
    """Run one round per arrival.

    steps     the mask rule's schedule of a round, or a function from a round's number to its schedule
    prompt    blocks the run starts with
    arrivals  per round, the blocks that become visible in it (an example's X and Y)
    state     pass one in to look at the live blocks while the loop runs
    watcher   sees single steps, in rounds it asks for; all other rounds are made in one go
    """
    state = state if state is not None else LoopState()
    state.live.update({address: executor.load(block) for address, block in prompt.items()})
    live, checked = state.live, set[int]()
    for arrived in arrivals:
        state.rounds += 1
        for address, block in arrived.items():
            live[address] = executor.load(block)
        now = steps(state.rounds) if callable(steps) else steps
        if id(now) not in checked:
            check_sight(now, live)
            checked.add(id(now))
        if watcher is not None and watcher.begin_round(state.rounds, arrived):
            for step in now:
                watcher.before_step(step, live, executor, state.rounds)
                visible = [live[address] for address in step.reads]
                live[step.writes] = executor.step(visible, step, state.rounds)
                watcher.after_step(step, live[step.writes], executor, state.rounds)
        else:
            executor.round(live, now, state.rounds)
        state.live_blocks_max = max(state.live_blocks_max, len(live))
        state.blocks_written += len(now)
        executor.watch.end_round()
        if on_round is not None:
            on_round(state.rounds)
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
