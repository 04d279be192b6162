"""Convolution and pooling: windows laid out as rows, and one product."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.decompose.registry import entry

aten = torch.ops.aten
Sizes = list[int]


def pair(sizes: Any) -> Sizes:
    """One number per dimension of a picture."""
    listed = [sizes] if isinstance(sizes, int) else list(sizes)
    return listed * 2 if len(listed) == 1 else listed


def n_windows(length: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How often a window fits.

    >>> n_windows(8, 3, 2, 1, 1)
    4
    """
    return (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


# -- convolution ----------------------------------------------------------------------------------


def _as_picture(x: Tensor) -> Tensor:
    """Rows as pictures of height 1."""
    return x.unsqueeze(2) if x.dim() == 3 else x


def _geometry(
    x: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes
) -> tuple[Sizes, Sizes, Sizes]:
    """Stride, padding and dilation of a picture."""
    if x.dim() == 4:
        return pair(stride), pair(padding), pair(dilation)
    return [1, stride[0]], [0, padding[0]], [1, dilation[0]]


@entry(aten.convolution.default)
def convolution(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Any:
    """The taps times the patches, one product per group."""
    if transposed or x.dim() not in (3, 4):
        return NotImplemented
    stride, padding, dilation = _geometry(x, stride, padding, dilation)
    flat, x, w = x.dim() == 3, _as_picture(x), _as_picture(w)
    n, _, height, width = x.shape
    out, _, kh, kw = w.shape
    rows = n_windows(height, kh, stride[0], padding[0], dilation[0])
    columns = n_windows(width, kw, stride[1], padding[1], dilation[1])
    patches = _patches(x, w, groups, stride, padding, dilation)
    taps = w.reshape(groups, out // groups, -1)
    y = aten.bmm(taps, patches).reshape(out, n, rows, columns).permute(1, 0, 2, 3)
    y = y if bias is None else y + bias.reshape(1, -1, 1, 1)
    return y.squeeze(2) if flat else y


def _patches(
    x: Tensor, w: Tensor, groups: int, stride: Sizes, padding: Sizes, dilation: Sizes
) -> Tensor:
    """(groups, channels * taps, examples * windows)."""
    taps = w.shape[1] * w.shape[2] * w.shape[3]
    laid_out = aten.im2col(x, list(w.shape[2:]), dilation, padding, stride)
    split = laid_out.reshape(x.shape[0], groups, taps, -1)
    return split.permute(1, 2, 0, 3).reshape(groups, taps, -1)


@entry(aten.convolution_backward.default)
def convolution_backward(
    g: Tensor,
    x: Tensor,
    w: Tensor,
    bias_sizes: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    mask: list[bool],
) -> Any:
    """What arrives at x, taps and bias."""
    if transposed or x.dim() not in (3, 4):
        return NotImplemented
    stride, padding, dilation = _geometry(x, stride, padding, dilation)
    x_shape, w_shape = x.shape, w.shape
    x, w, g = _as_picture(x), _as_picture(w), _as_picture(g)
    n, _, height, width = x.shape
    kernel, taps = list(w.shape[2:]), w.shape[1] * w.shape[2] * w.shape[3]
    arriving = g.permute(1, 0, 2, 3).reshape(groups, w.shape[0] // groups, -1)
    at_x = at_w = at_bias = None
    if mask[0]:
        spread = aten.bmm(w.reshape(groups, -1, taps).transpose(1, 2), arriving)
        spread = spread.reshape(groups, taps, n, -1).permute(2, 0, 1, 3)
        spread = spread.reshape(n, groups * taps, -1)
        at_x = aten.col2im(spread, [height, width], kernel, dilation, padding, stride)
        at_x = at_x.reshape(x_shape)
    if mask[1]:
        patches = _patches(x, w, groups, stride, padding, dilation)
        at_w = aten.bmm(arriving, patches.transpose(1, 2)).reshape(w_shape)
    if mask[2]:
        at_bias = aten.sum.dim_IntList(g, [0, 2, 3])
    return at_x, at_w, at_bias


# -- pooling --------------------------------------------------------------------------------------

LOWEST = -1e30
"""Padding of a maximum: below every number of the machine, and a number."""


def _taps(x: Tensor, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> list[Tensor]:
    """For each place of the window, what all windows hold there."""
    if any(padding):
        widths = [padding[1], padding[1], padding[0], padding[0]]
        x = aten.constant_pad_nd(x, widths, LOWEST)
    rows = n_windows(x.shape[2], kernel[0], stride[0], 0, dilation[0])
    columns = n_windows(x.shape[3], kernel[1], stride[1], 0, dilation[1])
    taps = []
    for i, j in product(range(kernel[0]), range(kernel[1])):
        top, left = i * dilation[0], j * dilation[1]
        bottom = top + (rows - 1) * stride[0] + 1
        right = left + (columns - 1) * stride[1] + 1
        taps.append(x[:, :, top : bottom : stride[0], left : right : stride[1]])
    return taps


def _tournament(taps: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """The largest, and for every tap but the first whether it beat all before it: the first of equals stays."""
    best, flags = taps[0], []
    for tap in taps[1:]:
        flags.append(tap > best)
        best = torch.where(flags[-1], tap, best)
    return best, flags


def _settings(kernel: Any, stride: Any, padding: Any, dilation: Any) -> tuple[Sizes, ...]:
    kernel = pair(kernel)
    return kernel, pair(stride) if stride else kernel, pair(padding), pair(dilation)


@entry(aten.max_pool2d_with_indices.default)
def max_pool(
    x: Tensor,
    kernel: Any,
    stride: Any = (),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    ceil: bool = False,
) -> Any:
    """The largest of every window; the flags of who won are found again in the backward pass."""
    if ceil or x.dim() != 4:
        return NotImplemented
    best, _ = _tournament(_taps(x, *_settings(kernel, stride, padding, dilation)))
    return best, torch.zeros_like(best, dtype=torch.int64)


@entry(aten.max_pool2d_with_indices_backward.default)
def max_pool_backward(
    g: Tensor,
    x: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
    indices: Tensor,
) -> Any:
    """To the winner of every window: the last tap that beat all before it."""
    if ceil or x.dim() != 4:
        return NotImplemented
    kernel, stride, padding, dilation = _settings(kernel, stride, padding, dilation)
    _, flags = _tournament(_taps(x, kernel, stride, padding, dilation))
    parts: list[Tensor] = []
    nothing = torch.zeros((), dtype=g.dtype)
    open_still: Tensor | None = None
    for flag in reversed(flags):
        won = flag if open_still is None else flag & open_still
        parts.append(torch.where(won, g, nothing))
        lost = aten.bitwise_not(flag)
        open_still = lost if open_still is None else lost & open_still
    parts.append(g if open_still is None else torch.where(open_still, g, nothing))
    n, channels = x.shape[:2]
    spread = torch.stack(parts[::-1], 2).reshape(n, channels * len(parts), -1)
    return aten.col2im(spread, list(x.shape[2:]), kernel, dilation, padding, stride)


@entry(aten.avg_pool2d.default)
def avg_pool(
    x: Tensor,
    kernel: Any,
    stride: Any = (),
    padding: Any = (0, 0),
    ceil: bool = False,
    count_padding: bool = True,
    divisor: int | None = None,
) -> Any:
    """The mean of every window."""
    kernel, stride, padding, _ = _settings(kernel, stride, padding, 1)
    if ceil or x.dim() != 4 or (any(padding) and not count_padding):
        return NotImplemented
    n, channels, height, _ = x.shape
    size = kernel[0] * kernel[1]
    rows = n_windows(height, kernel[0], stride[0], padding[0], 1)
    windows = aten.im2col(x, kernel, [1, 1], padding, stride).reshape(n, channels, size, rows, -1)
    return aten.sum.dim_IntList(windows, [2]) * (1.0 / (divisor or size))


@entry(aten.avg_pool2d_backward.default)
def avg_pool_backward(
    g: Tensor,
    x: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    count_padding: bool,
    divisor: int | None,
) -> Any:
    """An equal share to every tap."""
    kernel, stride, padding, _ = _settings(kernel, stride, padding, 1)
    if ceil or x.dim() != 4 or (any(padding) and not count_padding):
        return NotImplemented
    n, channels = x.shape[:2]
    size = kernel[0] * kernel[1]
    share = (g * (1.0 / (divisor or size))).reshape(n, channels, 1, -1)
    spread = share.expand(n, channels, size, share.shape[-1]).reshape(n, channels * size, -1)
    return aten.col2im(spread, list(x.shape[2:]), kernel, [1, 1], padding, stride)
