"""Two passes of make_fx: the step with autograd inside, then the same without mutations, decomposed."""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.attention import SDPBackend, sdpa_kernel

from icgd.errors import AssumptionViolated, DataDependentStep, UnsupportedOp
from icgd.mechanisms.machine.capture.captured import origin_of
from icgd.mechanisms.machine.capture.cleaning import check_random, cleaned, without_bookkeeping
from icgd.mechanisms.machine.capture.origins import Replay, is_users, settle_phases
from icgd.mechanisms.machine.decompose.ops import op_name, unsupported
from icgd.mechanisms.machine.decompose.table import first_table, table

BRANCHES = ("GuardOnDataDependentSymNode", "DataDependentOutputException")
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
        with torch.no_grad():
            replay = torch.func.functionalize(Replay(whole).run, remove="mutations")
            graph = make_fx(replay, decomposition_table=table())(*fakes)
    result = cleaned(graph)
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
    if kind not in BRANCHES + SHAPES:
        return
    frame = deciding_frame(error)
    if frame is None:
        return
    raise DataDependentStep(
        frame.filename.rpartition("/")[2],
        frame.lineno or 0,
        frame.line or frame.name,
        shape=kind in SHAPES,
    ) from None


def deciding_frame(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost line of the user's, or of an optimizer's, on the way to an error."""
    stack = traceback.extract_tb(error.__traceback__)
    users = [f for f in stack if is_users(f.filename)]
    optimizers = [f for f in stack if "/torch/optim/" in f.filename and f.name != "wrapper"]
    # An optimizer's own branch is the news, not the line that calls optimizer.step().
    inner = [f for f in optimizers if not f.name.startswith(("_use_grad", "profile_hook"))]
    if inner and users and stack.index(inner[-1]) > stack.index(users[-1]):
        return inner[-1]
    return users[-1] if users else (inner[-1] if inner else None)


@contextmanager
def explained(run: Callable[[], Any]) -> Iterator[None]:
    """Turn what tracing raises into a sentence.

    run  the step, eagerly: if that fails too, its own error is the news
    """
    try:
        yield
    except AssumptionViolated:
        raise
    except Exception as error:
        with generators_kept():
            run()
        raise AssumptionViolated(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    frame = deciding_frame(error)
    where = "a line outside your files"
    if frame is not None:
        where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}: {frame.line}"
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return (
        "The step runs, but cannot be written as one graph of operations without side effects. "
        f"Refused at {where} ({type(error).__name__}: {reason}). "
        "Write a new tensor there instead of changing one in place."
    )
