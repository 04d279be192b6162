"""Arrays as users hand them over, turned into plain tensors or refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from icgd.errors import InvalidParameter


def plain_tensor(name: str, value: Any) -> Tensor:
    """A dense tensor of real numbers, on whatever device it was, or a clear complaint.

    A masked array is refused if any entry is masked: what its mask hides would be read as data.

    >>> plain_tensor("X", np.ma.masked_array([1.0, 2.0], mask=[True, False]))
    Traceback (most recent call last):
    ...
    icgd.errors.InvalidParameter: `X` must hold no masked entries. Got 1 masked. Drop those rows or fill them.
    """
    refuse_masked(name, value)
    if isinstance(value, Tensor):
        tensor = _dense(name, value)
    else:
        try:
            # np.array copies: torch warns about arrays that are read-only, as pandas hands them out.
            tensor = torch.from_numpy(np.array(value))
        except (TypeError, ValueError, RuntimeError) as error:
            raise InvalidParameter(
                name, type(value).__name__, "be a numeric array", remedy=str(error)
            ) from None
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise InvalidParameter(name, tensor.dtype, "hold real numbers")
    return tensor.detach()


def refuse_masked(name: str, value: Any) -> None:
    """Refuse a masked array, or a list of them, that masks any entry."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    masked = sum(int(np.ma.count_masked(p)) for p in parts if isinstance(p, np.ma.MaskedArray))
    if masked:
        raise InvalidParameter(
            name,
            _Words(f"{masked} masked"),
            "hold no masked entries",
            remedy="Drop those rows or fill them.",
        )


def _dense(name: str, tensor: Tensor) -> Tensor:
    kinds = (
        (tensor.is_nested, "a nested tensor", "Pad it, or run every part by itself."),
        (tensor.layout != torch.strided, f"layout {tensor.layout}", "Use .to_dense()."),
        (tensor.is_meta, "a meta tensor", "It has a shape and no numbers: load them first."),
        (tensor.is_quantized, f"{tensor.dtype}", "Use .dequantize()."),
    )
    for is_kind, what, remedy in kinds:
        if is_kind:
            raise InvalidParameter(
                name, _Words(what), "be a dense tensor of numbers", remedy=remedy
            )
    return tensor


class _Words(str):
    """A value that is described in words, not quoted, in a message."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
