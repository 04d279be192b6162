"""What a program is held against: the live objects it was compiled from, or those that the caller gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from icgd.errors import InvalidParameter
from icgd.mechanisms.machine.programs.function import FunctionProgram
from icgd.mechanisms.machine.programs.source import FunctionSource, Source
from icgd.mechanisms.machine.programs.training import TrainingProgram
from icgd.oracle.eager_step import EagerStep


def source_of(
    program: TrainingProgram,
    model: nn.Module | None,
    optimizer: torch.optim.Optimizer | None,
    loss: Callable[..., Tensor] | None,
    step: Callable[..., Any] | None,
) -> tuple[EagerStep, EagerStep]:
    """The user's step, and the module's predictions, as functions of named numbers."""
    source = program.source if isinstance(program.source, Source) else None
    if model is None and source is not None:
        model, optimizer = source.model, source.optimizer
        step = step or (source.step if loss is None else None)
    if model is None or (step is None and (loss is None or optimizer is None)):
        raise InvalidParameter(
            "model",
            None if model is None else type(model).__name__,
            "be given with optimizer and loss, for a program out of a file",
            remedy="Pass model=, optimizer= and loss=, or step= for a loop body of your own.",
        )
    if step is None:
        assert optimizer is not None
        assert loss is not None
        step = textbook_step(model, optimizer, loss)
    fixed = program.tapes.facts.get("fixed", {})
    return EagerStep(step, model, optimizer, fixed), EagerStep(model, model)


def textbook_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[..., Tensor]
) -> Callable[..., Tensor]:
    """The loop body of model, optimizer and loss, written here once more: an oracle shares no code."""

    def step(*batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        value = loss(model(*batch[:-1]), batch[-1])
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def function_of(program: FunctionProgram, function: Callable[..., Any] | None) -> EagerStep:
    """The function as PyTorch computes it."""
    if function is None and isinstance(program.source, FunctionSource):
        function = program.source.function
    if function is None:
        raise InvalidParameter(
            "function",
            None,
            "be given for a program out of a file",
            remedy="Pass function=, the function it was compiled from.",
        )
    return EagerStep(function, nn.Module())
