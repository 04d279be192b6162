"""Records a run for people to look at: the prompt block by block, and every step opened up.

A recording keeps to a budget: all rounds give their curves, and as many rounds as fit are kept in
detail, the first ones in a row and the others spread over the run. Rounds that are not kept run as
fast as ever.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from icgd._version import __version__
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.layout import Layout
from icgd.nn.frozen_layer import FrozenLayer
from icgd.nn.masks import Address, Step
from icgd.nn.views import Interest, StageView
from icgd.runtime.loop import Executor
from icgd.runtime.recording_sheet import Sheet
from icgd.runtime.trace_outline import slots_of
from icgd.runtime.watch import RangeWatch
from icgd.trace.format import (
    BlockKind,
    GridInfo,
    ProgramInfo,
    ScheduledStep,
    StageInfo,
    Trace,
)

FIXED = 50_000
"""Characters of everything in a file that does not grow with the rounds, rounded up."""
REMEASURE = 64
"""Rounds in detail after which it is looked again how well numbers compress."""
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
        self, *, budget_mb: float = 14.0, heads: int = 2, which: Sequence[int] = (),
        tokens: int = 64, rounds: Sequence[int] | None = None, exact: Exact | None = None,
    ) -> None:  # fmt: skip
        if not (math.isfinite(budget_mb) and budget_mb > 0):
            raise InvalidParameter("budget_mb", budget_mb, "be > 0 and finite")
        if heads < 0 or tokens < 1:
            name, value = ("heads", heads) if heads < 0 else ("tokens", tokens)
            raise InvalidParameter(name, value, "be >= 0" if name == "heads" else "be >= 1")
        self.budget = budget_mb * 1e6
        self.interest = Interest(heads, tuple(which), tokens)
        self._asked = None if rounds is None else sorted({int(r) for r in rounds})
        self._exact = exact
        self._outline: Outline | None = None

    # -- called by the program ---------------------------------------------------------------------

    def begin(self, outline: Outline) -> None:
        """Start a recording, forgetting the one before."""
        n = outline.n_rounds
        if self._asked is not None and not (
            self._asked and 1 <= self._asked[0] <= self._asked[-1] <= n
        ):
            raise InvalidParameter("rounds", self._asked, f"be rounds from 1 to {n}")
        self._outline, self._sheet = outline, Sheet(outline.layout, self.interest)
        self._ids: dict[Address, list[int]] = {}
        self._numbers: list[tuple[float, float, float, float]] = []
        self._wanted = set(self._asked) if self._asked is not None else {1, min(2, n)}
        self._kept: list[int] = []
        self._sizes: list[float] = []
        self._pending: list[StageView] = []
        self._written = {step.writes for step in outline.steps}

    def end_round(self, round_: int, weights: Any, watch: RangeWatch) -> None:
        """Note what every round gives, and plan after the first two."""
        numbers = RoundNumbers() if self._exact is None else self._exact.numbers(weights)
        use = watch.use_since()
        self._numbers.append((numbers.error, numbers.loss, numbers.exact_loss, use))
        if round_ in self._wanted:
            self._kept.append(round_)
            self._sizes.append(self._size())
            if len(self._kept) % REMEASURE == 0:
                self._measure()
        if self._asked is None and round_ == min(2, self._told.n_rounds):
            self._plan()

    # -- called by the loop (StepWatcher) -------------------------------------------------------------

    def begin_round(self, round_: int, arrived: Collection[Address]) -> bool:
        """See StepWatcher."""
        if self._exact is not None:
            self._exact.begin_round(round_)
        for address in arrived:
            self._ids.pop(address, None)
        self._arrived = set(arrived)
        full = self._size() + self._per_round() > self.budget and round_ != self._told.n_rounds
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
        made = self._sheet.put_block(written, step.writes, round_, "step", exact)
        self._ids[step.writes] = [*self._ids.get(step.writes, []), made] if grows else [made]
        place = list(self._told.steps).index(step)
        self._sheet.put_step(round_, place, reads, made, self._pending)

    # -- the recording --------------------------------------------------------------------------------

    def trace(self) -> Trace:
        """What was recorded so far."""
        if self._outline is None or not self._numbers:
            raise AssumptionViolated(
                "Nothing was recorded yet. Pass the recorder to program.run(..., record=recorder) first."
            )
        told, put = self._outline, self._sheet.store.put
        columns = np.array(self._numbers).T
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
            for bank, grid in told.layer.grids().items()
        ]
        stages = [
            StageInfo(
                name=s.name, kind=s.kind, title=s.title, slots=slots_of(s.layout), gates=list(s.gates)
            )
            for s in told.layer.stages()
        ]  # fmt: skip
        return Trace.model_validate(
            {
                "icgd_version": __version__,
                "program": told.program,
                "layout": slots_of(told.layout),
                "kinds": list(told.kinds),
                "schedule": list(told.schedule),
                "stages": stages,
                "grids": grids,
                "n_rounds": len(self._numbers),
                "rounds": self._kept,
                "curves": {**curves, **title},
                "blocks": self._sheet.blocks,
                "steps": self._sheet.steps,
                "notes": [*told.notes, *self._thinned()],
                "arrays": self._sheet.store.pools(),
            }
        )

    # -- sizes ----------------------------------------------------------------------------------------

    @property
    def _told(self) -> Outline:
        assert self._outline is not None
        return self._outline

    def _size(self) -> float:
        curves = 4 * 8 * 4 / 3 * self._told.n_rounds
        return self._sheet.size + curves + FIXED

    def _per_round(self) -> float:
        """What a round takes whose blocks are not yet there: twice what it writes, to be safe."""
        if len(self._sizes) < 2:
            return self._size()
        return 2 * max(1.0, self._sizes[1] - self._sizes[0])

    def _measure(self) -> None:
        factor = self._sheet.measure()
        self._sizes = [size * factor for size in self._sizes]

    def _plan(self) -> None:
        """Choose the rounds that fit."""
        n = self._told.n_rounds
        if self._size() > self.budget:
            raise InvalidParameter(
                "budget_mb", self.budget / 1e6, f"hold two rounds, {self._size() / 1e6:.1f} MB here",
                remedy="Raise it, or record a smaller network, fewer tokens or fewer heads.",
            )  # fmt: skip
        self._measure()
        each = self._per_round()
        if self._size() + each / 2 * (n - 2) <= self.budget:
            self._wanted = set(range(1, n + 1))
            return
        room = int((self.budget - self._size()) / each)
        row = 2 + int(2 * FIRST * room)  # rounds in a row share their blocks: half the size
        rest = max(1, room - int(FIRST * room))
        spread = {round(row + (n - row) * (i + 1) / rest) for i in range(rest)}
        self._wanted = {*range(1, row + 1), *spread, n}

    def _thinned(self) -> list[str]:
        done = len(self._numbers)
        if len(self._kept) == done:
            return []
        return [
            f"{len(self._kept)} of {done} rounds are kept in detail; the curves show all of them. A larger "
            "budget keeps more."
        ]
