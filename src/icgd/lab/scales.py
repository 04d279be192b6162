"""Scales at which experiments run, for checks that must not load PyTorch first."""

from __future__ import annotations

from typing import Literal, get_args

from icgd.errors import InvalidParameter

Scale = Literal["smoke", "laptop", "overnight", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)


def check_scale(scale: str) -> None:
    """Complain about a scale there is not."""
    if scale not in SCALES:
        raise InvalidParameter("--scale", scale, f"be one of {', '.join(SCALES)}")
