"""Looking up and scattering by whole numbers that are data: one-hot rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.decompose.registry import entry

aten = torch.ops.aten


def one_hot(index: Tensor, n: int, dtype: torch.dtype) -> Tensor:
    """A row of 0 and a 1 for every index."""
    classes = torch.arange(n, dtype=index.dtype)
    return aten.eq.Tensor(index.unsqueeze(-1), classes).to(dtype)


@entry(aten.embedding_dense_backward.default)
def embedding_backward(g: Tensor, index: Tensor, n: int, padding: int, scale: bool) -> Any:
    """What arrives at each row of the table."""
    if scale:
        return NotImplemented
    hot = one_hot(index.reshape(-1), n, g.dtype)
    if 0 <= padding < n:
        hot = hot * (torch.arange(n) != padding).to(g.dtype)
    return aten.mm(aten.permute(hot, [1, 0]), g.reshape(-1, g.shape[-1]))


@entry(aten.index_select.default)
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Slices by number."""
    if x.dim() == 0:
        return x
    first = torch.movedim(x, dim, 0)
    rows = aten.embedding(first.reshape(first.shape[0], -1), index)
    return torch.movedim(rows.reshape(index.numel(), *first.shape[1:]), 0, dim)


@entry(aten.index.Tensor)
def index(x: Tensor, indices: list[Tensor | None]) -> Any:
    """x[i] by one index: slices by number. Several, and flags, must be constant."""
    there = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(there) != 1 or there[0][1].dtype == torch.bool:
        return NotImplemented
    dim, numbers = there[0]
    first = torch.movedim(x, dim, 0)
    rows = aten.embedding(first.reshape(first.shape[0], -1), numbers.reshape(-1))
    picked = rows.reshape(*numbers.shape, *first.shape[1:])
    if dim == 0:
        return picked
    k = numbers.dim()
    return torch.movedim(picked, list(range(k)), list(range(dim, dim + k)))


@entry(aten.index_put.default)
def index_put(
    x: Tensor, indices: list[Tensor | None], value: Tensor, accumulate: bool = False
) -> Any:
    """Writes where flags are up, and adds by indices."""
    given = indices[0]
    if given is not None and given.dtype == torch.bool:
        if len(indices) != 1 or given.shape != x.shape or value.numel() != 1 or accumulate:
            return NotImplemented
        return torch.where(given, value.reshape(()).to(x.dtype), x)
    there = [(d, i) for d, i in enumerate(indices) if i is not None]
    first = there[0][0]
    if not accumulate or [d for d, _ in there] != list(range(first, first + len(there))):
        return NotImplemented
    return _added(x, [i for _, i in there], first, value)


def _added(x: Tensor, indices: list[Tensor], dim: int, value: Tensor) -> Tensor:
    """x with values added at places that follow one another from a dimension on."""
    count = len(indices)
    places, size = indices[0], 1
    for index, length in zip(indices, x.shape[dim : dim + count], strict=True):
        places = index if size == 1 else places * length + index
        size *= length
    before, after = list(x.shape[:dim]), list(x.shape[dim + count :])
    spread = value.expand([*before, *places.shape, *after])
    front = list(range(dim, dim + places.dim()))
    rows = torch.movedim(spread, front, list(range(len(front)))).reshape(places.numel(), -1)
    hot = one_hot(places.reshape(-1), size, x.dtype)
    added = aten.mm(aten.permute(hot, [1, 0]), rows).reshape([size, *before, *after])
    return x + torch.movedim(added, 0, dim).reshape(x.shape)


@entry(aten.scatter.src, aten.scatter.value)
def scatter(x: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    """Writes one entry per row."""
    if x.dim() == 0:
        return NotImplemented
    dim = dim % x.dim()
    others = [s for d, s in enumerate(index.shape) if d != dim]
    if index.shape[dim] != 1 or others != [s for d, s in enumerate(x.shape) if d != dim]:
        return NotImplemented
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    places = torch.arange(x.shape[dim], dtype=index.dtype).reshape(shape)
    if isinstance(value, Tensor):
        value = value[tuple(slice(0, s) for s in index.shape)]
    else:
        value = torch.full((), value, dtype=x.dtype)
    return torch.where(aten.eq.Tensor(index, places), value, x)


@entry(aten.scatter_add.default)
def scatter_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """Adds along a dimension by index: one-hot rows, summed."""
    if x.dim() == 0 or [s for d, s in enumerate(index.shape) if d != dim % x.dim()] != [
        s for d, s in enumerate(x.shape) if d != dim % x.dim()
    ]:
        return NotImplemented
    last = torch.movedim(index, dim, -1)
    hot = one_hot(last, x.shape[dim], x.dtype)
    source = source[tuple(slice(0, s) for s in index.shape)]
    spread = hot * torch.movedim(source, dim, -1).unsqueeze(-1)
    added = aten.sum.dim_IntList(spread, [spread.dim() - 2])
    return x + torch.movedim(added, -1, dim)
