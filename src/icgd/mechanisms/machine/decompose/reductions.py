"""Sums, means, norms, extremes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.decompose.registry import constant, dimensions, entry, every, n_entries

aten = torch.ops.aten


@entry(aten.mean.default)
def mean(x: Tensor, dtype: Any = None) -> Tensor:
    """The sum over the number of entries."""
    return aten.sum.dim_IntList(_as(x, dtype), every(x)) * (1.0 / x.numel())


@entry(aten.mean.dim)
def mean_over(x: Tensor, dim: Any, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The same over some dimensions."""
    return aten.sum.dim_IntList(_as(x, dtype), dimensions(x, dim), keepdim) * (
        1.0 / n_entries(x, dim)
    )


@entry(aten.sum.default)
def total(x: Tensor, dtype: Any = None) -> Tensor:
    """The sum over all dimensions."""
    return aten.sum.dim_IntList(_as(x, dtype), every(x))


def _as(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None or x.dtype == dtype else x.to(dtype)


@entry(aten.linalg_vector_norm.default)
def vector_norm(
    x: Tensor, order: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """Norms of order 1, 2 and infinity."""
    over = dimensions(x, dim)
    if order == 2:
        return torch.sqrt(aten.sum.dim_IntList(x * x, over, keepdim))
    if order == 1:
        return aten.sum.dim_IntList(torch.abs(x), over, keepdim)
    if order == math.inf:
        return aten.amax(torch.abs(x), over, keepdim)
    return NotImplemented


@entry(aten.var_mean.correction)
def var_mean(
    x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Variance around the mean, and the mean: two passes, nothing cancels."""
    over, count = dimensions(x, dim), n_entries(x, dim)
    middle = aten.sum.dim_IntList(x, over, True) * (1.0 / count)
    centred = x - middle
    spread = aten.sum.dim_IntList(centred * centred, over, keepdim)
    variance = spread * (1.0 / (count - (1 if correction is None else correction)))
    return variance, middle if keepdim else aten.view(middle, list(variance.shape))


@entry(aten.var.correction)
def var(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    """Variance."""
    return var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


@entry(aten.std.correction)
def std(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    """Standard deviation."""
    return torch.sqrt(var(x, dim, correction=correction, keepdim=keepdim))


@entry(aten.max.default)
def largest(x: Tensor) -> Tensor:
    """The largest entry."""
    return aten.amax(x, every(x))


@entry(aten.min.default)
def smallest(x: Tensor) -> Tensor:
    """The smallest entry."""
    return -aten.amax(-x, every(x))


@entry(aten.amin.default)
def amin(x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest entries along dimensions."""
    return -aten.amax(-x, dimensions(x, dim), keepdim)


@entry(aten.max.dim)
def max_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The largest entries along a dimension, and where they stand."""
    return aten.amax(x, [dim], keepdim), aten.argmax(x, dim, keepdim)


@entry(aten.min.dim)
def min_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest entries along a dimension, and where they stand."""
    return -aten.amax(-x, [dim], keepdim), aten.argmin(x, dim, keepdim)


@entry(aten.cumsum.default)
def cumsum(x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Partial sums: a product with a triangle of ones."""
    x = _as(x, dtype)
    if x.dim() == 0:
        return x
    last = torch.movedim(x, dim, -1)
    n = last.shape[-1]
    index = torch.arange(n)
    triangle = (index.unsqueeze(0) >= index.unsqueeze(1)).to(x.dtype)
    rows = aten.mm(last.reshape(-1, n), triangle)
    return torch.movedim(rows.reshape(last.shape), -1, dim)


@entry(aten.logsumexp.default)
def logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Any:
    """Largest entry less the logarithm of its softmax weight, which is relatively exact."""
    over = dimensions(x, dim)
    if len(over) != 1:
        return NotImplemented
    weight = aten.amax(torch.softmax(x, over[0]), over, keepdim)
    return aten.amax(x, over, keepdim) - torch.log(weight)


@entry(aten._trilinear.default)
def trilinear(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Tensor:
    """The product of three tensors with dimensions of length 1 put in, summed."""
    spread = []
    for tensor, new in ((a, expand1), (b, expand2), (c, expand3)):
        for dim in new:
            tensor = tensor.unsqueeze(dim)
        spread.append(tensor)
    return aten.sum.dim_IntList(spread[0] * spread[1] * spread[2], list(sumdim))


@entry(aten.any.default)
def any_entry(x: Tensor) -> Tensor:
    """Whether any flag is up."""
    return _any(x, every(x), keepdim=False)


@entry(aten.any.dim)
def any_along(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Whether any flag is up along a dimension."""
    return _any(x, [dim], keepdim=keepdim)


@entry(aten.all.default)
def all_entries(x: Tensor) -> Tensor:
    """Whether all flags are up."""
    return aten.bitwise_not(_any(aten.bitwise_not(x), every(x), keepdim=False))


def _any(x: Tensor, dim: list[int], *, keepdim: bool) -> Any:
    if x.dtype != torch.bool:
        return NotImplemented
    count = aten.sum.dim_IntList(x.to(torch.float64), dim, keepdim)
    return aten.gt.Tensor(count, constant(count, 0.5))
