"""Every capture is compared with running the step eagerly before it is accepted.

The graph and the step start from the same numbers: the example's, and perturbed copies. What they leave
behind must agree up to rounding, measured by how far the step moves each tensor; a second eager call from
the same numbers must do the same again, or the step remembers something that the graph cannot see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from icgd.errors import AssumptionViolated, CaptureMismatch
from icgd.mechanisms.machine.capture.captured import Captured
from icgd.mechanisms.machine.capture.eager import run_eager

RELATIVE = {torch.float64: 1e-10, torch.float32: 1e-3}
"""Largest difference, relative to the largest change of the tensor in the step."""
ROUNDINGS = 64
"""Largest difference in units of the rounding of the tensor's largest entry, where the step moves it little."""
NOISE = 100
"""Beyond these, so many times the difference that one unit in the last place of the inputs makes."""


def check_capture(
    captured: Captured,
    step: Callable[..., Any],
    model: nn.Module,
    optimizer: Optimizer | None,
    batches: Sequence[Sequence[Any]] = (),
) -> None:
    """Raise CaptureMismatch unless graph and eager step agree, on the example and on perturbed copies.

    batches  further arguments of the step, one comparison each, from perturbed parameters and state
    """
    example = captured.named_example()
    starts = [(example, captured.arguments_of(example))]
    for number, batch in enumerate(batches):
        starts.append((perturbed(example, seed=number), tuple(batch)))
    for values, arguments in starts:
        _compare(captured, step, model, optimizer, values, arguments)
    _check_memory(captured, step, model, optimizer, starts[0][0], starts[0][1])


def perturbed_batches(example: tuple[Any, ...], count: int = 2) -> list[Any]:
    """Copies of the example with other numbers of the same kind."""
    return [
        pytree.tree_map_only(Tensor, partial(_other_data, seed=seed), example)
        for seed in range(count)
    ]


def perturbed(values: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
    """Parameters moved, state and hyper-parameters scaled, so that no structure of the first step is left."""
    moved: dict[str, Tensor] = {}
    for index, (name, value) in enumerate(values.items()):
        generator = torch.Generator().manual_seed(1000 * seed + index)
        counter = name.startswith(("state.", "buffer.")) and value.dim() == 0
        if counter or not value.is_floating_point():
            moved[name] = value.clone()
        elif name.startswith("param."):
            size = float(value.abs().mean()) or 1.0
            noise = torch.randn(value.shape, generator=generator, dtype=value.dtype)
            moved[name] = value + 0.1 * size * noise
        else:
            moved[name] = value * _factors(value, generator)
    return moved


def _factors(like: Tensor, generator: torch.Generator) -> Tensor:
    """Numbers between 1/2 and 1: signs, bounds of probabilities and ranges stay."""
    return 1 - 0.5 * torch.rand(like.shape, generator=generator, dtype=like.dtype)


def _other_data(value: Tensor, seed: int) -> Tensor:
    """Other numbers of the same kind; whole numbers, classes for instance, only change their rows."""
    generator = torch.Generator().manual_seed(7919 * (seed + 1))
    value = value.detach()
    if value.is_floating_point() and not bool((value == value.round()).all()):
        return value * _factors(value, generator)
    return value[torch.randperm(len(value), generator=generator)] if value.dim() else value


def _with_data(
    captured: Captured, values: Mapping[str, Tensor], arguments: Any
) -> dict[str, Tensor]:
    names = [name for name in captured.in_names if name.startswith("data.")]
    leaves = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor)]
    return dict(values) | dict(zip(names, leaves, strict=True))


def _compare(
    captured: Captured,
    step: Callable[..., Any],
    model: nn.Module,
    optimizer: Optimizer | None,
    values: Mapping[str, Tensor],
    arguments: Any,
) -> None:
    inputs = _with_data(captured, values, arguments)
    graph = captured(inputs)
    eager = run_eager(step, model, optimizer, captured, values, arguments)
    _check_names(graph, eager)
    excess = {n: _excess(n, graph[n], eager[n], inputs) for n in graph}
    if all(worst <= 0 for worst in excess.values()):
        return
    # Where gradients are rounding noise, adaptive optimizers make steps of it: step from nearby numbers too.
    for name, apart in _noise(captured, step, model, optimizer, values, arguments, eager).items():
        if excess[name] > 0:
            excess[name] = _excess(name, graph[name], eager[name], inputs, NOISE * apart)
    worst_name = max(excess, key=lambda name: excess[name])
    if excess[worst_name] > 0:
        difference = (graph[worst_name] - eager[worst_name]).abs().max()
        raise CaptureMismatch(worst_name, float(difference), float(eager[worst_name].abs().max()))


