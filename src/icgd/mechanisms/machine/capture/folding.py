"""Constants of a graph: computed once and for all, and written where they are needed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from icgd.mechanisms.machine.capture.captured import plainly

aten = torch.ops.aten


def value_of(node: fx.Node) -> Any:
    """The value a node was traced with: a tensor without numbers, or a symbol."""
    return node.meta.get("val")


def dtype_of(node: fx.Node) -> torch.dtype | None:
    """Precision of a node's value, if that is a tensor."""
    value = value_of(node)
    return value.dtype if isinstance(value, Tensor) else None


def shape_of(node: fx.Node) -> torch.Size | None:
    """Shape of a node's value, if that is a tensor."""
    value = value_of(node)
    return value.shape if isinstance(value, Tensor) else None


def first_argument(node: fx.Node) -> fx.Node | None:
    """The first argument of a node, if another node computes it."""
    first = node.args[0] if node.args else None
    return first if isinstance(first, fx.Node) else None


FILLS = {
    aten.zeros_like.default: 0,
    aten.ones_like.default: 1,
    aten.new_zeros.default: 0,
    aten.new_ones.default: 1,
    aten.zeros.default: 0,
    aten.ones.default: 1,
    aten.empty.memory_format: 0,
    aten.empty_like.default: 0,
    aten.new_empty.default: 0,
    aten.empty_strided.default: 0,
    aten.new_empty_strided.default: 0,
    aten.empty_permuted.default: 0,
}
"""Operations that fill a tensor with one number, whatever their tensor argument holds."""


def _filled_with(node: fx.Node) -> Any:
    """The number an operation fills its result with; None for any other operation."""
    if node.target in FILLS:
        return FILLS[node.target]
    if node.target is aten.scalar_tensor.default:
        return node.args[0]
    if node.target in (aten.full.default, aten.full_like.default):
        return node.args[1]
    if node.target is aten.new_full.default:
        return node.args[2]
    return None


def fold_constants(module: fx.GraphModule) -> None:
    """Compute what depends on no input; write what holds one number everywhere as `full`."""
    graph = module.graph
    known: dict[fx.Node, Any] = {}
    for node in list(graph.nodes):
        if node.op == "get_attr":
            known[node] = getattr(module, str(node.target))
            continue
        if node.op != "call_function":
            continue
        fill, value = _filled_with(node), value_of(node)
        if fill is not None and isinstance(value, Tensor):
            if isinstance(fill, fx.Node) and fill not in known:
                _spread_number(graph, node, fill)
                continue
            number = known[fill] if isinstance(fill, fx.Node) else fill
            known[node] = torch.tensor(number, dtype=value.dtype).expand(value.shape)
        elif all(n in known for n in node.all_input_nodes):
            arguments = fx.map_arg((node.args, node.kwargs), lambda n: known[n])
            known[node] = plainly(node.target)(*arguments[0], **arguments[1])
    _write_constants(module, known)
    for node in graph.nodes:
        if node.target is aten.embedding.default and _is_stored(node.args[1]):
            node.target, node.args = aten.index.Tensor, (node.args[0], [node.args[1]])


def _is_stored(argument: Any) -> bool:
    return isinstance(argument, fx.Node) and argument.op == "get_attr"


def _spread_number(graph: fx.Graph, node: fx.Node, number: fx.Node) -> None:
    """A tensor filled with a number that was read off a tensor is that tensor, expanded."""
    read = number.target is aten._local_scalar_dense.default
    source = first_argument(number) if read else None
    shape, dtype = list(shape_of(node) or ()), dtype_of(node)
    if source is None or dtype_of(source) != dtype or shape_of(source) != torch.Size([]):
        return
    simpler = source
    if shape:
        with graph.inserting_before(node):
            simpler = graph.call_function(aten.expand.default, (source, shape))
            simpler.meta.update(node.meta)
    node.replace_all_uses_with(simpler)


def _write_constants(module: fx.GraphModule, known: dict[fx.Node, Any]) -> None:
    """Replace known nodes that others need: one number as `full`, anything else as a stored tensor."""
    graph = module.graph
    for node, value in known.items():
        if _is_uniform(value):
            _inline(node, value.reshape(-1)[0].item())
        if node.op == "get_attr" or all(user in known for user in node.users):
            continue
        if isinstance(value, (int, float, bool)):
            for user in list(node.users):
                _put_number(user, node, value)
            continue
        if not isinstance(value, Tensor):
            continue  # several results: whoever takes one of them is known itself
        with graph.inserting_before(node):
            simpler = _constant(module, value)
        simpler.meta.update(node.meta)
        node.replace_all_uses_with(simpler)


def _put_number(user: fx.Node, node: fx.Node, number: float) -> None:
    """Write a number where a node stood."""

    def put(argument: fx.Node) -> Any:
        return number if argument is node else argument

    user.args = fx.map_arg(user.args, put)
    user.kwargs = fx.map_arg(user.kwargs, put)


def _is_uniform(value: Any) -> bool:
    if not isinstance(value, Tensor) or not value.numel():
        return False
    return bool((value == value.reshape(-1)[0]).all())


def _inline(node: fx.Node, number: float) -> None:
    """Write a constant operand as a number where that changes neither shape nor precision of the result."""
    for user in list(node.users):
        if user.target not in SUMS_AND_PRODUCTS or user.kwargs or len(user.all_input_nodes) != 2:
            continue
        first, second = user.args[:2]
        if first is node and user.target in EITHER_WAY:
            first, second = second, first
        if not isinstance(first, fx.Node) or second is not node:
            continue
        if shape_of(first) == shape_of(user) and dtype_of(first) == dtype_of(user):
            user.args = (first, number)


SUMS_AND_PRODUCTS = {aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor}
EITHER_WAY = {aten.add.Tensor, aten.mul.Tensor}


def _constant(module: fx.GraphModule, value: Tensor) -> fx.Node:
    if _is_uniform(value):
        number = value.reshape(-1)[0].item()
        return module.graph.call_function(
            aten.full.default, (list(value.shape), number), {"dtype": value.dtype}
        )
    value = value.detach().contiguous()
    name = f"constant_{sum(n.startswith('constant_') for n, _ in module.named_buffers())}"
    module.register_buffer(name, value)
    return module.graph.get_attr(name)
