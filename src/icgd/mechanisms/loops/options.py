"""What the compilers of looped transformers may be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ProductOptions:
    """How a loop multiplies; None: chosen by the compiler.

    mode         "spectral" (exact to rounding), or softmax heads in their linear range: two ("sym", "printed"),
                 or four ("four")
    sink, scale  C and c of the linear range, chosen from the problem's radius unless given
    n_grid       grid tokens of "spectral" (32)
    """

    mode: Literal["spectral", "sym", "four", "printed"] | None = None
    sink: float | None = None
    scale: float | None = None
    n_grid: int | None = None


@dataclass(frozen=True, kw_only=True)
class DecoderOptions(ProductOptions):
    """The same for a decoder, in which every token sees only tokens before it; see ProductOptions."""


@dataclass(frozen=True, kw_only=True)
class LinearAttentionOptions:
    """Linear attention has nothing to choose."""
