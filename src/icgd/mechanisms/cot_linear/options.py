"""What the compiler of linear models may be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class LinearModelOptions:
    """Options for linear models; None: chosen by the compiler.

    temperature    "spectral" (exact to machine precision) or "hard" (the paper's nearest grid token)
    n_grid         grid tokens per head: 32 for squares, more for fitted functions
    rho, margin    kernel width in grid spacings, and distance in widths from the range to the grid's end
    radius         certified range |s| <= radius of every number a head reads
    head_error     refuse to compile unless the head of the loss is certified to this error
    target_radius  range of targets, where a head reads them
    native         False: sigmoid and exp by a fitted grid instead of their two-token heads
    """

    temperature: Literal["spectral", "hard"] | None = None
    n_grid: int | None = None
    rho: float | None = None
    margin: float | None = None
    radius: float | None = None
    head_error: float | None = None
    target_radius: float | None = None
    native: bool | None = None
