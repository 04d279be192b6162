"""Verification of programs of the machine: training steps and functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from icgd.errors import InvalidParameter
from icgd.mechanisms.machine.programs.function import FunctionProgram
from icgd.mechanisms.machine.programs.hyper import Schedule
from icgd.mechanisms.machine.programs.program import MachineProgram
from icgd.mechanisms.machine.programs.training import TrainingProgram
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.verification.machine.check import MachineCheck
from icgd.verification.machine.function import verify_function
from icgd.verification.machine.sources import function_of, source_of
from icgd.verification.machine.training import Request, verify_training
from icgd.verification.verdict.observation import NOBODY, Watched


def verify_machine(
    program: MachineProgram,
    *data: Any,
    init: Mapping[str, Tensor] | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    shuffle: int | None = None,
    schedule: Schedule = None,
    model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    loss: Callable[..., Tensor] | None = None,
    step: Callable[..., Any] | None = None,
    function: Callable[..., Any] | None = None,
    executor: ExecutorName = "structured",
    probe_sets: int = 1,
    seed: int = 0,
    progress: bool | Callable[[int, int], None] = False,
    watched: Watched = NOBODY,
) -> MachineCheck:
    """Hold a program against the user's own step in PyTorch, round by round, and against probes.

    data                    what the step takes, one row per example; or the function's arguments
    init, epochs, batch_size, shuffle, schedule   see `program.run`
    steps                   of a function that is fed its own results
    model, optimizer, loss  what to hold a program out of a file against; step=, a loop body of model and
                            optimizer, in place of loss; function= for a function

    1. every kind of step is probed over its range;
    2. every round starts from the machine's own numbers; the user's step is run in PyTorch from the same
       numbers, and every weight, buffer, entry of the optimizer's state and output must agree within a rigorous
       bound, that covers the rounding of both;
    3. the run as a whole is set beside PyTorch's own, and beside a twin;
    4. tapes that the run did not need (another size of batch, predictions) are executed once as well.
    """
    if watched.recorder is not None:
        raise InvalidParameter(
            "recorder",
            type(watched.recorder).__name__,
            "be left out for a program of the machine",
            remedy="Record a run of its own.",
        )
    how = Request(executor, probe_sets, seed, progress, watched)
    if isinstance(program, FunctionProgram):
        named = {"init": init, "epochs": epochs, "batch_size": batch_size, "shuffle": shuffle}
        _refuse({**named, "schedule": schedule}, "a function")
        return verify_function(program, data, function_of(program, function), steps, how)
    assert isinstance(program, TrainingProgram)
    _refuse({"steps": steps, "function": function}, "a training step")
    eager, forward = source_of(program, model, optimizer, loss, step)
    ready = program.prepared(
        *data,
        init=init if init is not None or model is None else model.state_dict(),
        epochs=1 if epochs is None else epochs,
        batch_size=batch_size,
        shuffle=shuffle,
        schedule=schedule,
    )
    return verify_training(ready, eager, forward, how)


def _refuse(given: Mapping[str, Any], what: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise InvalidParameter(name, value, f"be left out: this program is of {what}")
