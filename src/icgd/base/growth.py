"""Whether what is kept of every round will fit into memory, known after the first two rounds.

A run itself takes the same memory however long it is. What is kept of it (weights of every round, blocks, the
records of a verdict) grows, and how much a round adds shows as soon as there are two.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from icgd.base.preflight import Part, require_memory

TENSOR = 600.0
"""Bytes of a tensor beside its numbers: the object, its storage and what the allocator rounds up."""
LOOKED_AT = 2
"""Rounds after which it is judged: the first one also makes plans."""


class Growth:
    """Give it everything that is kept of a run after every round; it refuses in time what will not fit.

    what         the beginning of the sentence
    name, value  the parameter that sets the number of rounds, as the user knows it
    n_rounds     how many there will be
    """

    def __init__(self, what: str, name: str, value: object, n_rounds: int) -> None:
        self._what, self._name, self._value, self._n_rounds = what, name, value, n_rounds
        self._first, self._started = 0.0, 0.0

    def after_round(self, done: int, kept: Any) -> None:
        """Look at what is kept after this many rounds; later than the second this does nothing."""
        if done < LOOKED_AT:
            self._first, self._started = size_of(kept), time.perf_counter()
        elif done == LOOKED_AT:
            each = size_of(kept) - self._first
            seconds = time.perf_counter() - self._started
            part = Part(self._name, self._value, each * self._n_rounds, seconds * self._n_rounds)
            require_memory(self._what, [part])


def size_of(value: Any) -> float:
    """Bytes of a value and of all it holds, each object once; of a tensor the numbers it shows.

    >>> size_of([0.5] * 1000) < 9000 < 24_000 < size_of([float(i) for i in range(1000)])
    True
    """
    return _size_of(value, set())


def _size_of(value: Any, seen: set[int]) -> float:
    if value is None or id(value) in seen:
        return 0.0
    seen.add(id(value))
    if hasattr(value, "element_size"):
        return float(TENSOR + value.numel() * value.element_size())
    return float(sys.getsizeof(value)) + sum(_size_of(part, seen) for part in _parts(value))


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return ()
