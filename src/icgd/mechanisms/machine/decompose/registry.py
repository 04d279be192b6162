"""Where this package's own decompositions are entered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

Entry = Callable[..., Any]
ENTRIES: dict[OpOverload, Entry] = {}
"""Decompositions by operation; the modules of this package fill it when imported."""


def entry(*operations: OpOverload) -> Callable[[Entry], Entry]:
    """Enter a function as the decomposition of these operations."""

    def enter(function: Entry) -> Entry:
        for operation in operations:
            ENTRIES[operation] = function
        return function

    return enter


def is_one(value: object) -> bool:
    """Whether a plain number is 1; a number that is an input of the graph must not be asked.

    >>> is_one(1), is_one(2.0), is_one("SymFloat")
    (True, False, False)
    """
    return type(value) in (int, float) and value == 1


def constant(like: Tensor, value: Any) -> Tensor:
    """One number in the precision of a tensor."""
    return torch.full((), value, dtype=like.dtype)


def zero(like: Tensor) -> Tensor:
    """0 in the precision of a tensor."""
    return constant(like, 0)


def every(x: Tensor) -> list[int]:
    """All dimensions."""
    return list(range(x.dim()))


def dimensions(x: Tensor, dim: Any) -> list[int]:
    """The dimensions meant: all of them for None and the empty list, never negative ones."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return every(x)
    wanted = [dim] if isinstance(dim, int) else list(dim)
    return [d % x.dim() for d in wanted] if x.dim() else []


def n_entries(x: Tensor, dim: Any) -> int:
    """How many entries are summed over these dimensions."""
    count = 1
    for d in dimensions(x, dim):
        count *= x.shape[d]
    return count
