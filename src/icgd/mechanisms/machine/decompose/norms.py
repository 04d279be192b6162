"""Layer, group and weight norms: means, a reciprocal root, products."""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.mechanisms.machine.decompose.reductions import var_mean
from icgd.mechanisms.machine.decompose.registry import entry, n_entries

aten = torch.ops.aten


def standardised(x: Tensor, dim: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + eps) over dimensions, the mean, and the reciprocal root."""
    variance, middle = var_mean(x, dim, correction=0, keepdim=True)
    scale = torch.rsqrt(variance + eps)
    return (x - middle) * scale, middle, scale


def standardised_backward(g: Tensor, h: Tensor, scale: Tensor, dim: list[int]) -> Tensor:
    """What arrives at x: g without its mean and its part along the result h, times the scale."""
    share = 1.0 / n_entries(h, dim)
    middle = aten.sum.dim_IntList(g, dim, True) * share
    along = aten.sum.dim_IntList(g * h, dim, True) * share
    return (g - middle - h * along) * scale


@entry(aten.native_layer_norm.default)
def layer_norm(
    x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Over the last dimensions."""
    dim = list(range(x.dim() - len(shape), x.dim()))
    y, middle, scale = standardised(x, dim, eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, middle, scale


@entry(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    g: Tensor,
    x: Tensor,
    shape: list[int],
    middle: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mask: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """What arrives at x, weight and bias."""
    first = x.dim() - len(shape)
    dim, others = list(range(first, x.dim())), list(range(first))
    h = (x - middle) * scale
    inner = g if weight is None else g * weight
    at_x = standardised_backward(inner, h, scale, dim) if mask[0] else None
    at_weight = _summed(g * h, others) if mask[1] and weight is not None else None
    return at_x, at_weight, _summed(g, others) if mask[2] and bias is not None else None


def _summed(x: Tensor, dim: list[int]) -> Tensor:
    return aten.sum.dim_IntList(x, dim) if dim else x


@entry(aten.native_group_norm.default)
def group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: int,
    channels: int,
    places: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Over groups of channels."""
    h, middle, scale = standardised(x.reshape(n, groups, -1), [2], eps)
    y, along = h.reshape(x.shape), _along_channels(x)
    y = y if weight is None else y * weight.reshape(along)
    y = y if bias is None else y + bias.reshape(along)
    return y, middle.reshape(n, groups), scale.reshape(n, groups)


def _along_channels(x: Tensor) -> list[int]:
    return [1, x.shape[1]] + [1] * (x.dim() - 2)


@entry(aten.native_group_norm_backward.default)
def group_norm_backward(
    g: Tensor,
    x: Tensor,
    middle: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    n: int,
    channels: int,
    places: int,
    groups: int,
    mask: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """What arrives at x, weight and bias."""
    spread = scale.reshape(n, groups, 1)
    h = (x.reshape(n, groups, -1) - middle.reshape(n, groups, 1)) * spread
    inner = g if weight is None else g * weight.reshape(_along_channels(x))
    others = [0, *range(2, x.dim())]
    at_x = None
    if mask[0]:
        at_x = standardised_backward(inner.reshape(h.shape), h, spread, [2]).reshape(x.shape)
    at_weight = _summed(g * h.reshape(x.shape), others) if mask[1] else None
    return at_x, at_weight, _summed(g, others) if mask[2] else None


@entry(aten._weight_norm_interface.default)
def weight_norm(v: Tensor, size: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """v times size over its norm."""
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    norm = torch.sqrt(aten.sum.dim_IntList(v * v, others, True))
    return v * (size / norm), norm


@entry(aten._weight_norm_interface_backward.default)
def weight_norm_backward(
    g: Tensor, v: Tensor, size: Tensor, norm: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """What arrives at v and at the size."""
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    along = aten.sum.dim_IntList(g * v, others, True)
    return (g - v * (along / (norm * norm))) * (size / norm), along / norm
