"""The user's own step, run eagerly on the user's own objects from given numbers, and everything put back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from icgd.errors import raise_all
from icgd.mechanisms.machine.capture.captured import Captured
from icgd.mechanisms.machine.capture.flat import Layout, split_state
from icgd.mechanisms.machine.capture.inputs import precision
from icgd.mechanisms.machine.capture.swapped import (
    State,
    counters_in,
    hypers_of_group,
    own_copies,
    restored,
)
from icgd.mechanisms.machine.capture.tracing import generators_kept


def number_tensors(out: Any, dtype: torch.dtype) -> dict[str, Tensor]:
    """What a step returns, by name: "out.0" ...; numbers as tensors, anything else left out."""
    named: dict[str, Tensor] = {}
    for _, value in pytree.tree_flatten_with_path(out)[0]:
        if isinstance(value, Tensor):
            named[f"out.{len(named)}"] = value.detach()
        elif isinstance(value, (int, float, torch.SymFloat, torch.SymInt)):
            number: Any = value
            named[f"out.{len(named)}"] = torch.scalar_tensor(number, dtype=dtype)
    return named


@contextmanager
def module_kept(model: nn.Module) -> Iterator[None]:
    """Parameters, buffers, gradients and modes are afterwards what they were, bit by bit."""
    parameters = [(p, p.detach().clone(), p.grad, p.requires_grad) for p in model.parameters()]
    buffers = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    modes = [(module, module.training) for module in model.modules()]
    for parameter, _, _, _ in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value, gradient, trained in parameters:
                parameter.requires_grad_(trained).copy_(value)
                parameter.grad = gradient
            for module, name, buffer, value in buffers:
                module._buffers[name] = buffer.copy_(value)
        for module, training in modes:
            module.training = training


def run_eager(
    step: Callable[..., Any],
    model: nn.Module,
    optimizer: Optimizer | None,
    captured: Captured,
    values: Mapping[str, Tensor],
    example: Sequence[Any],
    calls: int = 1,
) -> dict[str, Tensor]:
    """Results of the step by the names a capture gives them.

    captured  for how it lays out the state
    values    parameters, buffers, state and hyper-parameters to start from, by name
    example   the arguments of the step
    calls     so many times from the same numbers: only gradients stay from one call to the next
    """
    dtype = precision(model.parameters(), precision(values.values()))
    results: dict[str, Tensor] = {}
    with _everything_kept(model, optimizer, dtype):
        for _ in range(calls):
            _set_model(model, values)
            if optimizer is not None:
                _set_optimizer(optimizer, model, values, captured)
            out = _call(step, example)
            results = _read(model, optimizer, captured.groups)
            results |= {k: v.clone() for k, v in number_tensors(out, dtype).items()}
    return results


def state_after(
    step: Callable[..., Any],
    model: nn.Module,
    optimizer: Optimizer | None,
    example: Sequence[Any],
) -> State:
    """The optimizer's state, by parameter, after one step from where everything stands."""
    with _everything_kept(model, optimizer, precision(model.parameters())):
        if optimizer is not None:
            own = {p: own_copies(entries) for p, entries in optimizer.state.items()}
            optimizer.state = defaultdict(dict, own)
        before = _numbers(optimizer)
        _call(step, example)
        after = _numbers(optimizer)
        raise_all(
            f"The step changes `{key}` of the optimizer's group {index} from {before[index, key]} to {value}. "
            "Call the scheduler after the step, not in it: learning rates are inputs of every step."
            for (index, key), value in after.items()
            if before.get((index, key), value) != value
        )
        return state_by_name(model, optimizer)


def _numbers(optimizer: Optimizer | None) -> dict[tuple[int, str], float]:
    """Hyper-parameters that are numbers, by group and name."""
    groups = optimizer.param_groups if optimizer else []
    return {
        (index, key): float(value)
        for index, group in enumerate(groups)
        for key, value in group.items()
        if isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1)
    }


def state_by_name(model: nn.Module, optimizer: Optimizer | None) -> State:
    """Copies of the optimizer's state, by parameter."""
    if optimizer is None:
        return {}
    state = optimizer.state
    return {name: own_copies(state[p]) for name, p in model.named_parameters() if state.get(p)}


@contextmanager
def _everything_kept(
    model: nn.Module, optimizer: Optimizer | None, dtype: torch.dtype
) -> Iterator[None]:
    with generators_kept(), module_kept(model), restored(optimizer), counters_in(dtype, optimizer):
        yield


def _call(step: Callable[..., Any], example: Sequence[Any]) -> Any:
    """The step on copies of its arguments, which it may write into."""
    copies = pytree.tree_map_only(Tensor, lambda t: t.detach().clone(), tuple(example))
    with torch.enable_grad():
        return step(*copies)


@torch.no_grad()
def _set_model(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    for kind, tensors in (("param", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in tensors:
            if f"{kind}.{name}" in values:
                tensor.copy_(values[f"{kind}.{name}"])


def _set_optimizer(
    optimizer: Optimizer, model: nn.Module, values: Mapping[str, Tensor], captured: Captured
) -> None:
    """From the given state and hyper-parameters."""
    parameters = dict(model.named_parameters())
    hypers = {
        name.removeprefix("hyper."): float(value)
        for name, value in values.items()
        if name.startswith("hyper.")
    }
    for index, group in enumerate(optimizer.param_groups):
        for key, number in hypers_of_group(hypers, index).items():
            tensor = isinstance(group[key], Tensor)
            group[key] = torch.tensor(number, dtype=torch.float64) if tensor else number
    live: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
    for name, entries in _state_by_parameter(values, captured, parameters).items():
        live[parameters[name]] = own_copies(entries)
    optimizer.state = live


def _state_by_parameter(
    values: Mapping[str, Tensor], captured: Captured, parameters: Mapping[str, Tensor]
) -> State:
    groups = captured.groups
    flat: State = {owner: dict(entries) for owner, entries in captured.fixed.items()}
    for name, value in values.items():
        if name.startswith("state."):
            owner, _, key = name.removeprefix("state.").rpartition(".")
            flat.setdefault(owner, {})[key] = value
    state: State = {}
    for owner, entries in flat.items():
        state |= (
            split_state(entries, groups[owner], parameters) if owner in groups else {owner: entries}
        )
    return state


@torch.no_grad()
def _read(model: nn.Module, optimizer: Optimizer | None, groups: Layout) -> dict[str, Tensor]:
    results = {f"param.{n}": p.detach().clone() for n, p in model.named_parameters()}
    results |= {f"buffer.{n}": b.detach().clone() for n, b in model.named_buffers()}
    state = state_by_name(model, optimizer)
    for owner, names in groups.items():
        for key in state.get(names[0], {}):
            pieces = [state[name][key] for name in names]
            if isinstance(pieces[0], Tensor):
                whole = torch.cat([p.reshape(-1) for p in pieces]) if pieces[0].dim() else pieces[0]
                results[f"state.{owner}.{key}"] = whole.detach().clone()
        for name in names:
            state.pop(name, None)
    for owner, entries in state.items():
        for key, value in entries.items():
            if isinstance(value, Tensor):
                results[f"state.{owner}.{key}"] = value.detach().clone()
    return results
