"""A training program, round by round beside the user's own step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.mechanisms.machine.programs.codec import Round
from icgd.mechanisms.machine.programs.program import TrainingRun
from icgd.mechanisms.machine.programs.training import Prepared
from icgd.oracle.eager_step import EagerStep, Named, one_ulp_away
from icgd.transformer.program.progress import progress_reporter
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.verification.machine.check import MachineCheck, MachineRound
from icgd.verification.machine.judge import RoundJudge, apart, lasting
from icgd.verification.machine.verdict import judged
from icgd.verification.probes.machine import probe_machine
from icgd.verification.verdict.observation import Watched

WEIGHTS = ("param.", "buffer.")


@dataclass(frozen=True)
class Request:
    """How to verify; see `icgd.verify`."""

    executor: ExecutorName
    probe_sets: int
    seed: int
    progress: bool | Callable[[int, int], None]
    watched: Watched


def verify_training(
    ready: Prepared, eager: EagerStep, forward: EagerStep, how: Request
) -> MachineCheck:
    """See verify_machine."""
    walk = _Walk(ready, eager, forward, how)
    probes = probe_machine(ready.program, n_sets=how.probe_sets, seed=how.seed)
    try:
        run = walk.run()
        walk.other_tapes()
    except AssumptionViolated as stopped:
        # A sound program that leaves its range is the caller's to mend; an altered one is a verdict.
        if not ready.program._is_altered() and all(probe.passed for probe in probes):
            raise
        return judged(walk.records, walk.names, None, probes, stopped=str(stopped))
    return judged(
        walk.records, walk.names, run, probes, predictions=walk.predictions, drift=walk.drift
    )


class _Walk:
    """The machine's rounds, PyTorch's own run, and a twin of it, side by side."""

    def __init__(self, ready: Prepared, eager: EagerStep, forward: EagerStep, how: Request) -> None:
        self.ready, self.eager, self.forward, self.how = ready, eager, forward, how
        self.program = ready.program
        self.judge = RoundJudge(self.program, eager, how.executor)
        self.before: Named = dict(ready.state)
        self.exact: Named = dict(ready.state)
        self.twin: Named = one_ulp_away(ready.state, seed=how.seed)
        self.records: list[MachineRound] = []
        self.predictions: list[MachineRound] = []
        self.names: list[list[str]] = []
        self.drift = 0.0

    def run(self) -> TrainingRun:
        """All rounds of the run."""
        how, rounds = self.how, self.ready.rounds
        with progress_reporter(how.progress, len(rounds)) as report:

            def after(done: int, values: Mapping[str, Tensor]) -> None:
                self._round(done, values)
                how.watched.note(done, values, self.exact)
                if report is not None:
                    report(done, len(rounds))

            ended = self.program.execute(
                self.ready.state, rounds, executor=how.executor, after=after
            )
        return self.program.result(ended, self.before, how.executor)

    def _round(self, done: int, values: Mapping[str, Tensor]) -> None:
        one, arguments = self.ready.rounds[done - 1], self.ready.arguments[done - 1]
        got = {name: value.detach().clone() for name, value in values.items()}
        hyper = {n: v for n, v in one.arriving.items() if n.startswith("hyper.")}
        self.exact = lasting(self.eager({**self.exact, **hyper}, arguments))
        self.twin = lasting(self.eager({**self.twin, **hyper}, arguments))
        rows, bound = self.judge.entries(one.tape, {**self.before, **one.arriving}, arguments, got)
        run = apart(got, self.exact, WEIGHTS), apart(self.twin, self.exact, WEIGHTS)
        way = apart(self.exact, self.ready.state, WEIGHTS)
        self.drift = max(self.drift, run[0] / way if way else 0.0)
        self._keep(self.judge.record(done, one.tape, rows, bound, run), [r.name for r in rows])
        self.before = {**self.before, **lasting(got)}

    def _keep(self, record: MachineRound, names: list[str]) -> None:
        self.records.append(record)
        self.names.append(names)

    # -- tapes the run did not need ---------------------------------------------------------------

    def other_tapes(self) -> None:
        """One round of every tape that the run did not need, with rows of the same data."""
        met = {one.tape for one in self.ready.rounds}
        for tape in self.program.tapes.tapes:
            kind, _, size = tape.partition(":")
            if tape in met:
                continue
            rows = self._rows(int(size))
            state = self.ready.state if kind == "first" else self.before
            if kind == "predict":
                self._prediction(tape, rows[:-1])
            elif kind == "first" or self._has_state(tape):
                self._single(tape, state, rows)

    def _rows(self, size: int) -> tuple[Any, ...]:
        """So many rows of the data, from the start again where there are fewer."""
        whole = [torch.cat(column) for column in zip(*self.ready.arguments, strict=True)]
        index = torch.arange(size) % len(whole[0])
        return tuple(column[index] for column in whole)

    def _has_state(self, tape: str) -> bool:
        """Whether a later round can be made from where the run stands."""
        needed = [n for n in self.program.tapes.tapes[tape].inputs if n.startswith("state.")]
        return all(name in self.before for name in needed)

    def _single(self, tape: str, state: Named, rows: tuple[Any, ...]) -> None:
        known = self.program.tapes.tapes[tape].inputs
        last = self.ready.rounds[-1].arriving
        arriving = {n: v for n, v in last.items() if n.startswith("hyper.")}
        arriving |= {f"data.{k}": v for k, v in enumerate(rows) if f"data.{k}" in known}
        inputs = {n: v for n, v in state.items() if n in known or n.startswith(WEIGHTS)}
        got = self._executed(tape, inputs, arriving)
        entries, bound = self.judge.entries(tape, {**inputs, **arriving}, rows, got)
        record = self.judge.record(len(self.records) + 1, tape, entries, bound)
        self._keep(record, [row.name for row in entries])

    def _prediction(self, tape: str, rows: tuple[Any, ...]) -> None:
        known = self.program.tapes.tapes[tape].inputs
        state = {n: v for n, v in self.before.items() if n in known}
        arriving = {f"data.{k}": v for k, v in enumerate(rows) if f"data.{k}" in known}
        got = self._executed(tape, state, arriving)
        inputs = {**state, **arriving}
        entries, bound = self.judge.entries(tape, inputs, rows, got, self.forward)
        answers = [row for row in entries if row.name.startswith("out.")]
        number = len(self.predictions) + 1
        self.predictions.append(self.judge.record(number, tape, answers, bound))

    def _executed(
        self, tape: str, state: Mapping[str, Tensor], arriving: Mapping[str, Tensor]
    ) -> Named:
        ended = self.program.execute(state, [Round(tape, arriving)], executor=self.how.executor)
        return ended.values
