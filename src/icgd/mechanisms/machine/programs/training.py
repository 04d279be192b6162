"""Programs that train a PyTorch model in their context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.machine.programs.codec import Round
from icgd.mechanisms.machine.programs.hyper import Schedule, hyper_values
from icgd.mechanisms.machine.programs.program import (
    Arriving,
    Batch,
    Ended,
    MachineProgram,
    TrainingRun,
    batches,
    rows_of,
    taken,
)
from icgd.mechanisms.machine.programs.source import Source
from icgd.transformer.runtime.executors.choose import ExecutorName


@dataclass(frozen=True)
class Prepared:
    """A run before its first round.

    program    with tapes for all batches        state      weights and buffers it starts from, by name
    rounds     what is run                       arguments  per round, what the user's step would be called with
    """

    program: TrainingProgram
    state: dict[str, Tensor]
    rounds: list[Round]
    arguments: Calls


class Calls(Sequence[tuple[Tensor, ...]]):
    """What the user's step would be called with, round by round."""

    def __init__(self, rows: Sequence[Tensor], chosen: Sequence[Batch]) -> None:
        self.rows, self.chosen = rows, chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, index: Any) -> Any:
        return tuple(taken(value, self.chosen[index]) for value in self.rows)


class TrainingProgram(MachineProgram):
    """The user's training step as one frozen layer; every round is one update."""

    widen: Callable[[TrainingProgram, Sequence[int]], TrainingProgram] | None = None
    """What compiles it again with tapes for batches of further sizes; None for a program out of a file."""

    @property
    def batch_sizes(self) -> list[int]:
        """Numbers of rows there are tapes for."""
        return [int(n.partition(":")[2]) for n in self.tapes.tapes if n.startswith("step:")]

    def run(  # type: ignore[override]
        self,
        *data: Any,
        init: Mapping[str, Tensor] | None = None,
        epochs: int = 1,
        batch_size: int | None = None,
        shuffle: int | None = None,
        schedule: Schedule = None,
        executor: ExecutorName = "structured",
        progress: bool | Callable[[int, int], None] = False,
        record: Callable[[int, Mapping[str, Tensor]], None] | None = None,
        watch: bool = True,
    ) -> TrainingRun:
        """Train in context; the module itself is not touched.

        data        what the step takes, one row per example: X, y
        init        parameters and buffers to start from; those of the module unless given
        epochs      passes over the data
        batch_size  rows of a batch; those of the example unless given. The last batch may be smaller
        shuffle     a seed: rows in another order in every epoch
        schedule    of the learning rate: a number, one per round, a function of the round (from 0), or a
                    function that makes a torch.optim.lr_scheduler of an optimizer
        record      called with (round, everything by name) after every round
        watch       False: heads may be asked anything, also beyond what they are certified for
        """
        ready = self.prepared(
            *data,
            init=init,
            epochs=epochs,
            batch_size=batch_size,
            shuffle=shuffle,
            schedule=schedule,
        )
        program, state = ready.program, ready.state
        ended = program.execute(
            state, ready.rounds, executor=executor, progress=progress, watch=watch, after=record
        )
        lasting = {**state, **program.codec.lasting_state(ended.values)}
        return program.result(ended, lasting, executor)

    def prepared(
        self,
        *data: Any,
        init: Mapping[str, Tensor] | None = None,
        epochs: int = 1,
        batch_size: int | None = None,
        shuffle: int | None = None,
        schedule: Schedule = None,
    ) -> Prepared:
        """Everything `run` decides before the first round; see there."""
        rows = rows_of(data, self.dtype)
        n_rows = len(rows[0])
        size = self.batch_sizes[0] if batch_size is None else batch_size
        size = min(_count("batch_size", size), n_rows)
        chosen = list(batches(n_rows, size, _count("epochs", epochs), shuffle))
        program = self.for_batches(sorted({len(rows_) for rows_ in chosen}))
        state = program.initial_state(init)
        rounds = program.rounds_for(rows, chosen, schedule)
        return Prepared(program, state, rounds, Calls(rows, chosen))

    def result(
        self, ended: Ended, lasting: Mapping[str, Tensor], executor: ExecutorName
    ) -> TrainingRun:
        """What a user gets of rounds that have ended."""
        weights = {
            name.partition(".")[2]: value
            for name, value in lasting.items()
            if name.startswith(("param.", "buffer."))
        }
        first = ended.outputs.get("out.0", [])
        scalar = [value for value in first if value.dim() == 0]
        losses = torch.stack(scalar) if scalar else torch.zeros(0, dtype=self.dtype)
        return TrainingRun(
            program=self,
            state_dict=weights,
            optimizer_state=self._optimizer_state(lasting),
            losses=losses.detach().clone(),
            outputs=ended.outputs,
            cost=ended.cost,
            range_use=ended.range_use,
            executor=executor,
            state=dict(lasting),
        )

    def _optimizer_state(self, lasting: Mapping[str, Tensor]) -> dict[str, Any]:
        """In the form of `optimizer.load_state_dict`."""
        groups: list[list[str]] = self.tapes.facts.get("parameters", [])
        order = [name for names in groups for name in names]
        fixed: Mapping[str, Mapping[str, Any]] = self.tapes.facts.get("fixed", {})
        state: dict[int, dict[str, Any]] = {}
        for k, name in enumerate(order):
            prefix = f"state.{name}."
            own = {n.removeprefix(prefix): v for n, v in lasting.items() if n.startswith(prefix)}
            own |= dict(fixed.get(name, {}))
            if own:
                state[k] = own
        settings = self.optimizer.groups
        starts = [sum(len(g) for g in groups[:k]) for k in range(len(groups))]
        listed = [
            {**dict(one), "params": list(range(start, start + len(names)))}
            for one, names, start in zip(settings, groups, starts, strict=False)
        ]
        return {"state": state, "param_groups": listed}

    def initial_state(self, init: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """Where a run starts: parameters and buffers by the names the tapes know them under."""
        first = self.tapes.tapes[f"first:{self.batch_sizes[0]}"]
        needed = {n: r for n, r in first.inputs.items() if n.startswith(("param.", "buffer."))}
        source = self.source if isinstance(self.source, Source) else None
        if init is None and source is None:
            raise InvalidParameter(
                "init",
                None,
                "be given for a program out of a file",
                remedy="Pass init=model.state_dict(), or the state_dict of another run.",
            )
        given = source.state() if init is None and source is not None else _named(init or {})
        state = {}
        for name, register in needed.items():
            if name not in given:
                raise InvalidParameter("init", sorted(given), f"hold {name.partition('.')[2]!r}")
            value = torch.as_tensor(given[name]).detach()
            if tuple(value.shape) != register.shape:
                raise InvalidParameter(
                    f"init[{name.partition('.')[2]!r}]",
                    tuple(value.shape),
                    f"have shape {register.shape}",
                )
            if value.is_floating_point() and not bool(value.isfinite().all()):
                raise AssumptionViolated(
                    f"init[{name.partition('.')[2]!r}] holds NaN or infinity. Start from finite weights."
                )
            state[name] = value.clone()
        return state

    def rounds_for(
        self, rows: Sequence[Tensor], chosen: Sequence[Batch], schedule: Schedule
    ) -> list[Round]:
        """One round per batch: its tape, its rows and its hyper-parameters."""
        step = self.tapes.tapes[f"step:{self.batch_sizes[0]}"]
        names = [n for n in step.inputs if n.startswith("hyper.")]
        values = hyper_values(self.optimizer.groups, names, schedule, len(chosen))
        every = {value for one in values for value in one.values()}
        numbers = {value: torch.tensor(value, dtype=self.dtype) for value in every}
        named = {f"data.{j}": value for j, value in enumerate(rows)}
        rounds = []
        for k, batch in enumerate(chosen):
            tape = f"{'step' if k else 'first'}:{len(batch)}"
            known = self.tapes.tapes[tape].inputs
            hyper = {n: numbers[v] for n, v in values[k].items() if n in known}
            read = {n: v for n, v in named.items() if n in known}
            rounds.append(Round(tape, Arriving(read, batch, hyper)))
            if k < 2:
                self._check_shapes(tape, Arriving(named, batch, hyper))
        return rounds

    def _check_shapes(self, tape: str, arriving: Mapping[str, Tensor]) -> None:
        for name, register in self.tapes.tapes[tape].inputs.items():
            if name.startswith("data.") and name not in arriving:
                raise InvalidParameter("data", len(arriving), f"hold what the step reads as {name}")
            if name in arriving and tuple(arriving[name].shape) != register.shape:
                raise InvalidParameter(
                    name,
                    tuple(arriving[name].shape),
                    f"have the shape of the example, {register.shape}",
                    remedy="Shapes are fixed when a program is compiled: compile it with such an example.",
                )

    def for_batches(self, sizes: Sequence[int]) -> TrainingProgram:
        """This program, or one whose layer serves batches of these sizes as well."""
        missing = [size for size in sizes if size not in self.batch_sizes]
        if not missing:
            return self
        if self._is_altered():
            raise InvalidParameter(
                "batch_size",
                missing[0],
                f"be one of {self.batch_sizes}: this program was altered and cannot be extended",
                remedy="Compile it with batch_sizes=[...] before altering it.",
            )
        if self.widen is None:
            raise InvalidParameter(
                "batch_size",
                missing[0],
                f"be one of {self.batch_sizes}, for which this program has tapes",
                remedy="Compile it with batch_sizes=[...] before saving it.",
            )
        return self.widen(self, missing)

    def predict(  # type: ignore[override]
        self,
        *inputs: Any,
        state: Mapping[str, Tensor] | None = None,
        executor: ExecutorName = "structured",
    ) -> Tensor:
        """The model's predictions by the frozen layer, one row per example.

        state  parameters and buffers by name (`run.state`, or a state_dict); those of the module unless given
        """
        tapes = [n for n in self.tapes.tapes if n.startswith("predict:")]
        if not tapes:
            raise AssumptionViolated(
                "This program was compiled from a step of its own, which has no prediction. Compile it from "
                "model, optimizer and loss, or compile the model: icgd.compile(model, example=(X[:8],))."
            )
        rows = rows_of(inputs, self.dtype)
        size = max(int(n.partition(":")[2]) for n in tapes)
        n_rows = len(rows[0])
        known = self.tapes.tapes[f"predict:{size}"].inputs
        given = self.initial_state(None) if state is None else _named(state)
        rounds = []
        for start in range(0, n_rows, size):
            index = (
                torch.arange(start, start + size) % n_rows
            )  # the last part is filled up with first rows
            arriving = {f"data.{j}": value[index] for j, value in enumerate(rows)}
            rounds.append(Round(f"predict:{size}", arriving))
        ended = self.execute({n: given[n] for n in known if n in given}, rounds, executor=executor)
        answers = torch.cat(ended.outputs["out.0"])
        return answers[:n_rows].clone()


def _named(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state_dict under the names of the tapes; both are understood."""
    named = {}
    for name, value in values.items():
        if name.startswith(("param.", "buffer.", "state.", "slot.")):
            named[name] = value
        named[f"param.{name}"] = named[f"buffer.{name}"] = value
    return named


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidParameter(name, value, "be a whole number >= 1")
    return value
