"""Losses whose formula PyTorch keeps in one operation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.decompose.activations import log1p_exp_of_minus_size
from icgd.mechanisms.machine.decompose.indexing import one_hot
from icgd.mechanisms.machine.decompose.registry import entry, every

aten = torch.ops.aten
NONE, MEAN = 0, 1
"""PyTorch's numbers of reductions; 2 is the sum."""


def reduced(x: Tensor, reduction: int) -> Tensor:
    """The entries, their mean, or their sum."""
    if reduction == NONE:
        return x
    total = aten.sum.dim_IntList(x, every(x))
    return total * (1.0 / x.numel()) if reduction == MEAN else total


@entry(aten.mse_loss.default)
def mse_loss(x: Tensor, y: Tensor, reduction: int = MEAN) -> Tensor:
    """(x - y)^2."""
    difference = x - y
    return reduced(difference * difference, reduction)


@entry(aten.mse_loss_backward.default)
def mse_loss_backward(g: Tensor, x: Tensor, y: Tensor, reduction: int) -> Tensor:
    """2 (x - y)."""
    factor = 2.0 / x.numel() if reduction == MEAN else 2.0
    return (x - y) * factor * g


@entry(aten.binary_cross_entropy_with_logits.default)
def bce_with_logits(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = MEAN,
) -> Tensor:
    """(1 - y) x + (1 + (pos_weight - 1) y) (log(1 + exp(-|x|)) + relu(-x)), weighted."""
    if pos_weight is None:
        loss = torch.relu(x) - x * y + log1p_exp_of_minus_size(x)
    else:
        logarithm = log1p_exp_of_minus_size(x) + torch.relu(-x)
        loss = (1 - y) * x + ((pos_weight - 1) * y + 1) * logarithm
    return reduced(loss if weight is None else loss * weight, reduction)


# -- negative log-likelihood of class indices -----------------------------------------------------


@entry(aten.nll_loss_forward.default)
def nll_forward(
    x: Tensor, y: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Any:
    """-x[y], weighted; and the sum of the weights."""
    rows, labels = _rows(x), y.reshape(-1)
    share = _share(rows, labels, weight, ignore_index)
    picked = aten.neg(aten.gather(rows, 1, labels.reshape(-1, 1)).reshape(-1))
    if share is None:
        total = torch.full((), float(rows.shape[0]), dtype=x.dtype)
        return _nll_reduced(picked, reduction, 1.0 / rows.shape[0], y), total
    total = aten.sum.dim_IntList(share, [0])
    weighted = picked * share
    if reduction == MEAN:
        return aten.sum.dim_IntList(weighted, [0]) / total, total
    return _nll_reduced(weighted, reduction, 1.0, y), total


def _nll_reduced(picked: Tensor, reduction: int, factor: float, y: Tensor) -> Tensor:
    if reduction == NONE:
        return picked.reshape(y.shape)
    total = aten.sum.dim_IntList(picked, [0])
    return total * factor if reduction == MEAN else total


def _rows(x: Tensor) -> Tensor:
    return x if x.dim() == 2 else x.reshape(1, -1)


def _share(rows: Tensor, labels: Tensor, weight: Tensor | None, ignore_index: int) -> Tensor | None:
    """The weight of each example; None if it is 1 everywhere.

    An `ignore_index` that is no class (PyTorch's own choice is -100) must not occur: looking it up is refused.
    """
    ignoring = 0 <= ignore_index < rows.shape[1]
    share = None
    if weight is not None:
        table = weight.reshape(1, -1).expand(rows.shape[0], rows.shape[1])
        share = aten.gather(table, 1, labels.reshape(-1, 1)).reshape(-1)
    if ignoring:
        counted = aten.bitwise_not(aten.eq.Tensor(labels, torch.full((), ignore_index)))
        counted = counted.to(rows.dtype)
        share = counted if share is None else share * counted
    return share


@entry(aten.nll_loss_backward.default)
def nll_backward(
    g: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total: Tensor,
) -> Tensor:
    """-g at the label, 0 elsewhere."""
    rows, labels = _rows(x), y.reshape(-1)
    hot = one_hot(labels, rows.shape[1], x.dtype)
    share = _share(rows, labels, weight, ignore_index)
    factor = aten.neg(g)
    if reduction == MEAN:
        factor = factor * (1.0 / rows.shape[0]) if share is None else factor / total
    if share is not None:
        factor = factor * share
    if factor.dim() == 1:
        factor = factor.reshape(-1, 1)
    return (hot * factor).reshape(x.shape)


@entry(aten.nll_loss2d_forward.default)
def nll2d_forward(
    x: Tensor, y: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Any:
    """The same for one label per place: classes in dimension 1."""
    rows = x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])
    value, total = nll_forward(rows, y.reshape(-1), weight, reduction, ignore_index)
    return value.reshape(y.shape) if reduction == NONE else value, total


@entry(aten.nll_loss2d_backward.default)
def nll2d_backward(
    g: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total: Tensor,
) -> Tensor:
    """Its derivative."""
    n, classes, height, width = x.shape
    rows = x.permute(0, 2, 3, 1).reshape(-1, classes)
    each = g.reshape(-1) if reduction == NONE else g
    flat = nll_backward(each, rows, y.reshape(-1), weight, reduction, ignore_index, total)
    return flat.reshape(n, height, width, classes).permute(0, 3, 1, 2)
