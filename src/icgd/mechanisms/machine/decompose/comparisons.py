"""Comparisons by one strict one, choices by `where`, flags by `and` and `not`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.decompose.registry import constant, entry, zero

aten = torch.ops.aten


def as_tensor(like: Tensor, value: Any) -> Tensor:
    """A number in the precision of a tensor; a tensor as it is."""
    return value if isinstance(value, Tensor) else constant(like, value)


@entry(aten.gt.Scalar)
def gt(a: Tensor, b: Any) -> Tensor:
    """a > b."""
    return aten.gt.Tensor(a, as_tensor(a, b))


@entry(aten.lt.Scalar, aten.lt.Tensor)
def lt(a: Tensor, b: Any) -> Tensor:
    """a < b is b > a."""
    return aten.gt.Tensor(as_tensor(a, b), a)


@entry(aten.le.Scalar, aten.le.Tensor)
def le(a: Tensor, b: Any) -> Tensor:
    """Not greater."""
    return aten.bitwise_not(aten.gt.Tensor(a, as_tensor(a, b)))


@entry(aten.ge.Scalar, aten.ge.Tensor)
def ge(a: Tensor, b: Any) -> Tensor:
    """Not less."""
    return aten.bitwise_not(aten.gt.Tensor(as_tensor(a, b), a))


@entry(aten.eq.Scalar)
def eq(a: Tensor, b: Any) -> Tensor:
    """a == b."""
    return aten.eq.Tensor(a, as_tensor(a, b))


@entry(aten.ne.Scalar, aten.ne.Tensor)
def ne(a: Tensor, b: Any) -> Tensor:
    """Not equal."""
    return aten.bitwise_not(aten.eq.Tensor(a, as_tensor(a, b)))


@entry(aten.maximum.default)
def maximum(a: Tensor, b: Tensor) -> Tensor:
    """The larger of two."""
    return torch.where(aten.gt.Tensor(a, b), a, b)


@entry(aten.minimum.default)
def minimum(a: Tensor, b: Tensor) -> Tensor:
    """The smaller of two."""
    return torch.where(aten.gt.Tensor(a, b), b, a)


@entry(aten.clamp.default, aten.clamp.Tensor)
def clamp(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """Between two bounds; the upper one wins where they cross, as in PyTorch."""
    if low is not None:
        x = maximum(x, as_tensor(x, low))
    return x if high is None else minimum(x, as_tensor(x, high))


@entry(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(x: Tensor, low: Any) -> Tensor:
    """Not below."""
    return clamp(x, low)


@entry(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(x: Tensor, high: Any) -> Tensor:
    """Not above."""
    return clamp(x, None, high)


@entry(aten.abs.default)
def absolute(x: Tensor) -> Tensor:
    """relu(x) + relu(-x): exact, one of them is 0."""
    return torch.relu(x) + torch.relu(-x)


@entry(aten.sign.default, aten.sgn.default)
def sign(x: Tensor) -> Tensor:
    """1, 0 or -1."""
    up, down = aten.gt.Tensor(x, zero(x)), aten.gt.Tensor(zero(x), x)
    return up.to(x.dtype) - down.to(x.dtype)


@entry(aten.heaviside.default)
def heaviside(x: Tensor, middle: Tensor) -> Tensor:
    """0 below, 1 above, `middle` at 0."""
    up = aten.gt.Tensor(x, zero(x)).to(x.dtype)
    return torch.where(aten.eq.Tensor(x, zero(x)), middle, up)


@entry(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where the mask is up."""
    return torch.where(mask, as_tensor(x, value).to(x.dtype), x)


@entry(aten.where.ScalarOther)
def where_number(condition: Tensor, x: Tensor, other: Any) -> Tensor:
    """A tensor or a number."""
    return torch.where(condition, x, as_tensor(x, other))


@entry(aten.where.ScalarSelf)
def where_own_number(condition: Tensor, number: Any, other: Tensor) -> Tensor:
    """A number or a tensor."""
    return torch.where(condition, as_tensor(other, number), other)


@entry(aten.logical_not.default)
def logical_not(a: Tensor) -> Tensor:
    """True where a flag is down, or a number 0."""
    if a.dtype != torch.bool:
        return aten.eq.Tensor(a, zero(a))
    return aten.bitwise_not(a)


@entry(aten.logical_and.default)
def logical_and(a: Tensor, b: Tensor) -> Any:
    """Both."""
    return aten.bitwise_and.Tensor(_flag(a), _flag(b))


@entry(aten.logical_or.default, aten.bitwise_or.Tensor)
def logical_or(a: Tensor, b: Tensor) -> Any:
    """At least one."""
    neither = aten.bitwise_and.Tensor(aten.bitwise_not(_flag(a)), aten.bitwise_not(_flag(b)))
    return aten.bitwise_not(neither)


@entry(aten.logical_xor.default, aten.bitwise_xor.Tensor)
def logical_xor(a: Tensor, b: Tensor) -> Any:
    """One of the two."""
    return aten.bitwise_not(aten.eq.Tensor(_flag(a), _flag(b)))


def _flag(a: Tensor) -> Tensor:
    return a if a.dtype == torch.bool else ne(a, 0)


@entry(aten.isnan.default, aten.isinf.default)
def never(x: Tensor) -> Tensor:
    """No number of the machine is infinite or none: its ranges refuse both."""
    return torch.zeros_like(x, dtype=torch.bool)
