"""Which executors a layer has, and the one a user asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.transformer.layout import Layout
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.chain.linear_attention_layer import LinearAttentionLayer
from icgd.transformer.nn.frozen_layer import FrozenLayer
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.runtime.executors.append import AppendExecutor
from icgd.transformer.runtime.executors.chain import DenseExecutor, StructuredExecutor
from icgd.transformer.runtime.executors.stack import StackExecutor
from icgd.transformer.runtime.watch import RangeWatch

ExecutorName = Literal["structured", "dense", "collapsed", "sparse"]
AnyExecutor = StructuredExecutor | DenseExecutor | StackExecutor | AppendExecutor

DENSE_PARAMETER_LIMIT = 40_000_000
"""About 24 columns: above it the literal matrices of a layer take gigabytes."""
STACK_PARAMETER_LIMIT = 400_000_000
"""Heads of a stack are written out a few at a time: it is time that runs out, not memory."""


def choose_executor(
    layer: FrozenLayer,
    name: str,
    watch: RangeWatch,
    *,
    layout: Layout,
    n_columns: int,
    batched: bool,
    keep_all: bool = False,
    wanted: Mapping[Address, frozenset[str]] | None = None,
    advice: str = "",
) -> AnyExecutor:
    """The engine that applies `layer`.

    name    "structured" (the fast one of every kind of layer) or "dense"; a stack also has "sparse",
            and calls its fast one "collapsed"
    advice  how to make literal matrices smaller, for the error message
    """
    if isinstance(layer, Stack):
        if name not in ("structured", "collapsed", "sparse", "dense"):
            raise InvalidParameter(
                "executor", name, "be 'structured' (= 'collapsed'), 'sparse' or 'dense'"
            )
        if name == "dense":
            check_dense_size(layer, n_columns, STACK_PARAMETER_LIMIT, advice)
        evaluation = "collapsed" if name == "structured" else name
        return StackExecutor(layer, layout, n_columns, evaluation, watch)
    if isinstance(layer, LinearAttentionLayer):
        if name not in ("structured", "dense"):
            raise InvalidParameter("executor", name, "be 'structured' or 'dense'")
        return AppendExecutor(layer, layout, literal=name == "dense", watch=watch)
    assert isinstance(layer, Layer)
    if name == "structured":
        return StructuredExecutor(
            layer, layer.prefixes, watch, batched=batched, keep_all=keep_all, wanted=wanted
        )
    if name != "dense":
        raise InvalidParameter("executor", name, "be 'structured' or 'dense'")
    check_dense_size(layer, n_columns, DENSE_PARAMETER_LIMIT, advice)
    return DenseExecutor(layer, layout, n_columns, watch)


def check_dense_size(layer: FrozenLayer, n_columns: int, limit: int, advice: str) -> None:
    """Refuse literal matrices that do not fit."""
    size = layer.dense_parameters(n_columns)
    if size > limit:
        raise AssumptionViolated(
            f"The literal matrices of this layer have {size:,} entries "
            f"({size * layer.like.element_size() / 1e9:.1f} GB), above the limit of {limit:,}. Use "
            f"executor='structured', which computes the same function, or {advice}."
        )
