"""What a value can be while a graph is read, and what rules ask of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from icgd.mechanisms.machine.tape.instruction import Kind, Operand
from icgd.transformer.linear_map import LinearMap

Value = Operand | Tensor | float | int


class Missing(Exception):
    """An operation, or a form of it, that the machine has no instruction for; says why."""


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of any value; numbers have none."""
    if isinstance(value, (Operand, Tensor)):
        return tuple(value.shape)
    return ()


def is_all(value: Value, number: float) -> bool:
    """Whether a value is known to be this number in every entry."""
    if isinstance(value, Operand):
        return False
    return bool((value == number).all()) if isinstance(value, Tensor) else value == number


def shared_kind(operands: Sequence[Operand]) -> Kind:
    """Whole numbers if all operands are; real ones otherwise."""
    kinds = {operand.register.kind for operand in operands}
    return Kind.INDEX if kinds == {Kind.INDEX} else Kind.REAL


def numbers_in(operand: Operand) -> int:
    """How many numbers heads would have to read."""
    if operand.route.is_selection or without_scale(operand)[0].route.is_selection:
        return min(operand.register.size, math.prod(operand.shape))
    return math.prod(operand.shape)


def without_scale(operand: Operand) -> tuple[Operand, float]:
    """The operand without factors on its route, and their product."""
    scale, moves = 1.0, []
    for move in operand.route.moves:
        if move[0] == "scale":
            scale *= move[1]
        else:
            moves.append(move)
    return Operand(operand.register, LinearMap(operand.route.source, tuple(moves))), scale
