"""Products, sums with factors, powers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.decompose.registry import entry, is_one

aten = torch.ops.aten


def scaled(x: Any, factor: Any) -> Any:
    """x times a number, without a product where the number is 1."""
    return x if is_one(factor) else x * factor


@entry(aten.addmm.default)
def addmm(bias: Tensor, x: Tensor, w: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta bias + alpha x w."""
    return scaled(aten.mm(x, w), alpha) + scaled(bias, beta)


@entry(aten.baddbmm.default)
def baddbmm(bias: Tensor, x: Tensor, w: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """The same for batches of matrices."""
    return scaled(aten.bmm(x, w), alpha) + scaled(bias, beta)


@entry(aten.mv.default)
def mv(a: Tensor, v: Tensor) -> Tensor:
    """A matrix times a vector as a matrix of one column."""
    return aten.view(aten.mm(a, aten.view(v, [-1, 1])), [a.shape[0]])


@entry(aten.addmv.default)
def addmv(bias: Tensor, a: Tensor, v: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta bias + alpha a v."""
    return scaled(mv(a, v), alpha) + scaled(bias, beta)


@entry(aten.dot.default, aten.vdot.default)
def dot(a: Tensor, b: Tensor) -> Tensor:
    """A row times a column."""
    return aten.view(aten.mm(aten.view(a, [1, -1]), aten.view(b, [-1, 1])), [])


@entry(aten.addr.default)
def addr(x: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta x + alpha a b^T."""
    return scaled(aten.mm(aten.view(a, [-1, 1]), aten.view(b, [1, -1])), alpha) + scaled(x, beta)


@entry(aten.addcmul.default)
def addcmul(x: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
    """x + value a b."""
    return x + scaled(a * b, value)


@entry(aten.addcdiv.default)
def addcdiv(x: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
    """x + value a / b."""
    return x + scaled(a / b, value)


@entry(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(a: Tensor, b: Tensor, weight: Any) -> Tensor:
    """a + weight (b - a), from the end that is nearer, as PyTorch does."""
    if isinstance(weight, (int, float)) and abs(weight) >= 0.5:
        return b - (b - a) * (1 - weight)
    return a + (b - a) * weight


@entry(aten.add.Tensor)
def add(a: Tensor, b: Any, alpha: Any = 1) -> Any:
    """a + alpha b."""
    return NotImplemented if is_one(alpha) else aten.add.Tensor(a, b * alpha)


@entry(aten.add.Scalar)
def add_scalar(a: Tensor, b: Any, alpha: Any = 1) -> Tensor:
    """A tensor and a number."""
    return aten.add.Tensor(a, scaled(b, alpha))


@entry(aten.sub.Tensor)
def sub(a: Any, b: Any, alpha: Any = 1) -> Any:
    """a - alpha b."""
    if isinstance(a, Tensor) and not isinstance(b, Tensor):
        return aten.add.Tensor(a, -scaled(b, alpha))
    return NotImplemented if is_one(alpha) else aten.sub.Tensor(a, b * alpha)


@entry(aten.sub.Scalar)
def sub_scalar(a: Tensor, b: Any, alpha: Any = 1) -> Tensor:
    """A tensor less a number."""
    return aten.add.Tensor(a, -scaled(b, alpha))


@entry(aten.rsub.Scalar, aten.rsub.Tensor)
def rsub(a: Tensor, b: Any, alpha: Any = 1) -> Tensor:
    """b - alpha a."""
    return aten.add.Tensor(aten.neg(scaled(a, alpha)), b)


@entry(aten.mul.Scalar)
def mul_scalar(a: Tensor, b: Any) -> Tensor:
    """A tensor times a number."""
    return aten.mul.Tensor(a, b)


@entry(aten.div.Scalar)
def div_scalar(a: Tensor, b: Any) -> Tensor:
    """A tensor over a number."""
    return aten.div.Tensor(a, b)


@entry(aten.square.default)
def square(x: Tensor) -> Tensor:
    """x x."""
    return x * x


@entry(aten.reciprocal.default)
def reciprocal(x: Tensor) -> Tensor:
    """1 / x."""
    return aten.div.Tensor(torch.ones_like(x), x)


@entry(aten.pow.Tensor_Scalar)
def power(x: Tensor, exponent: Any) -> Any:
    """x ** number: products for whole numbers, roots, or exp(number log x) for x > 0."""
    if not isinstance(exponent, (int, float)):
        return NotImplemented
    if exponent == 0:
        return torch.ones_like(x)
    if exponent in (0.5, -0.5):
        return torch.sqrt(x) if exponent > 0 else torch.rsqrt(x)
    if float(exponent).is_integer() and abs(exponent) <= 64:
        whole = _repeated(x, int(abs(exponent)))
        return whole if exponent > 0 else reciprocal(whole)
    doubled = 2 * float(exponent)
    if doubled.is_integer() and 1 < doubled <= 64:
        return _repeated(x, int(doubled) // 2) * torch.sqrt(x)
    return torch.exp(torch.log(x) * exponent)


def _repeated(x: Tensor, times: int) -> Tensor:
    """x ** times by squaring."""
    result: Tensor | None = None
    while times:
        if times & 1:
            result = x if result is None else result * x
        times >>= 1
        if times:
            x = x * x
    assert result is not None
    return result


@entry(aten.pow.Scalar)
def power_of_number(base: Any, x: Tensor) -> Any:
    """number ** x, for a number > 0."""
    if not isinstance(base, (int, float)) or base <= 0:
        return NotImplemented
    return torch.exp(x * math.log(base))


@entry(aten.pow.Tensor_Tensor)
def power_of_tensors(a: Tensor, b: Tensor) -> Tensor:
    """a ** b for a > 0."""
    return torch.exp(torch.log(a) * b)


@entry(aten.exp2.default)
def exp2(x: Tensor) -> Tensor:
    """2 ** x."""
    return torch.exp(x * math.log(2))


@entry(aten.log2.default)
def log2(x: Tensor) -> Tensor:
    """Logarithm of base 2."""
    return torch.log(x) / math.log(2)


@entry(aten.log10.default)
def log10(x: Tensor) -> Tensor:
    """Logarithm of base 10."""
    return torch.log(x) / math.log(10)


@entry(aten.log1p.default)
def log1p(x: Tensor) -> Tensor:
    """log(1 + x), to rounding of 1."""
    return torch.log(x + 1)


@entry(aten.expm1.default)
def expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, to rounding of 1."""
    return torch.exp(x) - 1


@entry(aten.tan.default)
def tan(x: Tensor) -> Tensor:
    """sin / cos."""
    return torch.sin(x) / torch.cos(x)


@entry(aten.erfc.default)
def erfc(x: Tensor) -> Tensor:
    """1 - erf, to rounding of 1."""
    return 1 - torch.erf(x)


@entry(aten.sinh.default)
def sinh(x: Tensor) -> Tensor:
    """(exp(x) - exp(-x)) / 2, to rounding of 1."""
    return (torch.exp(x) - torch.exp(-x)) * 0.5


@entry(aten.cosh.default)
def cosh(x: Tensor) -> Tensor:
    """(exp(x) + exp(-x)) / 2."""
    return (torch.exp(x) + torch.exp(-x)) * 0.5
