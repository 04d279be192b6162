"""Every layout by view, permute, expand, slice, cat, pad and flip."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.decompose.registry import dimensions, entry

aten = torch.ops.aten


@entry(aten._unsafe_view.default, aten.reshape.default, aten._reshape_alias.default)
def reshape(x: Tensor, size: list[int], *strides: Any) -> Tensor:
    """A view of what lies in order."""
    return aten.view(
        x if x.is_contiguous() else aten.clone(x, memory_format=torch.contiguous_format), size
    )


@entry(aten.view.default)
def view(x: Tensor, size: list[int]) -> Any:
    """A view; what does not lie in order is laid out anew."""
    return NotImplemented if x.is_contiguous() else reshape(x, size)


@entry(aten.squeeze.default)
def squeeze(x: Tensor) -> Tensor:
    """Without dimensions of length 1."""
    return reshape(x, [s for s in x.shape if s != 1])


@entry(aten.squeeze.dims, aten.squeeze.dim)
def squeeze_some(x: Tensor, dim: Any) -> Tensor:
    """Without these dimensions, where they have length 1."""
    wanted = [dim] if isinstance(dim, int) else list(dim)
    drop = {d % x.dim() for d in wanted} if x.dim() else set()
    return reshape(x, [s for d, s in enumerate(x.shape) if d not in drop or s != 1])


@entry(aten.unsqueeze.default)
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """With one more dimension of length 1."""
    size = list(x.shape)
    size.insert(dim if dim >= 0 else dim + x.dim() + 1, 1)
    return reshape(x, size)


@entry(aten.t.default)
def t(x: Tensor) -> Tensor:
    """Rows and columns exchanged."""
    return aten.permute(x, list(range(x.dim()))[::-1])


@entry(aten.transpose.int)
def transpose(x: Tensor, first: int, second: int) -> Tensor:
    """Two dimensions exchanged."""
    order = list(range(x.dim()))
    if order:
        order[first], order[second] = order[second], order[first]
    return aten.permute(x, order)


@entry(aten.select.int)
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """One slice."""
    dim, index = dim % x.dim(), index % x.shape[dim]
    one = aten.slice.Tensor(x, dim, index, index + 1)
    return reshape(one, [s for d, s in enumerate(x.shape) if d != dim])


@entry(aten.stack.default)
def stack(tensors: list[Tensor], dim: int = 0) -> Tensor:
    """Beside each other in a new dimension."""
    return aten.cat([unsqueeze(x, dim) for x in tensors], dim)


@entry(aten.split.Tensor)
def split(x: Tensor, size: int, dim: int = 0) -> list[Tensor]:
    """Pieces of one length."""
    n = x.shape[dim]
    return [aten.slice.Tensor(x, dim, at, min(at + size, n)) for at in range(0, n, size)]


@entry(aten.split_with_sizes.default)
def split_with_sizes(x: Tensor, sizes: list[int], dim: int = 0) -> list[Tensor]:
    """Pieces of these lengths."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(aten.slice.Tensor(x, dim, at, at + size))
        at += size
    return pieces


@entry(aten.unbind.int)
def unbind(x: Tensor, dim: int = 0) -> list[Tensor]:
    """All slices."""
    return [select(x, dim, index) for index in range(x.shape[dim])]


@entry(aten.repeat.default)
def repeat(x: Tensor, times: list[int]) -> Tensor:
    """Copies beside each other along every dimension."""
    x = reshape(x, [1] * (len(times) - x.dim()) + list(x.shape))
    for dim, count in enumerate(times):
        if count != 1:
            x = aten.cat([x] * count, dim)
    return x


@entry(aten.roll.default)
def roll(x: Tensor, shifts: list[int], dims: Any = ()) -> Tensor:
    """Turned round along dimensions."""
    if not dims:
        return reshape(roll(reshape(x, [-1]), shifts, [0]), list(x.shape))
    for shift, dim in zip(shifts, dims, strict=True):
        n = x.shape[dim]
        cut = (-shift) % n if n else 0
        if cut:
            x = aten.cat(
                [aten.slice.Tensor(x, dim, cut, n), aten.slice.Tensor(x, dim, 0, cut)], dim
            )
    return x


