"""A program of a function, step by step beside the function in PyTorch."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.mechanisms.machine.programs.codec import Round
from icgd.mechanisms.machine.programs.function import TAPE, FunctionProgram, check_count
from icgd.oracle.eager_step import EagerStep, Named, one_ulp_away
from icgd.verification.machine.check import MachineCheck, MachineRound
from icgd.verification.machine.judge import RoundJudge, apart
from icgd.verification.machine.training import Request
from icgd.verification.machine.verdict import judged
from icgd.verification.probes.machine import probe_machine


def verify_function(
    program: FunctionProgram,
    arguments: tuple[Any, ...],
    eager: EagerStep,
    steps: int | None,
    how: Request,
) -> MachineCheck:
    """Every step from the machine's own numbers against the function in PyTorch; the run beside PyTorch's."""
    walk = _Walk(program, arguments, eager, how)
    probes = probe_machine(program, n_sets=how.probe_sets, seed=how.seed)
    try:
        run = walk.run(1 if steps is None else steps)
    except AssumptionViolated as stopped:
        if not program._is_altered() and all(probe.passed for probe in probes):
            raise
        return judged(walk.records, walk.names, None, probes, stopped=str(stopped))
    return judged(walk.records, walk.names, run, probes, drift=walk.drift)


class _Walk:
    """The machine's steps, PyTorch's own, and a twin of those."""

    def __init__(
        self,
        program: FunctionProgram,
        arguments: tuple[Any, ...],
        eager: EagerStep,
        how: Request,
    ) -> None:
        self.program, self.eager, self.how = program, eager, how
        self.judge = RoundJudge(program, eager, how.executor, moved=("data.",))
        self.inputs: Named = program._inputs(arguments)
        self.exact: Named = dict(self.inputs)
        self.twin: Named = one_ulp_away(self.inputs, ("data.",), how.seed)
        self.records: list[MachineRound] = []
        self.names: list[list[str]] = []
        self.drift = 0.0

    def run(self, steps: int) -> Any:
        """All steps; gives the last results, as `program.run` does."""
        check_count("steps", steps)
        if steps > 1:
            self.program._check_fed_back(list(self.inputs))
        start, results = dict(self.inputs), list[Tensor]()
        for number in range(1, steps + 1):
            ended = self.program.execute({}, [Round(TAPE, self.inputs)], executor=self.how.executor)
            got = ended.values
            entries, bound = self.judge.entries(TAPE, self.inputs, self._call(self.inputs), got)
            exact, twin = (self._stepped(known) for known in (self.exact, self.twin))
            results = list(got.values())
            self.inputs = self._fed(self.inputs, got)
            run = (apart(got, exact, ("out.",)), apart(twin, exact, ("out.",)))
            self.exact, self.twin = self._fed(self.exact, exact), self._fed(self.twin, twin)
            way = apart(self.exact, start, ("data.",))
            self.drift = max(self.drift, run[0] / way if way else 0.0)
            self.records.append(self.judge.record(number, TAPE, entries, bound, run))
            self.names.append([row.name for row in entries])
            self.how.watched.note(number, got, exact)
        return results[0] if len(results) == 1 else tuple(results)

    def _call(self, inputs: Named) -> tuple[Tensor, ...]:
        return tuple(inputs.values())

    def _stepped(self, inputs: Named) -> Named:
        return self.eager(inputs, self._call(inputs))

    def _fed(self, inputs: Named, results: Named) -> Named:
        """The results in place of the first arguments."""
        outputs = [value for name, value in results.items() if name.startswith("out.")]
        return {**inputs, **dict(zip(inputs, outputs, strict=False))}
