"""What tracing leaves behind and the machine does not need: copies, bookkeeping, checks, computed constants."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from icgd.errors import UnsupportedOp, raise_all
from icgd.mechanisms.machine.capture.captured import origin_of
from icgd.mechanisms.machine.capture.folding import (
    dtype_of,
    first_argument,
    fold_constants,
    shape_of,
)

aten = torch.ops.aten

COPIES = {
    aten.detach.default,
    aten.alias.default,
    aten.clone.default,
    aten.contiguous.default,
    aten.lift_fresh_copy.default,
    aten.lift_fresh.default,
}
LAYOUTS = (aten.view.default, aten.expand.default)
CHECKS = ("profiler::", "aten::_assert", "aten::sym_constrain", "aten::_functional_assert")


def check_random(graph: fx.Graph) -> None:
    """Refuse random numbers: folded into the graph they would be the same in every step."""
    random = [
        f"{node.target} (node %{node.name}, at {origin_of(node)}) draws random numbers, and numbers are data "
        "for the machine. Call .eval() on the layer, or draw outside and pass the numbers as an argument."
        for node in graph.nodes
        if isinstance(node.target, OpOverload)
        and torch.Tag.nondeterministic_seeded in node.target.tags
        and node.target.namespace == "aten"
    ]
    if random:
        raise UnsupportedOp(*random)


def check_writes(graph: fx.Graph) -> None:
    """Refuse to write into tensors that the graph can only hold fixed."""
    raise_all(
        f"The step writes into a tensor that belongs neither to the model nor to the optimizer, at "
        f"{origin_of(node)}. Make it a buffer or a part of the module that you pass as `model`."
        for node in graph.nodes
        if isinstance(node.target, OpOverload)
        and node.target._schema.is_mutable
        and _lies_in_the_graph(node)
    )


def _lies_in_the_graph(node: fx.Node) -> bool:
    """Whether an operation in place writes into a stored tensor, or into a view of one."""
    source = first_argument(node)
    while source is not None and isinstance(source.target, OpOverload):
        returned = source.target._schema.returns
        if not any(value.alias_info is not None for value in returned):
            return False
        source = first_argument(source)
    return source is not None and source.op == "get_attr"


def without_bookkeeping(module: fx.GraphModule) -> None:
    """Erase profiler marks and run-time checks, which compute nothing."""
    graph = module.graph
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and _is_check(node) and not node.users:
            graph.erase_node(node)
    module.recompile()


def _is_check(node: fx.Node) -> bool:
    target = node.target
    if isinstance(target, OpOverload):
        return target.name().startswith(CHECKS)
    return target is torch._check


def lifted_constants(module: fx.GraphModule) -> list[Tensor]:
    """Make inputs, after those there are, of the tensors that the graph holds, and give their values.

    Left inside, they would pass functionalisation by, with everything computed from them alone.
    """
    graph = module.graph
    stored: dict[str, fx.Node] = {}
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for node in [n for n in graph.nodes if n.op == "get_attr"]:
        name = str(node.target)
        if not isinstance(getattr(module, name, None), Tensor):
            continue  # a branch of a conditional, which is refused later
        if name not in stored:
            with graph.inserting_after(last):
                last = stored[name] = graph.placeholder(f"constant_{len(stored)}")
        node.replace_all_uses_with(stored[name])
        graph.erase_node(node)
    module.recompile()
    return [getattr(module, name) for name in stored]


def _put_back(module: fx.GraphModule, constants: list[Tensor]) -> None:
    """Store lifted constants in the graph again."""
    graph = module.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    for number, (node, value) in enumerate(
        zip(inputs[len(inputs) - len(constants) :], constants, strict=True)
    ):
        module.register_buffer(f"given_{number}", value.detach().clone())
        with graph.inserting_after(inputs[-1]):
            stored = graph.get_attr(f"given_{number}")
        stored.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(stored)
        graph.erase_node(node)


def cleaned(module: fx.GraphModule, constants: list[Tensor]) -> fx.GraphModule:
    """The graph without copies, dead nodes and what can be computed once and for all.

    constants  values of its last inputs, which are none of the user's
    """
    _put_back(module, constants)
    graph = module.graph
    without_bookkeeping(module)
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in LAYOUTS:
            node.args = (node.args[0], list(shape_of(node) or ()))  # with no length left open
        simpler = _simpler(node)
        if simpler is not None:
            node.replace_all_uses_with(simpler)
            graph.erase_node(node)
    _erase_unused(graph)
    fold_constants(module)
    _erase_unused(graph)
    module.delete_all_unused_submodules()
    for name in _unused_tensors(module):
        delattr(module, name)
    module.recompile()
    return module


def _simpler(node: fx.Node) -> fx.Node | None:
    """A node with the same value that comes earlier, if there is one."""
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node):
        return None
    if node.target in COPIES:
        return source
    if node.target is aten._to_copy.default and dtype_of(node) == dtype_of(source):
        return source
    if node.target in LAYOUTS and shape_of(node) == shape_of(source):
        return source
    if node.target is aten.permute.default:
        return _composed(node, source)
    if node.target is aten.exp.default and source.target is aten.log.default:
        return first_argument(source)  # the softmax below a log-softmax
    return None


def _composed(node: fx.Node, source: fx.Node) -> fx.Node | None:
    """A permutation of a permutation in one; None if it still moves something."""
    order = _order(node)
    inner = first_argument(source) if source.target is aten.permute.default else None
    if inner is not None:
        before = _order(source)
        order, source = [before[d] for d in order], inner
        node.args = (source, order)
    return source if order == list(range(len(order))) else None


def _order(node: fx.Node) -> list[int]:
    """The dimensions of a permutation, none negative."""
    listed: Any = node.args[1]
    return [d % len(listed) for d in listed]


def _erase_unused(graph: fx.Graph) -> None:
    """Dead nodes; without the care for side effects, as nothing here has any."""
    for node in reversed(list(graph.nodes)):
        if node.op in ("call_function", "get_attr") and not node.users:
            graph.erase_node(node)


def _unused_tensors(module: fx.GraphModule) -> list[str]:
    used = {str(n.target) for n in module.graph.nodes if n.op == "get_attr"}
    stored = [name for name, _ in module.named_buffers()]
    stored += [name for name, value in vars(module).items() if isinstance(value, Tensor)]
    return [name for name in dict.fromkeys(stored) if name not in used]
