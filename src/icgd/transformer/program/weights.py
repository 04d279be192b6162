"""Weights in whatever shape a codec decodes them to: a tensor, or lists and tuples of such."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def tensors_in(values: Any) -> list[Tensor]:
    """All tensors in whatever shape a codec decodes weights to."""
    if isinstance(values, (list, tuple)):
        return [tensor for part in values for tensor in tensors_in(part)]
    return [values] if isinstance(values, Tensor) else []


def copied(weights: Any) -> Any:
    """A copy of weights in whatever shape a codec decodes them to."""
    if isinstance(weights, Tensor):
        return weights.clone()
    if isinstance(weights, (list, tuple)):
        return type(weights)(copied(part) for part in weights)
    return weights
