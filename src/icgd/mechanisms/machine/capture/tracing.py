"""Two passes of make_fx: the step with autograd inside, then the same without mutations, decomposed."""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, fx
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.attention import SDPBackend, sdpa_kernel

from icgd.errors import AssumptionViolated, DataDependentStep, UnsupportedOp
from icgd.mechanisms.machine.capture.captured import origin_of
from icgd.mechanisms.machine.capture.cleaning import (
    check_random,
    check_writes,
    cleaned,
    lifted_constants,
    without_bookkeeping,
)
from icgd.mechanisms.machine.capture.origins import Replay, is_users, settle_phases, shortened
from icgd.mechanisms.machine.decompose.ops import op_name, unsupported
from icgd.mechanisms.machine.decompose.table import first_table, table

BRANCHES = ("GuardOnDataDependentSymNode", "DataDependentOutputException")
CONVERSIONS = ("SymFloat", "SymBool", "SymInt", ".numpy() is not supported")
SHAPES = ("DynamicOutputShapeException",)


@contextmanager
def generators_kept() -> Iterator[None]:
    """Random generators of torch, numpy and Python are afterwards where they were."""
    legacy = np.random  # the generator that users' code draws from unless it has its own
    states = torch.get_rng_state(), legacy.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        legacy.set_state(states[1])
        random.setstate(states[2])


def functional_graph(
    function: Callable[..., Sequence[Tensor]], values: Sequence[Tensor]
) -> fx.GraphModule:
    """The function of these tensors as one graph of functional operations, few kinds of them.

    Autograd runs inside the first pass. Attention takes its plain form: the fused one would be decomposed
    forwards but not backwards, with silently wrong gradients.
    """
    mode = FakeTensorMode(
        allow_non_fake_inputs=True, shape_env=ShapeEnv(allow_dynamic_output_shape_ops=False)
    )
    with mode:
        fakes = [mode.from_tensor(value.detach().clone(), static_shapes=True) for value in values]
    with (
        generators_kept(),
        warnings.catch_warnings(),
        mode,
        sdpa_kernel(SDPBackend.MATH),
        torch.autograd.set_multithreading_enabled(False),
    ):
        warnings.simplefilter("ignore")  # of tracing; the user's own calls have shown theirs
        with torch.enable_grad():
            try:
                whole = make_fx(function, decomposition_table=first_table())(*fakes)
            except Exception as error:
                _explain(error)
                raise
        without_bookkeeping(whole)
        settle_phases(whole.graph)
        check_random(whole.graph)
        check_writes(whole.graph)
        constants = lifted_constants(whole)
        with mode:
            fakes += [mode.from_tensor(value.detach(), static_shapes=True) for value in constants]
        with torch.no_grad():
            replay = torch.func.functionalize(Replay(whole).run, remove="mutations")
            graph = make_fx(replay, decomposition_table=table())(*fakes)
    result = cleaned(graph, constants)
    check_instructions(result.graph)
    return result


def check_instructions(graph: fx.Graph) -> None:
    """Refuse operations that the machine has no instruction for, all of them at once."""
    missing = [
        f"{op_name(node)} (node %{node.name}, at {origin_of(node)}): {why}"
        for node, why in unsupported(graph)
    ]
    if missing:
        raise UnsupportedOp(*missing)


def _explain(error: Exception) -> None:
    """Raise DataDependentStep in the place of PyTorch's own complaint about values it cannot know."""
    kind = type(error).__name__
    converted = any(mark in str(error) for mark in CONVERSIONS)
    if kind not in BRANCHES + SHAPES and not converted:
        return
    frame = deciding_frame(error)
    if frame is None:
        return
    condition = shortened(frame.line or frame.name)
    inner = _inner_frame(error, frame)
    if inner is not None:
        condition += f" (in {place(inner)})"
    raise DataDependentStep(
        Path(frame.filename).name, frame.lineno or 0, condition, shape=kind in SHAPES
    ) from None


def place(frame: traceback.FrameSummary) -> str:
    """A frame in one line."""
    return f"{Path(frame.filename).name}:{frame.lineno}: {shortened(frame.line or frame.name)}"


def deciding_frame(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost line of the user's on the way to an error."""
    users = [f for f in traceback.extract_tb(error.__traceback__) if is_users(f.filename)]
    return users[-1] if users else None


def _inner_frame(
    error: BaseException, frame: traceback.FrameSummary
) -> traceback.FrameSummary | None:
    """The line of a loss or an optimizer of PyTorch's that the user's line calls, if that one decides."""
    stack = traceback.extract_tb(error.__traceback__)
    below = stack[stack.index(frame) + 1 :]
    formulas = ("/torch/nn/", "/torch/optim/", "/torch/functional.py")
    inner = [f for f in below if any(mark in f.filename for mark in formulas)]
    return inner[-1] if inner else None


@contextmanager
def explained() -> Iterator[None]:
    """Turn what tracing a step that runs raises into a sentence."""
    try:
        yield
    except AssumptionViolated:
        raise
    except Exception as error:
        raise AssumptionViolated(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    frame = deciding_frame(error)
    where = "a line outside your files"
    if frame is not None:
        where = place(frame)
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return (
        "The step runs, but cannot be written as one graph of operations without side effects. "
        f"Refused at {where} ({type(error).__name__}: {reason}). "
        "Write a new tensor there instead of changing one in place."
    )
