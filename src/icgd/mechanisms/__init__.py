"""Compilers, one folder per family of constructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icgd.mechanisms.compiler import compile as compile
    from icgd.mechanisms.loops.regression.fused import fuse as fuse


def __getattr__(name: str) -> Any:
    # Descriptions of constructions are read where PyTorch is not needed.
    if name == "compile":
        from icgd.mechanisms.compiler import compile

        return compile
    if name == "fuse":
        from icgd.mechanisms.loops.regression.fused import fuse

        return fuse
    raise AttributeError(f"module 'icgd.mechanisms' has no attribute {name!r}")
