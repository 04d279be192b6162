"""The tables of decompositions of the two passes of a capture."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._ops import OpOverload

from icgd.mechanisms.machine.decompose.registry import ENTRIES

aten = torch.ops.aten
Table = dict[OpOverload, Callable[..., Any]]

OWN = (
    "activations",
    "arithmetic",
    "comparisons",
    "indexing",
    "losses",
    "norms",
    "reductions",
    "shapes",
    "softmax",
    "windows",
)
"""Modules of this package that enter decompositions."""

DEEPER = (
    aten.native_batch_norm,
    aten.native_batch_norm_backward,
    aten._native_batch_norm_legit,
    aten._fused_rms_norm,
    aten._fused_rms_norm_backward,
    aten.huber_loss,
    aten.huber_loss_backward,
    aten.smooth_l1_loss,
    aten.smooth_l1_loss_backward,
    aten.index_add,
    aten.trace,
)
"""What PyTorch can decompose but its core table keeps."""

KEPT = (
    aten.relu.default,
    aten.embedding.default,
    aten.im2col.default,
    aten.col2im.default,
    aten.argmin.default,
    aten.argmax.default,
    aten.sum.dim_IntList,
    aten._softmax.default,
    aten.flip.default,
    aten.constant_pad_nd.default,
)
"""What the machine has instructions for and PyTorch's tables would take apart."""


@cache
def table() -> Table:
    """PyTorch's core decompositions, deeper ones of its own, and this package's."""
    for name in OWN:
        import_module(f"icgd.mechanisms.machine.decompose.{name}")
    entries: Table = {
        operation: function
        for operation, function in core_aten_decompositions().items()
        if isinstance(operation, OpOverload)
    }
    entries.update(get_decompositions(list(DEEPER)))  # type: ignore[arg-type]
    for operation in KEPT:
        entries.pop(operation, None)
    entries.update(ENTRIES)
    return entries


@cache
def first_table() -> Table:
    """For the pass with autograd inside: what PyTorch would take apart itself there, in another way.

    Batch norm hides that it writes into its buffers; the other one has a formula of this package's.
    """
    own = table()
    hiding = [aten.native_batch_norm, aten._native_batch_norm_legit]
    first: Table = dict(get_decompositions(hiding))  # type: ignore[arg-type]
    first[aten.binary_cross_entropy_with_logits.default] = own[
        aten.binary_cross_entropy_with_logits.default
    ]
    return first