def _noise(
    captured: Captured,
    step: Callable[..., Any],
    model: nn.Module,
    optimizer: Optimizer | None,
    values: Mapping[str, Tensor],
    arguments: Any,
    eager: Mapping[str, Tensor],
) -> dict[str, float]:
    """How far the step's own results lie apart when its parameters move by a unit in the last place."""
    apart = dict.fromkeys(eager, 0.0)
    for seed in range(3):
        moved = _last_places(values, seed)
        twin = run_eager(step, model, optimizer, captured, moved, arguments)
        for name, value in twin.items():
            if value.is_floating_point() and value.numel():
                apart[name] = max(apart[name], float((value - eager[name]).abs().max()))
    return apart


def _last_places(values: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
    """The values with parameters moved by at most one unit in the last place."""
    moved = dict(values)
    generator = torch.Generator().manual_seed(seed)
    for name, value in values.items():
        if name.startswith("param.") and value.is_floating_point():
            steps = torch.randint(-1, 2, value.shape, generator=generator).to(value.dtype)
            moved[name] = value * (1 + steps * torch.finfo(value.dtype).eps)
    return moved


def _excess(
    name: str,
    graph: Tensor,
    eager: Tensor,
    inputs: Mapping[str, Tensor],
    noise: float = 0.0,
) -> float:
    """How far the largest difference lies beyond what is allowed; infinite for NaN or other shapes."""
    if graph.shape != eager.shape:
        return float("inf")
    if not eager.numel():
        return 0.0
    graph, eager = graph.to(torch.float64), eager.to(torch.float64)
    precision = inputs[name].dtype if name in inputs else _precision(inputs)
    before = inputs[name].to(torch.float64) if name in inputs else torch.zeros_like(eager)
    moved = (eager - before).abs().max() if before.shape == eager.shape else eager.abs().max()
    unit = torch.finfo(precision).eps if precision.is_floating_point else 0.0
    allowed = RELATIVE.get(precision, 0.0) * moved + ROUNDINGS * unit * eager.abs().max() + noise
    same = (graph == eager) | (graph.isnan() & eager.isnan())
    excess = torch.where(same, torch.full_like(eager, -1.0), (graph - eager).abs() - allowed)
    worst = float(excess.max())
    return float("inf") if worst != worst else worst


def _precision(inputs: Mapping[str, Tensor]) -> torch.dtype:
    tensors = (t.dtype for n, t in inputs.items() if not n.startswith("hyper."))
    return next((dtype for dtype in tensors if dtype.is_floating_point), torch.float64)


def _check_names(graph: Mapping[str, Tensor], eager: Mapping[str, Tensor]) -> None:
    complaints = list(_name_complaints(graph, eager))
    if complaints:
        raise AssumptionViolated(*complaints)


def _name_complaints(graph: Mapping[str, Tensor], eager: Mapping[str, Tensor]) -> Iterator[str]:
    for name in sorted(set(graph) ^ set(eager)):
        which, other = ("traced", "run") if name in graph else ("run", "traced")
        yield (
            f"`{name}` is there when the step is {which}, not when it is {other}. "
            "Let the step return and store the same things in every call."
        )


def _check_memory(
    captured: Captured,
    step: Callable[..., Any],
    model: nn.Module,
    optimizer: Optimizer | None,
    values: Mapping[str, Tensor],
    arguments: Any,
) -> None:
    """A second call from the same numbers does the same: with the gradients the first one left, and without."""
    once = run_eager(step, model, optimizer, captured, values, arguments)
    twice = run_eager(step, model, optimizer, captured, values, arguments, calls=2)
    changed = _differing(once, twice)
    if not changed:
        return
    again = run_eager(step, model, optimizer, captured, values, arguments)
    if not _differing(once, again):
        raise AssumptionViolated(
            f"The step adds to the gradients of the call before: a second call gives another {changed}. "
            "Call optimizer.zero_grad() in the step, before backward or after optimizer.step()."
        )
    raise AssumptionViolated(
        f"The step depends on more than its tensors: two calls from the same numbers give another {changed}. "
        "A counter in Python, or random numbers? Pass what changes as a tensor argument."
    )


def _differing(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> str:
    """The first result that differs, or none."""
    for name in one:
        same = name in other and one[name].shape == other[name].shape
        if not same or not torch.allclose(one[name], other[name], 0, 0, equal_nan=True):
            return f"`{name}`"
    return ""
