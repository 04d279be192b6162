"""One rule per opcode: from bounds on the operands to a bound on the result.

A register has a centre c, the tape in double precision, and a bound E >= |x - c| for whatever the side computes
for x. A rule adds what it makes of the operands' bounds, the error of the heads, and the rounding of the side
and of the centre.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.mechanisms.machine.tape.instruction import Instruction, Kind, Opcode, Operand
from icgd.verification.bounds.tape.sides import TORCH_FUNCTION, Side
from icgd.verification.bounds.tape.spread import ODD, SPREADS

U = 2.0**-53
"""Unit roundoff of the centre."""
OUTWARD = 1 + 1e-9
"""Covers the rounding of bounds themselves."""


@dataclass(frozen=True)
class Seen:
    """An operand after its route: centre and bound; of a flag, the flag and where it is in doubt."""

    value: Tensor
    error: Tensor

    @property
    def size(self) -> Tensor:
        """Bound on what the side may have there."""
        return self.value.abs() + self.error


def seen(operand: Operand, value: Tensor, error: Tensor, side: Side) -> Seen:
    """A register as an instruction sees it."""
    route = operand.route
    if operand.register.kind is Kind.FLAG:
        return Seen(route(value), route(error))
    moved = route.absolute(error)
    if not route.is_selection:
        factors = sum(move[0] in ("scale", "weigh") for move in route.moves)
        sums = max(0, route.terms - 1)
        roundings = side.u * (side.sums * sums + side.factors * factors) + U * route.roundings
        size = route.absolute(value.abs() + error)
        moved = moved + roundings * size + _underflow(size, side)
    return Seen(route(value), moved)


def _underflow(size: Tensor, side: Side) -> Tensor:
    """What is lost below the smallest normal number, where something so small may be."""
    smallest = side.tiny / side.u
    return torch.where((size > 0) & (size < smallest), side.tiny, 0.0)


def error_of(i: Instruction, operands: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    """Bound on what the side's result may be off by."""
    error = RULES[i.opcode](i, operands, result, side)
    error = error.expand(result.shape) * OUTWARD
    # 0 times infinity: nothing is known.
    return torch.where(error.isnan(), math.inf, error)


def _affine(i: Instruction, xs: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    error = sum((x.error for x in xs), torch.zeros_like(result))
    if len(xs) == 1:
        return error
    size = sum((x.size for x in xs), torch.zeros_like(result))
    return error + (len(xs) - 1) * (side.sums * side.u + U) * size


def _join(i: Instruction, xs: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    return torch.cat([x.error for x in xs], dim=i.settings["axis"])


def _factors(i: Instruction, xs: Sequence[Seen], side: Side) -> tuple[Seen, Seen]:
    """Both factors; what heads read has their error added."""
    at = i.read_operand or 0
    factors = list(xs[:2])
    query = factors[at]
    least = (query.value.abs() - query.error).clamp(min=0)
    factors[at] = Seen(query.value, query.error + side.read(least, query.size))
    return factors[0], factors[1]


def _multiply(i: Instruction, xs: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    a, b = _factors(i, xs, side)
    size = a.size * b.size
    error = a.value.abs() * b.error + a.error * b.value.abs() + a.error * b.error
    return _added(error, size, 1, xs, side) + _vanished(a.size, b.size, side)


def _matmul(i: Instruction, xs: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    a, b = _factors(i, xs, side)
    # |a| eb + ea (|b| + eb)
    error = torch.matmul(a.value.abs(), b.error) + torch.matmul(a.error, b.size)
    size, n_terms = torch.matmul(a.size, b.size), a.value.shape[-1]
    lost = torch.matmul((a.size > 0).double(), (b.size > 0).double()) * side.tiny
    least = _least(a.size) * _least(b.size)
    error = _added(error, size, n_terms, xs, side)
    return error + lost if least < side.tiny / side.u else error


def _least(size: Tensor) -> float:
    """The smallest number that is not 0."""
    return float(torch.where(size > 0, size, math.inf).amin()) if size.numel() else math.inf


def _vanished(a: Tensor, b: Tensor, side: Side) -> Tensor:
    """What a product loses to underflow, where neither factor is 0."""
    small = (a * b < side.tiny / side.u) & (a > 0) & (b > 0)
    return torch.where(small, side.tiny, 0.0)


def _added(error: Tensor, size: Tensor, n_terms: int, xs: Sequence[Seen], side: Side) -> Tensor:
    """Rounding of products and their sum, with what is added to them."""
    for x in xs[2:]:
        error, size, n_terms = error + x.error, size + x.size, n_terms + 1
    return error + n_terms * (side.sums * side.u + U) * size


def _function(i: Instruction, xs: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    name, (x,) = i.settings["function"], xs
    # As far as the side's argument may be, its own spacing included where it is not exact.
    moved = torch.where(x.error > 0, x.error * OUTWARD + 2 * U * x.value.abs(), 0.0)
    spread = SPREADS[name](x.value, moved) * OUTWARD
    own = side.function(name, x.value - moved, x.value + moved, result.abs() + spread)
    error = spread + own + TORCH_FUNCTION * U * result.abs()
    if name not in ODD or not side.odd:
        return error
    return torch.where((x.value == 0) & (x.error == 0), 0.0, error)


def _softmax(i: Instruction, xs: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    """exp of what the entry, and what the row, may have moved by; a masked entry is exactly 0."""
    (x,) = xs
    error = torch.where(x.value == -math.inf, 0.0, x.error)
    row = error.amax(dim=-1, keepdim=True)
    below = (x.value.amax(dim=-1, keepdim=True) - x.value).clamp(max=1e4)
    roundings = (2 * x.value.shape[-1] + 16 + 2 * below) * (side.sums * side.u + U)
    moved = result * (torch.expm1(error + row) * (1 + roundings) + roundings)
    return torch.where(x.value == -math.inf, 0.0, moved + side.tiny)


def _relu(i: Instruction, xs: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    (x,) = xs
    return torch.where(x.value + x.error <= 0, 0.0, x.error)


def _compared(i: Instruction, xs: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    """In doubt where the sides are closer than their errors; exact numbers decide as they are."""
    a, b = xs
    apart, total = (a.value - b.value).abs(), (a.error + b.error) * OUTWARD
    return ((total > 0) & (apart <= total * (1 + 4 * U))).double()


def _select(i: Instruction, xs: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    flag, first, second = xs
    certain = torch.where(flag.value, first.error, second.error)
    either = (first.value - second.value).abs() + torch.maximum(first.error, second.error)
    return torch.where(flag.error > 0, either, certain)


def _both(i: Instruction, xs: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    a, b = xs
    doubt_a, doubt_b = a.error > 0, b.error > 0
    doubt = (doubt_a & (b.value | doubt_b)) | (doubt_b & (a.value | doubt_a))
    return doubt.double()


def _kept(i: Instruction, xs: Sequence[Seen], result: Tensor, side: Side) -> Tensor:
    return xs[0].error


RULES: dict[Opcode, Callable[[Instruction, Sequence[Seen], Tensor, Side], Tensor]] = {
    Opcode.AFFINE: _affine,
    Opcode.JOIN: _join,
    Opcode.MULTIPLY: _multiply,
    Opcode.MATMUL: _matmul,
    Opcode.FUNCTION: _function,
    Opcode.SOFTMAX: _softmax,
    Opcode.RELU: _relu,
    Opcode.COMPARE: _compared,
    Opcode.EQUALS: _compared,
    Opcode.SELECT: _select,
    Opcode.BOTH: _both,
    Opcode.INVERT: _kept,
    Opcode.NUMBER: _kept,
}
