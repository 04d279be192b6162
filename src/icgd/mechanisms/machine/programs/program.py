"""Programs of the machine: they train a PyTorch model in their context, or compute a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.machine.problem import Tapes
from icgd.mechanisms.machine.programs.codec import MachineCodec, Round
from icgd.mechanisms.machine.programs.cost import MachineCost, machine_cost
from icgd.mechanisms.machine.programs.source import FunctionSource, Source
from icgd.mechanisms.machine.schedule import TapeMask
from icgd.mechanisms.machine.tape.instruction import Register
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.symbolic import weights_stay_fixed
from icgd.transformer.program import Blueprint, Program
from icgd.transformer.program.accounting import run_cost
from icgd.transformer.program.progress import progress_reporter
from icgd.transformer.program.session import Session
from icgd.transformer.program.weights import refuse_overflow
from icgd.transformer.runtime.cost import Cost
from icgd.transformer.runtime.executors.chain import Plans, StructuredExecutor
from icgd.transformer.runtime.executors.choose import AnyExecutor, ExecutorName
from icgd.transformer.runtime.loop import LoopState, execute

AfterRound = Callable[[int, Mapping[str, Tensor]], None]


class _KeptPlans:
    """Plans of earlier runs, by what a run keeps: they hold as long as every weight is the compiled one."""

    def __init__(self) -> None:
        self._by_wanted: dict[frozenset[Address], Plans] = {}

    def __deepcopy__(self, memo: object) -> _KeptPlans:
        return _KeptPlans()  # a copy is made to be altered

    def of(self, wanted: frozenset[Address]) -> Plans:
        """Those of runs that keep the same."""
        return self._by_wanted.setdefault(wanted, Plans())


@dataclass(frozen=True, repr=False)
class Ended:
    """Rounds that were run: what they left, by name, and what each of them gave out.

    outputs  per name "out.0", ...: one tensor per round
    """

    values: dict[str, Tensor]
    outputs: dict[str, list[Tensor]]
    cost: Cost
    range_use: float


class MachineProgram(Program):
    """A frozen layer whose mask rule is a program: every call of it executes an instruction."""

    mask: TapeMask
    codec: MachineCodec
    source: Source | FunctionSource | None = None
    """The live objects it was compiled from; None for a program out of a file."""

    def __init__(self, blueprint: Blueprint, **parts: Any) -> None:
        super().__init__(blueprint, **parts)
        self._compiled_schedules = dict(self.mask.schedules)
        self._plans = _KeptPlans()

    def _is_altered(self) -> bool:
        """See Program; the schedules are compared step by step."""
        return dict(self.mask.schedules) != self._compiled_schedules or super()._is_altered()

    @property
    def tapes(self) -> Tapes:
        """What it executes."""
        problem: Tapes = self.problem
        return problem

    @property
    def cost(self) -> MachineCost:
        """Steps, heads, widths and operations, tape by tape."""
        stored = sum(value.numel() for value in self.state_dict().values())
        layer = self.step
        assert isinstance(layer, Layer)
        return machine_cost(self.codec.schedules, self.tapes.tapes, layer, stored)

    def executor(self, session: Session, name: ExecutorName, **how: Any) -> AnyExecutor:
        """See Program; an altered program is run by its literal matrices, which know no short cuts."""
        if name == "structured" and self._is_altered():
            name = "dense"
        engine = super().executor(session, name, **how)
        if isinstance(engine, StructuredExecutor) and not how.get("keep_all"):
            engine.plans = self._plans.of(frozenset(engine.wanted))
        return engine

    def execute(
        self,
        state: Mapping[str, Tensor],
        rounds: Sequence[Round],
        *,
        executor: ExecutorName = "structured",
        progress: bool | Callable[[int, int], None] = False,
        watch: bool = True,
        after: AfterRound | None = None,
    ) -> Ended:
        """Run these rounds from a state; `after` sees what each round leaves, by name."""
        self._check_dtype()
        codec = self.codec
        with weights_stay_fixed(), self._own_precision():
            codec.bind(self.mask.schedules)
            session = codec.machine_session(state, rounds)
            loop = LoopState()
            engine = self.executor(session, executor, state=loop)
            if not watch:
                engine.watch.release()
            outputs: dict[str, list[Tensor]] = {}
            given_out = {tape: self._given_out(tape) for tape in {one.tape for one in rounds}}

            def on_round(done: int) -> None:
                tape = rounds[done - 1].tape
                for name, register, address in given_out[tape]:
                    block = engine.dump(loop.live[address])
                    outputs.setdefault(name, []).append(codec.read(block, register))
                if after is not None:
                    after(done, self._values(engine, loop, tape))
                if report is not None:
                    report(done, len(rounds))

            with progress_reporter(progress, len(rounds)) as report, torch.no_grad():
                execute(
                    session.schedule or (),
                    session.prompt,
                    session.arrivals(None),
                    engine,
                    state=loop,
                    on_round=on_round,
                )
            values = self._values(engine, loop, rounds[-1].tape) if rounds else dict(state)
            copies = {name: value.clone() for name, value in values.items()}
        if watch:
            remedy = f"Numbers overflowed within {loop.rounds} rounds: lower lr or scale the data."
            refuse_overflow(self.construction.name, "registers", list(copies.values()), remedy)
        cost = run_cost(self, session, loop)
        return Ended(copies, outputs, cost, engine.watch.max_use)

    def _given_out(self, tape: str) -> list[tuple[str, Register, Address]]:
        """What a round with this tape gives out, and where it stands."""
        home = self.codec.schedules.homes.of
        return [
            (name, register, home(name))
            for name, register in self.tapes.tapes[tape].outputs.items()
            if name.startswith("out.")
        ]

    def _values(self, engine: AnyExecutor, loop: LoopState, tape: str) -> dict[str, Tensor]:
        homes, read = self.codec.schedules.homes, self.codec.read
        outputs = self.codec.tapes[tape].outputs
        return {
            name: read(engine.dump(loop.live[homes.of(name)]), register)
            for name, register in outputs.items()
        }

    def listing(self, tape: str | None = None) -> str:
        """The tape as text: step, instruction, operands, shapes, heads, and its line of your code."""
        from icgd.mechanisms.machine.tape.listing import listing

        names = [tape] if tape is not None else list(self.tapes.tapes)
        for name in names:
            if name not in self.tapes.tapes:
                raise InvalidParameter("tape", name, f"be one of {', '.join(self.tapes.tapes)}")
        return "\n\n".join(listing(name, self.tapes.tapes[name]) for name in names)


@dataclass(frozen=True, repr=False)
class TrainingRun:
    """The result of training in context.

    state_dict       parameters and buffers, for `model.load_state_dict`
    optimizer_state  for `optimizer.load_state_dict`
    losses           what the step returned, one entry per round
    outputs          everything the step returned, by name
    cost             rounds, blocks, operations
    """

    program: MachineProgram
    state_dict: dict[str, Tensor]
    optimizer_state: dict[str, Any]
    losses: Tensor
    outputs: dict[str, list[Tensor]]
    cost: Cost
    range_use: float
    executor: ExecutorName
    state: dict[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        loss = f", last loss {float(self.losses[-1]):.6g}" if self.losses.numel() else ""
        return (
            f"TrainingRun({self.cost.rounds:,} rounds, {self.cost.blocks:,} steps{loss}, "
            f"range_use={self.range_use:.3g}, executor={self.executor!r})"
        )

    def predict(self, *inputs: Tensor) -> Tensor:
        """The model's predictions with the trained weights, by the frozen layer."""
        from icgd.mechanisms.machine.programs.training import TrainingProgram

        assert isinstance(self.program, TrainingProgram)
        return self.program.predict(*inputs, state=self.state)


