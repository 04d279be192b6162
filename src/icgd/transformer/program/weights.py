"""Weights in whatever shape a codec decodes them to: a tensor, or lists and tuples of such."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from icgd.errors import AssumptionViolated


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


def refuse_overflow(construction: str, name: str, values: Any, remedy: str) -> None:
    """Numbers that are none are refused by every executor alike, whatever its heads were asked."""
    bad = [t for t in tensors_in(values) if not bool(t.isfinite().all())]
    if bad:
        first = float(bad[0][~bad[0].isfinite()][0])
        raise AssumptionViolated(
            f"The {name} of this {construction} program hold {first}. {remedy} "
            "watch=False returns such numbers."
        )
