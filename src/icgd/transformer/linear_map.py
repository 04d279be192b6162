"""Fixed linear maps of one register: what a route of the layer does to an operand, and what it is as a matrix.

A map is a chain of small moves ("view", "permute", "sum", ...). Chains print, compare, travel through JSON, run
as a few tensor operations, and can be written out as the sparse matrix that the literal layer holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from icgd.errors import InvalidParameter

Move = tuple[Any, ...]
"""(name, arguments): ("view", (2, 3)), ("slice", 0, 1, 5, 1), ("scale", -0.5)."""
SELECTIONS = ("view", "permute", "expand", "slice", "flip", "pick")
"""Moves after which every entry is an entry of the register itself."""


class Coordinates(NamedTuple):
    """A sparse matrix: entry `source` times `coef` is added to entry `target`."""

    target: np.ndarray
    source: np.ndarray
    coef: np.ndarray


@dataclass(frozen=True)
class LinearMap:
    """A chain of moves from a register's shape to an operand's shape.

    >>> row_sums = LinearMap((2, 3)).then("sum", (1,), False).then("scale", 0.5)
    >>> row_sums.shape, row_sums(torch.ones(2, 3)).tolist()
    ((2,), [1.5, 1.5])
    >>> row_sums.is_selection, LinearMap((2, 3)).then("permute", (1, 0)).is_selection
    (False, True)
    """

    source: tuple[int, ...]
    moves: tuple[Move, ...] = ()

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        shape = self.source
        for move in self.moves:
            shape = _shape_after(move, shape)
        return shape

    @property
    def is_identity(self) -> bool:
        """Whether it gives the register back as it is."""
        return not self.moves

    @cached_property
    def is_selection(self) -> bool:
        """Whether every entry of the result is one entry of the register, unchanged."""
        return all(move[0] in SELECTIONS for move in self.moves)

    @property
    def is_rearrangement(self) -> bool:
        """Whether, besides, every entry of the register occurs exactly once."""
        return all(move[0] in ("view", "permute", "flip") for move in self.moves)

    @cached_property
    def before_broadcast(self) -> LinearMap:
        """The same without a last expansion that entry-by-entry operations do by themselves.

        >>> LinearMap((3,)).then("view", (1, 3)).then("expand", (4, 3)).before_broadcast.is_identity
        True
        """
        moves = list(self.moves)
        if not moves or moves[-1][0] != "expand":
            return self
        moves.pop()
        shape = LinearMap(self.source, tuple(moves)).shape
        if len(self.shape) != len(shape):
            return self
        if moves and moves[-1][0] == "view":
            earlier = LinearMap(self.source, tuple(moves[:-1])).shape
            if shape == (1,) * (len(shape) - len(earlier)) + earlier:
                moves.pop()
        return LinearMap(self.source, tuple(moves))

    def then(self, name: str, *arguments: Any) -> LinearMap:
        """This map followed by one more move; moves that do nothing are left out."""
        return self._with((name, *arguments))

    def after(self, earlier: LinearMap) -> LinearMap:
        """`earlier` followed by this map."""
        result = earlier
        for move in self.moves:
            result = result._with(move)
        return result

    def scaled(self, factor: float) -> LinearMap:
        """This map times a number."""
        return self.then("scale", float(factor))

    def _with(self, move: Move) -> LinearMap:
        name, before = move[0], self.shape
        last = self.moves[-1] if self.moves else None
        if name == "scale":
            return self._scaled_by(move[1])
        if name == "view" and last is not None and last[0] == "view":
            return LinearMap(self.source, self.moves[:-1])._with(move)
        if name == "permute" and last is not None and last[0] == "permute":
            joined = tuple(last[1][i] for i in move[1])
            return LinearMap(self.source, self.moves[:-1])._with(("permute", joined))
        after = _shape_after(move, before)
        nothing = (
            (name in ("view", "expand") and after == before)
            or (name == "permute" and list(move[1]) == list(range(len(before))))
            or (name == "slice" and after == before)
            or (name == "sum" and not move[1])
        )
        return self if nothing else LinearMap(self.source, (*self.moves, move))

    def _scaled_by(self, factor: float) -> LinearMap:
        if factor == 1.0:
            return self
        if self.moves and self.moves[-1][0] == "scale":
            rest = LinearMap(self.source, self.moves[:-1])
            return rest._scaled_by(self.moves[-1][1] * factor)
        return LinearMap(self.source, (*self.moves, ("scale", float(factor))))

    def __call__(self, x: Tensor) -> Tensor:
        """The map as tensor operations."""
        for function in self.functions:
            x = function(x)
        return x

    @cached_property
    def functions(self) -> tuple[Callable[[Tensor], Tensor], ...]:
        """One tensor operation per move."""
        return tuple(_function(move) for move in self.moves)

    @cached_property
    def operation(self) -> Callable[[Tensor], Tensor]:
        """The map as one function, without a chain where there is a single move."""
        return self.functions[0] if len(self.functions) == 1 else self.__call__

    def absolute(self, x: Tensor) -> Tensor:
        """The map with the absolute values of its coefficients: what it does to bounds."""
        for move, function in zip(self.moves, self.functions, strict=True):
            if move[0] == "weigh":
                function = _weigh([abs(w) for w in move[1]])
            x = x * abs(move[1]) if move[0] == "scale" else function(x)
        return x

    @cached_property
    def terms(self) -> int:
        """The most entries of the register that an entry of the result is a sum of."""
        if self.is_selection:
            return 1
        counts = np.bincount(self.coordinates().target, minlength=1)
        return int(counts.max(initial=1))

    @property
    def roundings(self) -> int:
        """How often an entry may be rounded on its way: sums, and factors that are no powers of two."""
        factors = [m for m in self.moves if m[0] in ("scale", "weigh")]
        scales = sum(m[0] == "weigh" or not _is_power_of_two(m[1]) for m in factors)
        return self.terms - 1 + scales

    def coordinates(self) -> Coordinates:
        """The matrix, entry by entry of the flattened tensors."""
        size = math.prod(self.source)
        current = Coordinates(*(np.arange(size),) * 2, np.ones(size))
        shape = self.source
        for move in self.moves:
            current = _advance(current, move, shape)
            shape = _shape_after(move, shape)
        return current

    def to_json(self) -> list[Any]:
        """A plain description."""
        return [list(self.source), [[move[0], *map(_plain, move[1:])] for move in self.moves]]

    @classmethod
    def from_json(cls, described: Sequence[Any]) -> LinearMap:
        """What `to_json` described."""
        source, moves = described
        return cls(tuple(source), tuple((m[0], *map(_tupled, m[1:])) for m in moves))

    def __str__(self) -> str:
        words = [_spelled(move) for move in self.moves]
        return " ".join(words)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _spelled(move: Move) -> str:
    if move[0] == "scale":
        return f"*{move[1]:.6g}"
    if move[0] == "weigh":
        return "*weights"
    return f"{move[0]}{[_plain(a) for a in move[1:]]}".replace("[[", "[").replace("]]", "]")


def _is_power_of_two(factor: float) -> bool:
    return abs(math.frexp(factor)[0]) == 0.5


def _shape_after(move: Move, shape: tuple[int, ...]) -> tuple[int, ...]:
    name = move[0]
    if name in ("view", "expand"):
        return tuple(move[1])
    if name == "permute":
        return tuple(shape[i] for i in move[1])
    if name == "slice":
        _, axis, start, stop, stride = move
        return (*shape[:axis], len(range(start, stop, stride)), *shape[axis + 1 :])
    if name == "pad":
        pads = _by_axis(move[1], len(shape))
        return tuple(n + low + high for n, (low, high) in zip(shape, pads, strict=True))
    if name == "sum":
        axes, keep = move[1], move[2]
        return tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
    if name == "pick":
        return (*shape[: move[1]], len(move[2]), *shape[move[1] + 1 :])
    if name in ("scale", "flip", "weigh"):
        return shape
    raise InvalidParameter("move", name, "be a move that linear maps know")


def _by_axis(widths: Sequence[int], n_axes: int) -> list[tuple[int, int]]:
    """torch's order of paddings, last axis first, as one pair per axis."""
    pairs = [(widths[i], widths[i + 1]) for i in range(0, len(widths), 2)]
    return [(0, 0)] * (n_axes - len(pairs)) + pairs[::-1]


