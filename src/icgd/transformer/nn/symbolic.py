"""The vocabulary of structured execution: what is known about a slot before any number is.

A layer's weights are fixed and the flags of its input blocks are known when a step starts, so most
of a layer can be worked out beforehand: closed gates give exactly zero, open ones copy. Each part
of a layer describes its own effect on such symbolic values through a `Builder`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

import torch
from torch import Tensor, nn

from icgd.transformer.linear_map import LinearMap


@dataclass(frozen=True)
class Zero:
    """A slot that is exactly zero."""


@dataclass(frozen=True)
class Const:
    """A slot whose every entry is this number, known beforehand."""

    value: float


@dataclass(frozen=True)
class Reg:
    """A tensor that will stand in this register when the plan runs."""

    index: int


@dataclass(frozen=True)
class Closed:
    """The tensor 1 - clamp(slope * a, 0, 1) of an activation a >= 0, never written out."""

    activation: Reg
    slope: float


Value = Zero | Const | Reg | Closed
ZERO = Zero()

P = ParamSpec("P")
R = TypeVar("R")


class Builder(Protocol):
    """What a part of a layer may ask of the planner."""

    def read(self, slot: str) -> Value:
        """The value of a slot of the token this sub-layer receives."""

    def write(self, slot: str, value: Value, coef: float | Tensor = 1.0) -> None:
        """Add coef * value to a slot of the token this sub-layer emits."""

    def write_product(self, slot: str, kind: str, left: Reg, right: Reg, coef: float) -> None:
        """Add coef * (left @ right | left^T @ right | left right^T) to a slot."""

    def compute(
        self, function: Callable[..., Tensor], inputs: Sequence[Reg], *, key: Hashable = None
    ) -> Reg:
        """Schedule a tensor operation and name its result; operations with one key are computed once."""

    def arrange(self, source: Reg, route: LinearMap) -> Reg:
        """A register through a fixed linear map, computed once for every tensor of the run."""

    def tensor(self, value: Value, like: Tensor) -> Reg:
        """Write any value out as a tensor that broadcasts with `like`."""

    def relu(self, value: Reg) -> Reg:
        """relu of a register, computed once however often it is asked for."""

    def combine(self, terms: Sequence[tuple[Value, float]]) -> Value:
        """The sum of coef * value."""

    def hat(self, query: Reg, reader: Callable[[Tensor], Tensor]) -> Reg:
        """What the grid reads for a query, computed once for every tensor of the run."""

    def watch(self, label: str, slot: str, value: Reg) -> None:
        """Have the range watch look at this register, which holds this slot."""

    def heads(self, label: str, slot: str, query: Reg, read: Reg) -> None:
        """Tell whoever records a run what a bank of heads asked and what it read."""


_remembered: ContextVar[dict[tuple[int, Any], Any] | None] = ContextVar("_remembered", default=None)


@contextmanager
def weights_stay_fixed() -> Iterator[None]:
    """Within this context no weight changes, so what was found out about one need not be again.

    Why a context variable and nothing plainer:

    - Versions of tensors (`t._version`) do not change when a weight is written through `t.data`, which is how
      weights are altered here; an altered program would be taken for the compiled one.
    - An object passed along would have to go through every `emit`, `is_plain` and `collapsed`, and so into
      what others write to add a layer of their own.
    - Without any memory, a short run of a network takes four times as long (10 plans ask 500 groups of units
      for 2000 tensors: 29 ms instead of 7), and verification a third more.

    A context variable is one per thread: programs may run side by side.
    """
    if _remembered.get() is not None:
        yield
        return
    token = _remembered.set({})
    try:
        yield
    finally:
        _remembered.reset(token)


def once_fixed(method: Callable[P, R]) -> Callable[P, R]:
    """Have a question about an object's weights answered once while `weights_stay_fixed`."""

    @wraps(method)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        memo = _remembered.get()
        if memo is None:
            return method(*args, **kwargs)
        key = (id(args[0]), (method, *args[1:], *kwargs.items()))
        if key not in memo:
            # The object is kept as well, so that no other can take its identity meanwhile.
            memo[key] = (method(*args, **kwargs), args[0])
        answer: R = memo[key][0]
        return answer

    return asked


def uniform(values: Tensor) -> float | None:
    """The common entry of a weight tensor, or None if its entries differ."""
    return _uniform_weight(values) if isinstance(values, nn.Parameter) else _uniform(values)


def _uniform(values: Tensor) -> float | None:
    flat = values.detach().reshape(-1)
    return float(flat[0]) if bool(torch.all(flat == flat[0])) else None


_uniform_weight = once_fixed(_uniform)
