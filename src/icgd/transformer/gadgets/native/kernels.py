"""The operations icgd_heads::read and icgd_heads::function, if they can be had here."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.transformer.gadgets.native.library import CannotBuild, load_library

SOURCE = Path(__file__).with_name("heads.cpp")
KINDS = ("sqrt", "rsqrt", "reciprocal", "log", "exp", "erf", "sin", "cos")
"""The order of `Kind` in the source."""


@cache
def _missing() -> str:
    """Why there are no kernels; empty if they are loaded."""
    try:
        load_library(SOURCE)
    except CannotBuild as reason:
        return str(reason)
    _register_shapes()
    return ""


def kernels_available() -> bool:
    """Whether heads can run as C++ here; says so once if not."""
    if _missing():
        _warn_once()
    return not _missing()


def require_kernels() -> None:
    """Raise a sentence if there are no kernels."""
    if _missing():
        raise AssumptionViolated(
            f"The C++ heads cannot be had: {_missing()}. Install a C++ compiler, or choose kernels='torch'."
        )


@cache
def _warn_once() -> None:
    warnings.warn(
        f"The C++ heads cannot be had: {_missing()}. Heads run as torch operations, about ten times slower.",
        stacklevel=5,
    )


def _register_shapes() -> None:
    """What torch.compile needs to know: shapes and precisions of results."""
    torch.library.register_fake("icgd_heads::read", _read_shapes)
    torch.library.register_fake("icgd_heads::function", _function_shape)


def _read_shapes(q: Tensor, table: Tensor, limits: Tensor, decoder: bool) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(())


def _function_shape(q: Tensor, table: Tensor, limits: Tensor, kind: int) -> Tensor:
    return torch.empty_like(q, memory_format=torch.contiguous_format)