def _function(move: Move) -> Callable[[Tensor], Tensor]:
    """A move as a tensor operation."""
    name, arguments = move[0], move[1:]
    if name == "weigh":
        return _weigh(arguments[0])
    if name == "permute" and tuple(arguments[0]) == (1, 0):
        return Tensor.t
    if name == "scale" and arguments[0] == -1.0:
        return Tensor.neg
    if name == "slice":
        axis, start, stop, stride = arguments
        index = (*(slice(None),) * axis, slice(start, stop, stride))
        return lambda x: x[index]
    if name == "pick":
        chosen = torch.tensor(arguments[1], dtype=torch.long)
        return lambda x: x.index_select(arguments[0], chosen)
    operation = _OPERATIONS[name]
    return lambda x: operation(x, *arguments)


_OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "view": Tensor.reshape,
    "permute": Tensor.permute,
    "expand": Tensor.expand,
    "pad": functional.pad,
    "sum": Tensor.sum,
    "scale": torch.mul,
    "flip": Tensor.flip,
}
"""Moves that are one operation with the move's own arguments."""


def _weigh(weights: Sequence[float]) -> Callable[[Tensor], Tensor]:
    """Entry by entry, times fixed numbers."""
    factors = torch.tensor(weights, dtype=torch.float64)
    return lambda x: x * factors.to(x.dtype).reshape(x.shape)


def _advance(current: Coordinates, move: Move, shape: tuple[int, ...]) -> Coordinates:
    """The matrix after one more move on a result of this shape."""
    if move[0] == "scale":
        return current._replace(coef=current.coef * move[1])
    if move[0] == "weigh":
        return current._replace(coef=current.coef * np.asarray(move[1])[current.target])
    size = math.prod(shape)
    if move[0] in ("sum", "pad"):
        target = _places(move, shape)[current.target]
        return current._replace(target=target)
    # A selection: entry j of the new result is entry chosen[j] of the old one.
    index = torch.arange(size).reshape(shape)
    chosen = _function(move)(index).reshape(-1).numpy()
    order = np.argsort(current.target, kind="stable")
    starts = np.searchsorted(current.target[order], np.arange(size + 1))
    counts = (starts[1:] - starts[:-1])[chosen]
    target = np.repeat(np.arange(len(chosen)), counts)
    offset = np.arange(len(target)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = order[np.repeat(starts[:-1][chosen], counts) + offset]
    return Coordinates(target, current.source[at], current.coef[at])


def _places(move: Move, shape: tuple[int, ...]) -> np.ndarray:
    """Where every entry goes when entries are summed or placed among zeros."""
    after = _shape_after(move, shape)
    if move[0] == "pad":
        pads = _by_axis(move[1], len(shape))
        index = torch.arange(math.prod(after)).reshape(after)
        inner = tuple(slice(low, low + n) for n, (low, _) in zip(shape, pads, strict=True))
        return index[inner].reshape(-1).numpy()
    kept = tuple(1 if i in move[1] else n for i, n in enumerate(shape))
    index = torch.arange(math.prod(after)).reshape(kept)
    return index.expand(shape).reshape(-1).numpy()