def padded(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    """Zeros before and after along one dimension."""
    if not before and not after:
        return x
    widths = [0, 0] * (x.dim() - 1 - dim) + [before, after]
    return aten.constant_pad_nd(x, widths, 0.0)


@entry(aten.select_backward.default)
def select_backward(g: Tensor, sizes: list[int], dim: int, index: int) -> Tensor:
    """A slice back in its place."""
    dim = dim % len(sizes)
    index = index % sizes[dim]
    return padded(unsqueeze(g, dim), dim, index, sizes[dim] - index - 1)


@entry(aten.slice_backward.default)
def slice_backward(
    g: Tensor, sizes: list[int], dim: int, start: int, end: int, step: int
) -> Tensor:
    """Slices back in their places, zeros between them."""
    dim = dim % len(sizes)
    n, count = sizes[dim], g.shape[dim]
    start = min(max(start + n if start < 0 else start, 0), n)
    if count == 0:
        return torch.zeros(sizes, dtype=g.dtype)
    if step > 1:
        apart = padded(unsqueeze(g, dim + 1), dim + 1, 0, step - 1)
        shape = list(g.shape)
        shape[dim] = count * step
        g = aten.slice.Tensor(reshape(apart, shape), dim, 0, (count - 1) * step + 1)
    return padded(g, dim, start, n - start - g.shape[dim])


@entry(aten.slice_scatter.default)
def slice_scatter(
    x: Tensor, source: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """x with a run of slices replaced."""
    dim, n = dim % x.dim(), x.shape[dim]
    begin, stop, _ = slice(start, end).indices(n)
    if step != 1:
        apart = slice_backward(source, list(x.shape), dim, begin, stop, step)
        place = torch.arange(n).reshape([-1] + [1] * (x.dim() - 1 - dim))
        inside = (place >= begin) & (place < stop) & ((place - begin) % step == 0)
        return torch.where(inside, apart, x)
    pieces = [aten.slice.Tensor(x, dim, 0, begin), source, aten.slice.Tensor(x, dim, stop, n)]
    kept = [piece for piece in pieces if piece.shape[dim]]
    return kept[0] if len(kept) == 1 else aten.cat(kept, dim)


@entry(aten.select_scatter.default)
def select_scatter(x: Tensor, source: Tensor, dim: int, index: int) -> Tensor:
    """x with one slice replaced."""
    dim, index = dim % x.dim(), index % x.shape[dim % x.dim()]
    return slice_scatter(x, unsqueeze(source, dim), dim, index, index + 1)


@entry(aten.diagonal.default)
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal: every (columns + 1)-th entry of the rows laid end to end."""
    last = torch.movedim(x, (dim1, dim2), (-2, -1))
    rows, columns = last.shape[-2:]
    length = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    if length <= 0:
        return NotImplemented
    first = offset if offset >= 0 else -offset * columns
    flat = reshape(last, [*last.shape[:-2], rows * columns])
    end = first + (length - 1) * (columns + 1) + 1
    return aten.slice.Tensor(flat, flat.dim() - 1, first, end, columns + 1)


@entry(aten.diagonal_backward.default)
def diagonal_backward(g: Tensor, sizes: list[int], offset: int, dim1: int, dim2: int) -> Any:
    """A diagonal back in its place."""
    if len(sizes) != 2 or (dim1 % 2, dim2 % 2) != (0, 1):
        return NotImplemented
    columns = sizes[1]
    first = offset if offset >= 0 else -offset * columns
    end = first + (g.shape[0] - 1) * (columns + 1) + 1
    flat = slice_backward(g, [sizes[0] * columns], 0, first, end, columns + 1)
    return reshape(flat, sizes)


@entry(aten.tril.default)
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle."""
    return _triangle(x, lambda row, column: column <= row + diagonal)


@entry(aten.triu.default)
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle."""
    return _triangle(x, lambda row, column: column >= row + diagonal)


def _triangle(x: Tensor, inside: Any) -> Tensor:
    row = torch.arange(x.shape[-2]).reshape(-1, 1)
    column = torch.arange(x.shape[-1]).reshape(1, -1)
    return torch.where(inside(row, column), x, torch.zeros((), dtype=x.dtype))


@entry(aten.copy.default)
def copy(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """The source in the place of x."""
    return aten.expand(source.to(x.dtype), list(x.shape))


@entry(aten.fill.Scalar, aten.fill.Tensor)
def fill(x: Tensor, value: Any) -> Tensor:
    """One number everywhere."""
    if isinstance(value, Tensor):
        return aten.expand(value.to(x.dtype), list(x.shape))
    return torch.full(list(x.shape), value, dtype=x.dtype)


@entry(aten.zero.default)
def zeros(x: Tensor) -> Tensor:
    """0 everywhere."""
    return torch.zeros_like(x)


@entry(aten.sum_to_size.default)
def sum_to_size(x: Tensor, size: list[int]) -> Tensor:
    """Summed over what was spread."""
    lead = x.dim() - len(size)
    over = [
        *range(lead),
        *(lead + d for d, s in enumerate(size) if s == 1 and x.shape[lead + d] != 1),
    ]
    return reshape(aten.sum.dim_IntList(x, dimensions(x, over), True), size) if over else x
