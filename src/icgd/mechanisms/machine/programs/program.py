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
from icgd.mechanisms.machine.schedule import TapeMask
from icgd.mechanisms.machine.programs.source import FunctionSource, Source
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.program import Blueprint, Program
from icgd.transformer.program.accounting import run_cost
from icgd.transformer.program.progress import progress_reporter
from icgd.transformer.program.session import Session
from icgd.transformer.program.weights import refuse_overflow
from icgd.transformer.runtime.cost import Cost
from icgd.transformer.runtime.executors.choose import AnyExecutor, ExecutorName
from icgd.transformer.runtime.loop import LoopState, execute

AfterRound = Callable[[int, Mapping[str, Tensor]], None]


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
        self.codec.bind(self.mask.schedules)

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
        return super().executor(session, name, **how)

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
        with self._own_precision():
            session = codec.machine_session(state, rounds)
            loop = LoopState()
            engine = self.executor(session, executor, state=loop)
            if not watch:
                engine.watch.release()
            outputs: dict[str, list[Tensor]] = {}

            def on_round(done: int) -> None:
                tape = rounds[done - 1].tape
                for name, register in codec.tapes[tape].outputs.items():
                    if name.startswith("out."):
                        block = engine.dump(loop.live[codec.schedules.homes.of(name)])
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


def batches(n_rows: int, batch_size: int, epochs: int, shuffle: int | None) -> Iterator[Tensor]:
    """Row numbers of every batch; the last one of an epoch may be smaller."""
    generator = torch.Generator().manual_seed(shuffle) if shuffle is not None else None
    for _ in range(epochs):
        order = torch.arange(n_rows)
        if generator is not None:
            order = torch.randperm(n_rows, generator=generator)
        yield from order.split(batch_size)
