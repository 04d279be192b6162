"""A user's own training step in PyTorch, from given numbers: what a machine's round is held against.

Nothing of the machine takes part: the numbers are written into the live module and optimizer, the step is
called as the user would call it, and everything is put back afterwards.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

Named = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class EagerStep:
    """`step(*arguments)` as a function from named numbers to named numbers.

    step       the loop body, a closure over model and optimizer
    fixed      entries of the optimizer's state that are no tensors, by parameter

    Names: "param.<name>", "buffer.<name>", "state.<parameter>.<key>", "hyper.<group>.<key>", and "out.<i>" for
    what the step returns.
    """

    step: Callable[..., Any]
    model: nn.Module
    optimizer: torch.optim.Optimizer | None = None
    fixed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __call__(self, values: Mapping[str, Tensor], arguments: Sequence[Any]) -> Named:
        """Everything by name after one step."""
        copies = [a.detach().clone() if isinstance(a, Tensor) else a for a in arguments]
        with _put_back(self.model, self.optimizer), self._counters(), torch.enable_grad():
            self._load(values)
            returned = self.step(*copies)
            return self._read() | _outputs(returned, self._dtype)

    @property
    def _dtype(self) -> torch.dtype:
        return next((p.dtype for p in self.model.parameters()), torch.float64)

    @torch.no_grad()
    def _load(self, values: Mapping[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.grad = None
            if f"param.{name}" in values:
                parameter.copy_(values[f"param.{name}"])
        for name, buffer in self.model.named_buffers():
            if f"buffer.{name}" in values:
                buffer.copy_(values[f"buffer.{name}"])
        if self.optimizer is None:
            return
        for index, group in enumerate(self.optimizer.param_groups):
            prefix = f"hyper.{index}."
            for name, value in values.items():
                if name.startswith(prefix):
                    key, live = name.removeprefix(prefix), group[name.removeprefix(prefix)]
                    as_tensor = isinstance(live, Tensor)
                    group[key] = torch.full_like(live, float(value)) if as_tensor else float(value)
        self.optimizer.state = self._state(values)

    def _state(self, values: Mapping[str, Tensor]) -> defaultdict[Tensor, Any]:
        state: defaultdict[Tensor, Any] = defaultdict(dict)
        for name, parameter in self.model.named_parameters():
            prefix = f"state.{name}."
            entries = {
                key.removeprefix(prefix): value.detach().clone()
                for key, value in values.items()
                if key.startswith(prefix)
            }
            if entries:
                state[parameter] = {**self.fixed.get(name, {}), **entries}
        return state

    @torch.no_grad()
    def _read(self) -> Named:
        results = {f"param.{n}": p.detach().clone() for n, p in self.model.named_parameters()}
        results |= {f"buffer.{n}": b.detach().clone() for n, b in self.model.named_buffers()}
        live = self.optimizer.state if self.optimizer is not None else {}
        for name, parameter in self.model.named_parameters():
            for key, value in live.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    results[f"state.{name}.{key}"] = value.detach().clone()
        return results

    @contextmanager
    def _counters(self) -> Iterator[None]:
        """Counters an optimizer creates have the model's precision, as those it is given have."""
        helper, dtype = "_get_scalar_dtype", self._dtype
        with ExitStack() as stack:
            for kind in type(self.optimizer).__mro__:
                module = sys.modules.get(kind.__module__)
                if kind.__module__.startswith("torch.optim.") and hasattr(module, helper):
                    stack.enter_context(mock.patch.object(module, helper, return_value=dtype))
            yield


def _outputs(returned: Any, dtype: torch.dtype) -> Named:
    """Tensors and numbers that a step returned, in the order in which they lie there."""
    leaves = torch.utils._pytree.tree_leaves(returned)
    numbers = [leaf for leaf in leaves if isinstance(leaf, (Tensor, int, float))]
    return {
        f"out.{k}": leaf.detach().clone()
        if isinstance(leaf, Tensor)
        else torch.tensor(leaf, dtype=dtype)
        for k, leaf in enumerate(numbers)
    }


@contextmanager
def _put_back(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> Iterator[None]:
    """Module, optimizer and random numbers are afterwards what they were."""
    parameters = [(p, p.detach().clone(), p.grad) for p in model.parameters()]
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    attributes = dict(vars(optimizer)) if optimizer is not None else {}
    listed = list(optimizer.param_groups) if optimizer is not None else []
    groups = [(group, dict(group)) for group in listed]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, value, gradient in parameters:
                    parameter.copy_(value)
                    parameter.grad = gradient
                for buffer, value in buffers:
                    buffer.copy_(value)
            if optimizer is not None:
                vars(optimizer).update(attributes)
                optimizer.param_groups[:] = listed
                for group, before in groups:
                    group.clear()
                    group.update(before)


def one_ulp_away(
    values: Mapping[str, Tensor], moved: tuple[str, ...] = ("param.",), seed: int = 0
) -> Named:
    """The same numbers with every parameter moved to a neighbour: how far PyTorch strays from itself.

    moved  how the names of what is moved begin

    >>> moved = one_ulp_away({"param.w": torch.ones(3, dtype=torch.float64)})["param.w"]
    >>> bool((moved != 1).all()), float((moved - 1).abs().max()) <= 2.0**-52
    (True, True)
    """
    generator = torch.Generator().manual_seed(seed)
    near = dict(values)
    for name, value in values.items():
        if name.startswith(moved) and value.is_floating_point():
            up = torch.rand(value.shape, generator=generator) < 0.5
            ends = torch.where(up, torch.inf, -torch.inf).to(value.dtype)
            near[name] = torch.nextafter(value, ends)
    return near