def rows_of(data: Sequence[Any], dtype: torch.dtype) -> list[Tensor]:
    """Data as tensors with one row per example."""
    tensors = []
    for k, value in enumerate(data):
        tensor = torch.as_tensor(value)
        if tensor.dim() == 0:
            raise InvalidParameter(f"data[{k}]", value, "have one row per example")
        if tensor.is_floating_point():
            tensor = tensor.to(dtype)
            if not bool(tensor.isfinite().all()):
                at = tuple(int(i) for i in (~tensor.isfinite()).nonzero()[0])
                raise AssumptionViolated(
                    f"data[{k}] holds {float(tensor[at])} at {at}. Remove or fill such entries."
                )
        tensors.append(tensor)
    counts = {len(t) for t in tensors}
    if len(counts) != 1 or 0 in counts:
        raise InvalidParameter("data", sorted(counts), "have as many rows each, and at least one")
    return tensors


Batch = range | Tensor
"""Row numbers; a range where rows stand one after the other."""


def batches(n_rows: int, batch_size: int, epochs: int, shuffle: int | None) -> Iterator[Batch]:
    """Row numbers of every batch; the last one of an epoch may be smaller."""
    generator = torch.Generator().manual_seed(shuffle) if shuffle is not None else None
    for _ in range(epochs):
        if generator is not None:
            yield from torch.randperm(n_rows, generator=generator).split(batch_size)
            continue
        for start in range(0, n_rows, batch_size):
            yield range(start, min(start + batch_size, n_rows))


def taken(rows: Tensor, batch: Batch) -> Tensor:
    """These rows: a view where they stand one after the other."""
    if isinstance(batch, range):
        return rows[batch.start : batch.stop]
    return rows.index_select(0, batch)


class Arriving(Mapping[str, Tensor]):
    """What arrives in a round; its rows are taken when the round begins, so that many rounds take no memory."""

    def __init__(
        self, rows: Mapping[str, Tensor], batch: Batch, rest: Mapping[str, Tensor]
    ) -> None:
        self.rows, self.batch, self.rest = rows, batch, rest

    def __getitem__(self, name: str) -> Tensor:
        rows = self.rows.get(name)
        return self.rest[name] if rows is None else taken(rows, self.batch)

    def __iter__(self) -> Iterator[str]:
        yield from self.rows
        yield from self.rest

    def __len__(self) -> int:
        return len(self.rows) + len(self.rest)
