"""Records a run for people to look at: the prompt block by block, and every step opened up.

A recording keeps to a budget: all rounds give their curves, and as many rounds as fit are kept in
detail, the first ones in a row and the others spread over the run. Rounds that are not kept run as
fast as ever.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from icgd import __version__
from icgd.base.preflight import as_bytes
from icgd.errors import AssumptionViolated, InvalidParameter, TooLarge
from icgd.transformer.layout import Layout
from icgd.transformer.mask_rules import Address, Step
from icgd.transformer.nn.frozen_layer import FrozenLayer
from icgd.transformer.nn.views import Interest, StageView
from icgd.transformer.runtime.loop import Executor
from icgd.transformer.runtime.recording.outline import slots_of
from icgd.transformer.runtime.recording.sheet import Sheet
from icgd.transformer.runtime.watch import RangeWatch
from icgd.transformer.trace.arrays import LARGEST_UNFOLDED
from icgd.transformer.trace.format import (
    BlockKind,
    GridInfo,
    ProgramInfo,
    ScheduledStep,
    StageInfo,
    Trace,
)

N_CURVES = 4
"""Numbers that every round gives."""
NAMES = 2000
"""Characters of a file's own field names and notes, rounded up."""
REPLAN = 32
"""Rounds in detail after which it is looked again what a round takes; before, after 2, 4, 8 and 16."""
FIRST = 1 / 3
"""Share of the rounds kept in detail that are kept in a row from the start."""


@dataclass(frozen=True)
class RoundNumbers:
    """One round in four numbers; NaN: not known."""

    error: float = math.nan
    loss: float = math.nan
    exact_loss: float = math.nan


class Exact(Protocol):
    """An exact optimizer that walks beside a run.

    loss_title  what the loss is, in words
    """

    loss_title: str

    def begin_round(self, round_: int) -> None:
        """Make the exact round."""

    def block(self, step: Step) -> Mapping[str, Tensor]:
        """Exact values of slots of the block this step writes, in the round begun last."""

    def numbers(self, weights: Any) -> RoundNumbers:
        """Hold the weights after the round against the exact ones."""


@dataclass(frozen=True)
class Outline:
    """What a recorder must know of a run before it starts."""

    program: ProgramInfo
    layout: Layout
    layer: FrozenLayer
    kinds: Sequence[BlockKind]
    schedule: Sequence[ScheduledStep]
    steps: Sequence[Step]
    n_rounds: int
    notes: Sequence[str] = ()


