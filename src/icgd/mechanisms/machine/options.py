"""What the compiler of the machine may be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """Options of programs for the machine; None: chosen by the compiler.

    heads      "fixed": products read numbers up to `radius`; "float": of any size, with a relative error
    radius     largest number a product reads with heads="fixed" (64)
    exponents  (lo, hi): heads="float", roots, logarithms and reciprocals take numbers in 2**lo .. 2**hi
    powers     (lo, hi): exp gives results of 2**lo .. 2**hi
    turns      sin and cos take angles up to so many times pi
    margin     distance, in widths of the kernel, from the range to the end of the grid of heads that
               multiply: 8.25 makes them exact to rounding, 3 visibly wrong
    kernels    how the fast executor evaluates heads: "cpp", "torch", or "auto" (C++ where there is a compiler)
    """

    heads: Literal["fixed", "float"] | None = None
    radius: float | None = None
    exponents: tuple[int, int] | None = None
    powers: tuple[int, int] | None = None
    turns: int | None = None
    margin: float | None = None
    kernels: Literal["auto", "cpp", "torch"] | None = None
