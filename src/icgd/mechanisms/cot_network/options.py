"""What the compiler of the chain of thought may be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class CotOptions:
    """Options of method="cot"; None: chosen by the compiler.

    temperature  "spectral" (exact to machine precision) or "hard" (the paper's nearest grid token)
    n_grid       grid tokens per head (32)
    rho, margin  kernel width in grid spacings, and distance in widths from the range to the grid's end
    radius       certified range |s| <= radius of every number a head reads: 1024 in float64, 128 in float32
                 (`Network.radius_for` gives a provable one)
    head_error   refuse to compile unless one head is certified to this error
    """

    temperature: Literal["spectral", "hard"] | None = None
    n_grid: int | None = None
    rho: float | None = None
    margin: float | None = None
    radius: float | None = None
    head_error: float | None = None