class Recorder:
    """Give it to `program.run(..., record=recorder)`; `recorder.trace()` is the recording.

    budget_mb  size the file may have, in megabytes
    heads      attention over the grid is kept for so many heads of a bank, those that ask for most
    which      and for these heads, by number from 0
    tokens     tokens of a block that are kept, where each has numbers of its own
    rounds     rounds to keep in detail; as many as fit unless given
    exact      an exact optimizer to walk beside the run (`icgd.record_trace` brings one)

    Of many problems run at once the first is recorded.
    """

    def __init__(
        self,
        *,
        budget_mb: float = 14.0,
        heads: int = 2,
        which: Sequence[int] = (),
        tokens: int = 64,
        rounds: Sequence[int] | None = None,
        exact: Exact | None = None,
    ) -> None:
        if not (_is_number(budget_mb) and math.isfinite(budget_mb) and budget_mb > 0):
            raise InvalidParameter("budget_mb", budget_mb, "be a finite number > 0")
        self.budget = budget_mb * 1e6
        self.interest = Interest(
            _at_least("heads", heads, 0),
            tuple(_whole("which", which, 0)),
            _at_least("tokens", tokens, 1),
        )
        self._asked = None if rounds is None else sorted(set(_whole("rounds", rounds, 1)))
        self._exact = exact
        self._outline: Outline | None = None
        self.after_round: Callable[[int, Any], None] | None = None
        """Called with (round, weights) after every round that was noted; the verifier judges there."""

    # -- called by the program ---------------------------------------------------------------------

    def begin(self, outline: Outline) -> None:
        """Start a recording, forgetting the one before."""
        n = outline.n_rounds
        if self._asked is not None and not (
            self._asked and 1 <= self._asked[0] <= self._asked[-1] <= n
        ):
            raise InvalidParameter("rounds", self._asked, f"be rounds from 1 to {n}")
        self._outline, self._sheet = outline, Sheet(outline.layout, self.interest)
        grids = outline.layer.grids().values()
        self._fixed = NAMES + len(json.dumps(self._described(), default=str))
        self._fixed += sum(11 * v.numel() for grid in grids for v in vars(grid).values())
        self._ids: dict[Address, list[int]] = {}
        self._numbers = array("d")  # N_CURVES a round
        self._wanted = set(self._asked) if self._asked is not None else {1, min(2, n)}
        self._kept: list[int] = []
        self._costs: list[float] = []
        self._pool_cost = self._pool_before = 0  # bytes a round in detail adds to the larger pool
        self._whole = (0, 0)  # blocks and steps of finished rounds
        self._place = 0
        self._pending: list[StageView] = []
        self._written = {step.writes for step in outline.steps}

    def end_round(self, round_: int, weights: Any, watch: RangeWatch) -> None:
        """Note what every round gives, and plan after the first two."""
        numbers = RoundNumbers() if self._exact is None else self._exact.numbers(weights)
        use = watch.use_since() if math.isfinite(watch.radius) else math.nan
        self._numbers.extend((numbers.error, numbers.loss, numbers.exact_loss, use))
        if round_ not in self._wanted:
            return
        self._kept.append(round_)
        self._costs.append(self._sheet.size - self._before)
        self._pool_cost = max(self._pool_cost, self._sheet.store.largest_pool - self._pool_before)
        self._whole = (len(self._sheet.blocks), len(self._sheet.steps))
        kept = len(self._kept)
        if self._asked is not None:
            self._check_room(f"hold the rounds asked for; after round {round_} there are")
        elif kept >= min(2, self._told.n_rounds) and (kept & (kept - 1) == 0 or kept % REPLAN == 0):
            self._plan(round_)

    # -- called by the loop (StepWatcher) -------------------------------------------------------------

    def begin_round(self, round_: int, arrived: Collection[Address]) -> bool:
        """See StepWatcher."""
        if self._exact is not None:
            self._exact.begin_round(round_)
        for address in arrived:
            self._ids.pop(address, None)
        self._arrived, self._place, self._before = set(arrived), 0, self._sheet.size
        self._pool_before = self._sheet.store.largest_pool
        # The last round is always kept: leave room for it beside this one.
        full = (
            self._size() + 2 * self._cost() > self.budget
            or 2 * self._pool_cost > self._unfolded_left()
        )
        full &= round_ != self._told.n_rounds
        if round_ in self._wanted and self._asked is None and round_ > 2 and full:
            self._wanted.discard(round_)
        if round_ in self._wanted:
            return True
        for address in self._written:
            self._ids.pop(address, None)
        # The round before a recorded one is made step by step, so that all its blocks are complete.
        return round_ + 1 in self._wanted

    def before_step(
        self, step: Step, live: Mapping[Address, Any], executor: Executor, round_: int
    ) -> None:
        """See StepWatcher."""
        if round_ not in self._wanted:
            return
        for address in step.reads:
            if address not in self._ids:
                origin = "prompt" if round_ == 1 else "earlier"
                origin = "arrival" if address in self._arrived else origin
                when = round_ - 1 if origin == "earlier" else round_ if origin == "arrival" else 0
                block = executor.dump(live[address])
                self._ids[address] = [self._sheet.put_block(block, address, when, origin, {})]
        self._pending = executor.explain([live[a] for a in step.reads], self.interest)

    def after_step(self, step: Step, block: Any, executor: Executor, round_: int) -> None:
        """See StepWatcher."""
        if round_ not in self._wanted:
            return
        grows = executor.grows
        reads = [i for address in step.reads for i in self._ids[address]]
        exact = {} if self._exact is None else self._exact.block(step)
        written = executor.dump(block[..., -1:, :] if grows else block)
        block_id = self._sheet.put_block(written, step.writes, round_, "step", exact)
        self._ids[step.writes] = (
            [*self._ids.get(step.writes, []), block_id] if grows else [block_id]
        )
        self._sheet.put_step(round_, self._place, reads, block_id, self._pending)
        self._place += 1

    # -- the recording --------------------------------------------------------------------------------

    def trace(self) -> Trace:
        """What was recorded, of a run that stopped early its finished rounds."""
        if self._outline is None or not self._numbers:
            raise AssumptionViolated(
                "Nothing was recorded yet: no round was finished. Pass the recorder to "
                "program.run(..., record=recorder) first."
            )
        n_blocks, n_steps = self._whole
        outline, put = self._outline, self._sheet.store.put
        columns = np.array(self._numbers).reshape(-1, N_CURVES).T
        curves = {
            name: put(column)
            for name, column in zip(
                ("error", "loss", "exact_loss", "range_use"), columns, strict=True
            )
            if not np.isnan(column).all()
        }
        title = {} if self._exact is None else {"loss_title": self._exact.loss_title}
        grids = [
            GridInfo(bank=bank, **{k: put(v.cpu().double().numpy()) for k, v in vars(grid).items()})
            for bank, grid in outline.layer.grids().items()
        ]
        return Trace.model_validate(
            {
                **self._described(),
                "grids": grids,
                "n_rounds": self._n_done,
                "rounds": self._kept,
                "curves": {**curves, **title},
                "blocks": self._sheet.blocks[:n_blocks],
                "steps": self._sheet.steps[:n_steps],
                "notes": [*outline.notes, *self._remarks()],
                "arrays": self._sheet.store.pools(),
            }
        )

    def _described(self) -> dict[str, Any]:
        """What a trace says of the program, whatever it did."""
        outline = self._told
        stages = [
            StageInfo(
                name=s.name,
                kind=s.kind,
                title=s.title,
                slots=slots_of(s.layout),
                gates=list(s.gates),
            )
            for s in outline.layer.stages()
        ]
        return {
            "icgd_version": __version__,
            "program": outline.program,
            "layout": slots_of(outline.layout),
            "kinds": list(outline.kinds),
            "schedule": list(outline.schedule),
            "stages": stages,
        }

    # -- sizes ----------------------------------------------------------------------------------------

    @property
    def _told(self) -> Outline:
        assert self._outline is not None
        return self._outline

    def _size(self) -> float:
        curves = N_CURVES * 8 * self._told.n_rounds * self._sheet.ratio
        return self._sheet.size + curves + self._fixed

    @property
    def _n_done(self) -> int:
        return len(self._numbers) // N_CURVES

    def _unfolded_left(self) -> float:
        """Bytes the larger pool may still grow by, curves set aside, for a reader to accept it."""
        curves = N_CURVES * 8 * self._told.n_rounds
        return LARGEST_UNFOLDED - curves - self._sheet.store.largest_pool

    def _cost(self) -> float:
        """What another round takes, about: the last one, or what rounds take on average if that is more."""
        later = self._costs[1:] or self._costs or [0.0]
        return max(self._costs[-1] if self._costs else 0.0, sum(later) / len(later))

    def _check_room(self, must: str) -> None:
        if self._size() > self.budget:
            raise InvalidParameter(
                "budget_mb",
                self.budget / 1e6,
                f"{must} {self._size() / 1e6:.2f} MB here",
                remedy="Raise it, or record fewer rounds, a smaller network, fewer tokens or fewer heads.",
            )

        if self._unfolded_left() < 0:
            raise TooLarge(
                f"A recording of {self._told.n_rounds:,} rounds holds more than {as_bytes(LARGEST_UNFOLDED)} "
                "of numbers of one kind, and no reader opens such a file. Record a shorter run, fewer rounds "
                "in detail, or fewer tokens."
            )

    def _plan(self, done: int) -> None:
        """Choose the rounds that fit into what is left: some more in a row, the others spread to the end."""
        n = self._told.n_rounds
        factor = self._sheet.measure()
        self._costs = [cost * factor for cost in self._costs]
        self._check_room(f"hold two rounds and the curves of {n:,},")
        each, left = 1.05 * self._cost(), self.budget - self._size()
        # Of what compresses well, less fits into what a reader unfolds than into the budget.
        left = min(left, each * self._unfolded_left() / (1.05 * max(1, self._pool_cost)))
        if each * (n - done) <= left:
            self._wanted = {*self._kept, *range(done + 1, n + 1)}
            return
        in_a_row = self._kept[-1] == len(self._kept)
        share = FIRST * min(self.budget, self._size() + left) - self._size() if in_a_row else 0.0
        row = max(0, int(share / each))
        # A round apart from the one before brings the blocks it reads, about as much again.
        apart = 2 * each if in_a_row else each
        rest = max(1, int((left - row * each) / apart))
        gap = n - done - row
        spread = {n - gap * i // rest for i in range(rest)}
        self._wanted = {*self._kept, *range(done + 1, done + row + 1), *spread}

    def _remarks(self) -> list[str]:
        done, planned, remarks = self._n_done, self._told.n_rounds, []
        if done < planned:
            remarks.append(f"The run stopped after {done} of {planned} rounds.")
        if self._exact is None:
            remarks.append("No exact optimizer walked beside this run: there are no exact values.")
        if len(self._kept) < done:
            remarks.append(
                f"{len(self._kept)} of {done} rounds are kept in detail; the curves show all of them. A larger "
                "budget keeps more."
            )
        return remarks


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _at_least(name: str, value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidParameter(name, value, f"be an integer >= {least}")
    return value


def _whole(name: str, values: Any, least: int) -> list[int]:
    """A list of numbers, each at least so large."""
    try:
        return [_at_least(name, value, least) for value in values]
    except (TypeError, InvalidParameter):
        raise InvalidParameter(name, values, f"be integers >= {least}") from None
