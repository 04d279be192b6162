"""Softmax and its logarithm: the weights of a head are relatively exact, so their logarithm is too."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.decompose.registry import entry

aten = torch.ops.aten


@entry(aten._log_softmax.default)
def log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """log(softmax(x))."""
    return torch.log(aten._softmax(x, dim, False))


@entry(aten._log_softmax_backward_data.default)
def log_softmax_backward(g: Tensor, out: Tensor, dim: int, dtype: Any) -> Tensor:
    """g - softmax sum(g)."""
    return g - torch.exp(out) * aten.sum.dim_IntList(g, [dim], True)


@entry(aten._softmax_backward_data.default)
def softmax_backward(g: Tensor, out: Tensor, dim: int, dtype: Any) -> Tensor:
    """w - out sum(w) with w = g out."""
    weighted = g * out
    return weighted - out * aten.sum.dim_IntList(weighted, [dim], True)


@entry(aten._safe_softmax.default)
def safe_softmax(x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """The plain one: rows that are masked entirely are refused by the range of the head."""
    return aten._softmax(x, dim, False)
