"""What the machine has instructions for, what a graph still needs, and what is missing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

if TYPE_CHECKING:
    from icgd.mechanisms.machine.capture.captured import Captured

LINEAR = (
    "aten.add.Tensor",
    "aten.sub.Tensor",
    "aten.neg.default",
    "aten.sum.dim_IntList",
    "aten.view.default",
    "aten.permute.default",
    "aten.expand.default",
    "aten.slice.Tensor",
    "aten.cat.default",
    "aten.constant_pad_nd.default",
    "aten.flip.default",
    "aten.index.Tensor",
    "aten.im2col.default",
    "aten.col2im.default",
    "aten._to_copy.default",
)
PRODUCTS = ("aten.mul.Tensor", "aten.div.Tensor", "aten.mm.default", "aten.bmm.default")
FUNCTIONS = (
    "aten.sqrt.default",
    "aten.rsqrt.default",
    "aten.exp.default",
    "aten.log.default",
    "aten.erf.default",
    "aten.tanh.default",
    "aten.sigmoid.default",
    "aten.sin.default",
    "aten.cos.default",
)
CHOICES = (
    "aten.relu.default",
    "aten.gt.Tensor",
    "aten.eq.Tensor",
    "aten.where.self",
    "aten.bitwise_and.Tensor",
    "aten.bitwise_not.default",
    "aten.amax.default",
    "aten.argmin.default",
    "aten.argmax.default",
)
LOOKUPS = ("aten.gather.default", "aten.embedding.default", "aten._softmax.default")
NUMBERS = (
    "aten._local_scalar_dense.default",
    "aten.full.default",
    "py.mul",
    "py.add",
    "py.sub",
    "py.neg",
    "py.truediv",
    "py.pow",
    "py.getitem",
)


def machine_ops() -> frozenset[str]:
    """Names of the operations that a captured graph may hold."""
    return frozenset(LINEAR + PRODUCTS + FUNCTIONS + CHOICES + LOOKUPS + NUMBERS)


def op_name(node: fx.Node) -> str:
    """Name of what a node computes, such as "aten.mm.default" or "py.mul"."""
    target = node.target
    if isinstance(target, OpOverload):
        return str(target)
    return f"py.{getattr(target, '__name__', str(target)).strip('_')}"


def remaining_ops(captured: Captured) -> Counter[str]:
    """How often each operation occurs in a captured graph."""
    nodes = captured.graph.graph.nodes
    return Counter(op_name(node) for node in nodes if node.op == "call_function")


def complaint(node: fx.Node) -> str:
    """Why the machine cannot run a node, with a remedy; nothing if it can."""
    name = op_name(node)
    if name not in machine_ops():
        return "there is no instruction for it. " + REMEDIES.get(name, GENERAL)
    if name == "aten._to_copy.default":
        return _cast_complaint(node)
    if name == "aten.index.Tensor" and any(_is_computed(i) for i in _indices(node)):
        return "the index is computed. Choose with torch.where or torch.gather along one dimension."
    return ""


GENERAL = (
    "Write it with products, sums, exp, log, sqrt, tanh, sigmoid, erf, sin, cos and torch.where."
)
REMEDIES = {
    "aten.sort.default": "Sorting moves numbers by their size; keep the order and weigh the entries.",
    "aten.topk.default": "Choosing by size moves numbers; use torch.amax or torch.where.",
    "aten._linalg_svd.default": "Iterate: a few steps of Newton-Schulz or of power iteration.",
    "aten.linalg_inv_ex.default": "Iterate: a few steps of Newton-Schulz, V = 2 V - V H V.",
    "aten._linalg_solve_ex.default": "Iterate: Newton-Schulz or conjugate gradients, a fixed number of steps.",
    "aten.linalg_cholesky_ex.default": "Iterate: a fixed number of Newton-Schulz steps.",
}


def _indices(node: fx.Node) -> list[Any]:
    listed = node.args[1]
    return list(listed) if isinstance(listed, (list, tuple)) else []


def _is_computed(index: Any) -> bool:
    return isinstance(index, fx.Node) and index.op != "get_attr" and index.all_input_nodes != []


def _cast_complaint(node: fx.Node) -> str:
    source = node.args[0]
    value, before = (
        node.meta.get("val"),
        source.meta.get("val") if isinstance(source, fx.Node) else None,
    )
    if not isinstance(value, Tensor) or not isinstance(before, Tensor):
        return ""
    if value.dtype in (torch.float16, torch.bfloat16) or before.dtype in (
        torch.float16,
        torch.bfloat16,
    ):
        return f"rounding to {value.dtype} loses digits. Leave the conversion and autocast out."
    if value.is_complex():
        return "complex numbers are none of the machine's. Use two real tensors."
    if before.is_floating_point() and not value.is_floating_point():
        return f"converting numbers to {value.dtype} cuts digits off. Use a comparison and torch.where."
    if before.is_floating_point() and value.is_floating_point():
        return f"it converts {before.dtype} to {value.dtype}, the machine has one precision. Leave it out."
    return ""


def unsupported(graph: fx.Graph) -> list[tuple[fx.Node, str]]:
    """Nodes without an instruction and why; what follows from one of them is not listed."""
    spoilt: set[fx.Node] = set()
    listed = []
    for node in graph.nodes:
        if any(source in spoilt for source in node.all_input_nodes):
            spoilt.add(node)
        elif node.op == "call_function":
            why = complaint(node)
            if why:
                spoilt.add(node)
                listed.append((node, why))
    return listed
