"""Lend tensors to a live optimizer for the length of one step, and give everything back.

The user's step is a closure over the optimizer, so the object itself must be used: its state and parameter
groups are replaced, and restored whatever happens.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

Groups = list[list[str]]
"""Names of the parameters of each parameter group."""
State = dict[str, dict[str, Any]]
"""State by parameter (or flat group), then by key."""

PLAIN = {"foreach": False, "fused": False, "capturable": False, "differentiable": False}
"""How an optimizer must step to be traced: one tensor at a time, in plain operations."""


def parameter_groups(model: nn.Module, optimizer: Optimizer | None) -> Groups:
    """Names of the parameters that each group of the optimizer holds."""
    names = {id(p): name for name, p in model.named_parameters()}
    return (
        [[names[id(p)] for p in g["params"]] for g in optimizer.param_groups] if optimizer else []
    )


@contextmanager
def restored(optimizer: Optimizer | None) -> Iterator[None]:
    """Attributes, groups and state are afterwards the objects they were before."""
    if optimizer is None:
        yield
        return
    attributes = dict(vars(optimizer))
    groups = [(group, dict(group)) for group in optimizer.param_groups]
    listed = list(optimizer.param_groups)
    optimizer.param_groups = list(listed)
    optimizer.defaults = dict(optimizer.defaults)
    try:
        yield
    finally:
        vars(optimizer).clear()
        vars(optimizer).update(attributes)
        optimizer.param_groups[:] = listed
        for group, values in groups:
            group.clear()
            group.update(values)


@contextmanager
def lent(
    optimizer: Optimizer | None,
    parameters: Mapping[str, Tensor],
    groups: Groups,
    state: State,
    hypers: Mapping[str, Any],
) -> Iterator[dict[Tensor, dict[str, Any]]]:
    """The optimizer steps these parameters from this state with these hyper-parameters.

    hypers  by "<group>.<key>"
    Yields the live state, by parameter; afterwards everything is restored.
    """
    live: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
    if optimizer is None:
        yield live
        return
    with restored(optimizer):
        optimizer.defaults.update({k: v for k, v in PLAIN.items() if k in optimizer.defaults})
        for index, (group, names) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
            group["params"] = [parameters[name] for name in names]
            group.update({key: value for key, value in PLAIN.items() if key in group})
            group.update(hypers_of_group(hypers, index))
            for name in names:
                if state.get(name):
                    live[parameters[name]] = own_copies(state[name])
        optimizer.state = live
        yield live


def hypers_of_group(hypers: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Those of "<index>.<key>", by key.

    >>> hypers_of_group({"0.lr": 0.1, "1.lr": 0.2}, 1)
    {'lr': 0.2}
    """
    start = f"{index}."
    return {key.removeprefix(start): v for key, v in hypers.items() if key.startswith(start)}


def own_copies(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The same entries; tensors copied, for optimizers write into them."""
    return {k: v.detach().clone() if isinstance(v, Tensor) else v for k, v in entries.items()}


@contextmanager
def counters_in(dtype: torch.dtype, optimizer: Optimizer | None) -> Iterator[None]:
    """Counters that the optimizer creates have the model's precision.

    torch.optim gives them PyTorch's default one: in NAdam's product of momenta float32 would be seen.
    """
    name = "_get_scalar_dtype"
    with ExitStack() as stack:
        for kind in type(optimizer).__mro__ if optimizer else ():
            module = sys.modules.get(kind.__module__)
            if kind.__module__.startswith("torch.optim.") and hasattr(module, name):
                stack.enter_context(mock.patch.object(module, name, return_value=dtype))
        yield
