"""One flat vector per parameter group: an elementwise optimizer then needs one instruction each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from icgd.errors import InvalidParameter
from icgd.mechanisms.machine.capture.swapped import Groups, State, own_copies

ELEMENTWISE: tuple[type[Optimizer], ...] = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.NAdam,
    torch.optim.Adamax,
    torch.optim.RMSprop,
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.Rprop,
)
"""Optimizers in which every entry of a parameter is updated by its own gradient and state alone."""

Layout = dict[str, tuple[str, ...]]
"""Parameters of each flat group, in the order in which they lie end to end."""


def check_elementwise(optimizer: Optimizer | None) -> None:
    """Refuse to lay out flat what an optimizer treats as matrices."""
    if type(optimizer) not in ELEMENTWISE:
        known = ", ".join(kind.__name__ for kind in ELEMENTWISE)
        raise InvalidParameter(
            "flat",
            True,
            f"be False for {type(optimizer).__name__}: only {known} update entry by entry",
            remedy="Leave `flat` out: every tensor is then stepped by itself.",
        )


def flat_name(index: int) -> str:
    """Name of the state of a flat group.

    >>> flat_name(0)
    'group0'
    """
    return f"group{index}"


def flattened_state(state: State, groups: Groups) -> State:
    """State by parameter as state by flat group; scalars are the same in a whole group."""
    flat: State = {}
    for index, names in enumerate(groups):
        present = [name for name in names if state.get(name)]
        if not present:
            continue
        first = state[present[0]]
        flat[flat_name(index)] = {
            key: _laid_end_to_end([state[name][key] for name in present]) for key in first
        }
    return flat


def _laid_end_to_end(values: list[Any]) -> Any:
    if not isinstance(values[0], Tensor) or values[0].dim() == 0:
        return values[0]
    return torch.cat([value.reshape(-1) for value in values])


def split_state(
    flat: Mapping[str, Any], names: tuple[str, ...], like: Mapping[str, Tensor]
) -> State:
    """State of one flat group as state by parameter.

    like  the parameters, for their shapes
    """
    state: State = {name: {} for name in names}
    for key, value in flat.items():
        if not isinstance(value, Tensor) or value.dim() == 0:
            for name in names:
                state[name][key] = value.clone() if isinstance(value, Tensor) else value
            continue
        pieces = value.split([like[name].numel() for name in names])
        for name, piece in zip(names, pieces, strict=True):
            state[name][key] = piece.reshape(like[name].shape)
    return state


class FlatStep:
    """Replaces `optimizer.step` while a step is traced: groups become vectors, and are cut up again."""

    def __init__(
        self, optimizer: Optimizer, parameters: Mapping[str, Tensor], groups: Groups, state: State
    ) -> None:
        self.optimizer, self.parameters, self.groups = optimizer, parameters, groups
        self.state: State = {name: own_copies(entries) for name, entries in state.items()}
        self.layout: Layout = {}
        self._step: Callable[..., Any] = optimizer.step

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Step as the optimizer does, on one vector per group."""
        vectors = [self._vector(index, names) for index, names in enumerate(self.groups)]
        live = self.optimizer.state
        live.clear()
        for index, vector in enumerate(vectors):
            entries = self.state.get(flat_name(index))
            if vector is not None and entries:
                live[vector] = entries
        self._lend([[v] if v is not None else [] for v in vectors])
        result = self._step(*arguments, **keywords)
        self._lend([[self.parameters[name] for name in names] for names in self.groups])
        for index, vector in enumerate(vectors):
            if vector is None:
                continue
            self.state[flat_name(index)] = dict(live[vector])
            self._cut(vector, self.layout[flat_name(index)])
        return result

    def _lend(self, tensors: list[list[Tensor]]) -> None:
        for group, given in zip(self.optimizer.param_groups, tensors, strict=True):
            group["params"] = given

    @torch.no_grad()
    def _vector(self, index: int, names: list[str]) -> Tensor | None:
        """The group's parameters with their gradients, end to end; those without a gradient rest."""
        used = tuple(name for name in names if self.parameters[name].grad is not None)
        if not used:
            return None
        self.layout[flat_name(index)] = used
        vector = torch.cat([self.parameters[name].detach().reshape(-1) for name in used])
        gradients = [self.parameters[name].grad for name in used]
        vector.requires_grad_(True)
        vector.grad = torch.cat([g.reshape(-1) for g in gradients if g is not None])
        return vector

    @torch.no_grad()
    def _cut(self, vector: Tensor, names: tuple[str, ...]) -> None:
        whole, start = vector.detach(), 0
        for name in names:  # one slice each: `split` would be traced again for every piece of it
            parameter = self.parameters[name]
            end = start + parameter.numel()
            parameter.copy_(whole[start:end].view(parameter.shape))
            start = end


@contextmanager
def stepping_flat(
    optimizer: Optimizer, parameters: Mapping[str, Tensor], groups: Groups, state: State
) -> Iterator[FlatStep]:
    """While open, `optimizer.step` is a FlatStep. To be used inside `lent`, which puts the step back."""
    flat = FlatStep(optimizer, parameters, groups, state)
    optimizer.step = flat  # type: ignore[method-assign]
    yield flat
