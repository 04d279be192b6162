"""Whether a route out of a file fits the register it starts from; shapes alone, nothing is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Shape = tuple[int, ...]
LARGEST = 2**48
"""Entries of a register beyond which no machine is asked whether they fit."""


def checked_shape(value: Any) -> Shape:
    """A list of whole numbers as a shape, or ValueError."""
    if not isinstance(value, list) or not all(type(n) is int and n >= 0 for n in value):
        raise ValueError(f"{str(value)[:40]} is no shape")
    if len(value) > 16 or math.prod(value) > LARGEST:
        raise ValueError(f"no register has the shape {str(value)[:60]}")
    return tuple(value)


def shape_after_moves(described: Any, shape: Shape) -> Shape:
    """The shape a route leads to, or ValueError; `described` is what LinearMap.to_json gives."""
    if not isinstance(described, list) or len(described) != 2 or not isinstance(described[1], list):
        raise ValueError("a route is [shape, moves]")
    if checked_shape(described[0]) != shape:
        raise ValueError(f"a route starts from {described[0]}, and its register has {list(shape)}")
    for move in described[1]:
        if not isinstance(move, list) or not move or move[0] not in tuple(MOVES):
            raise ValueError(f"{str(move)[:40]} is no move of a route")
        try:
            after = MOVES[move[0]](shape, *move[1:])
        except TypeError:  # other arguments than the move has
            after = None
        if after is None:
            raise ValueError(f"{str(move)[:60]} does not fit the shape {list(shape)}")
        shape = after
    return shape


def _axes(value: Any, n_axes: int) -> list[int] | None:
    """Distinct axes."""
    good = isinstance(value, list) and all(type(a) is int and 0 <= a < n_axes for a in value)
    return value if good and len(set(value)) == len(value) else None


def _view(shape: Shape, wanted: Any) -> Shape | None:
    after = checked_shape(wanted)
    return after if math.prod(after) == math.prod(shape) else None


def _expand(shape: Shape, wanted: Any) -> Shape | None:
    after = checked_shape(wanted)
    start = len(after) - len(shape)
    fits = start >= 0 and all(n in (1, m) for n, m in zip(shape, after[start:], strict=True))
    return after if fits else None


def _permute(shape: Shape, order: Any) -> Shape | None:
    axes = _axes(order, len(shape))
    return None if axes is None or len(axes) != len(shape) else tuple(shape[a] for a in axes)


def _slice(shape: Shape, axis: Any, start: Any, stop: Any, stride: Any) -> Shape | None:
    whole = all(type(n) is int for n in (axis, start, stop, stride))
    if not whole or not (
        0 <= axis < len(shape) and 0 <= start <= stop <= shape[axis] and stride > 0
    ):
        return None
    return (*shape[:axis], len(range(start, stop, stride)), *shape[axis + 1 :])


def _pad(shape: Shape, widths: Any) -> Shape | None:
    good = isinstance(widths, list) and all(type(w) is int and 0 <= w < LARGEST for w in widths)
    if not good or len(widths) % 2 or len(widths) > 2 * len(shape):
        return None
    after = list(shape)
    for k in range(len(widths) // 2):
        after[-1 - k] += widths[2 * k] + widths[2 * k + 1]
    return checked_shape(after)


def _sum(shape: Shape, axes: Any, keep: Any) -> Shape | None:
    if _axes(axes, len(shape)) is None or type(keep) is not bool:
        return None
    return tuple(1 if a in axes else n for a, n in enumerate(shape) if keep or a not in axes)


def _pick(shape: Shape, axis: Any, places: Any) -> Shape | None:
    if type(axis) is not int or not 0 <= axis < len(shape) or not isinstance(places, list):
        return None
    if not all(type(p) is int and 0 <= p < shape[axis] for p in places):
        return None
    return (*shape[:axis], len(places), *shape[axis + 1 :])


def _scale(shape: Shape, factor: Any) -> Shape | None:
    return shape if _is_number(factor) else None


def _flip(shape: Shape, axes: Any) -> Shape | None:
    return None if _axes(axes, len(shape)) is None else shape


def _weigh(shape: Shape, weights: Any) -> Shape | None:
    if not isinstance(weights, list) or len(weights) != math.prod(shape):
        return None
    return shape if all(map(_is_number, weights)) else None


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


MOVES: dict[str, Callable[..., Shape | None]] = {
    "view": _view,
    "permute": _permute,
    "expand": _expand,
    "slice": _slice,
    "flip": _flip,
    "pick": _pick,
    "pad": _pad,
    "sum": _sum,
    "scale": _scale,
    "weigh": _weigh,
}
"""What every move makes of a shape; None where it does not fit."""


def product_shape(a: Sequence[int], b: Sequence[int]) -> Shape | None:
    """The shape of a matrix product without broadcasting."""
    if len(a) < 2 or len(a) != len(b) or a[:-2] != b[:-2] or a[-1] != b[-2]:
        return None
    return (*a[:-1], b[-1])
