"""Instruction selection: a graph of a few tensor operations becomes instructions of the machine.

What only rearranges, scales or adds up numbers of one register needs no instruction: it becomes the route by
which the next instruction sees that register. Everything a value can be while the graph is read:

    Operand   a register through a route          Tensor   a constant, folded
    number    a Python number                     tuple    several of these
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from icgd.errors import AssumptionViolated
from icgd.mechanisms.machine.passes.selections.selections import Selections
from icgd.mechanisms.machine.passes.selections.values import Missing
from icgd.mechanisms.machine.tape.instruction import Kind, Opcode, Operand, Origin, Register
from icgd.mechanisms.machine.tape.tape import Tape, TapeWriter

SAME = (
    "detach",
    "detach_copy",
    "alias",
    "alias_copy",
    "clone",
    "lift_fresh_copy",
    "lift_fresh",
    "contiguous",
)
"""Operations that give back what they are given."""


def select_instructions(
    graph: fx.GraphModule,
    in_names: Sequence[str],
    out_names: Sequence[str],
    example: Sequence[Tensor],
    dtype: torch.dtype,
) -> Tape:
    """The tape of a captured graph."""
    return _Selector(graph, in_names, example, dtype).run(out_names)


class _Selector:
    def __init__(
        self,
        graph: fx.GraphModule,
        in_names: Sequence[str],
        example: Sequence[Tensor],
        dtype: torch.dtype,
    ) -> None:
        self.graph, self.dtype = graph, dtype
        self.tape = TapeWriter()
        self.rules = Selections(self.tape)
        self.values: dict[fx.Node, Any] = {}
        self.missing: list[str] = []
        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        for node, name, value in zip(placeholders, in_names, example, strict=True):
            register = self.tape.input(name, tuple(value.shape), _kind_of(value))
            self.values[node] = Operand.whole(register)

    def run(self, out_names: Sequence[str]) -> Tape:
        results: list[Any] = []
        for node in self.graph.graph.nodes:
            self.tape.origin = _origin(node)
            if node.op == "get_attr":
                self.values[node] = getattr(self.graph, node.target)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                results = [
                    self.values.get(n, n) if isinstance(n, fx.Node) else n for n in node.args[0]
                ]
        if self.missing:
            raise AssumptionViolated(*self.missing)
        outputs = {
            name: self._stored(value) for name, value in zip(out_names, results, strict=True)
        }
        return self.tape.finish(outputs)

    def _stored(self, value: Any) -> Register:
        """A result as a register of its own."""
        if isinstance(value, (int, float)):
            value = torch.tensor(float(value), dtype=torch.float64)
        if isinstance(value, Tensor):
            return self.tape.constant(value)
        return self.rules.materialised(value)

    def _call(self, node: fx.Node) -> None:
        args = pytree.tree_map_only(fx.Node, self._value, list(node.args))
        named = pytree.tree_map_only(fx.Node, self._value, dict(node.kwargs))
        flat = pytree.tree_leaves((args, named), is_leaf=lambda x: isinstance(x, Operand))
        if any(x is _UNKNOWN for x in flat):
            self.values[node] = _UNKNOWN
            return
        name = _name(node)
        try:
            self.values[node] = self._result(node, name, args, named, flat)
        except Missing as reason:
            where = str(_origin(node))
            self.missing.append(
                f"The machine has no instruction for {name} (node {node.name}{', ' + where if where else ''})"
                f"{': ' + str(reason) if str(reason) else ''}."
            )
            self.values[node] = _UNKNOWN

    def _result(
        self, node: fx.Node, name: str, args: list[Any], named: dict[str, Any], flat: Sequence[Any]
    ) -> Any:
        if name == "getitem":
            return args[0] if isinstance(args[0], Operand) else args[0][args[1]]
        if name in SAME:
            return args[0]
        value = node.meta.get("val")
        if name in ("full_like", "zeros_like", "ones_like", "new_zeros", "new_ones", "new_full"):
            assert value is not None
            fill = {"z": 0.0, "o": 1.0}.get(name.removeprefix("new_")[0], args[-1])
            if not isinstance(fill, Operand):
                return torch.full(tuple(value.shape), _number(fill), dtype=value.dtype)
            return self.rules.expanded(fill, tuple(value.shape))
        if name == "full" and isinstance(args[1], Operand):
            return self.rules.expanded(args[1], tuple(args[0]))
        if not any(isinstance(x, Operand) for x in flat):
            return _folded(node, args, named, self.dtype)
        rule: Callable[..., Any] | None = getattr(self.rules, f"op_{name}", None)
        if rule is None:
            raise Missing
        shape = tuple(value.shape) if isinstance(value, Tensor) else ()
        return rule(args, named, shape)

    def _value(self, node: fx.Node) -> Any:
        return self.values[node]


_UNKNOWN = object()
"""What comes out of an operation without instruction: what depends on it is not complained about again."""


def _name(node: fx.Node) -> str:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.split("::")[1]
    return (
        {"mul": "mul", "add": "add", "sub": "sub", "neg": "neg", "pow": "pow"}.get(
            target.__name__, target.__name__
        )
        if callable(target)
        else str(target)
    )


def _origin(node: fx.Node) -> Origin:
    origin = node.meta.get("icgd_origin")
    if origin is None:
        return Origin()
    return Origin(origin.file, origin.line, origin.text, origin.phase)


def _kind_of(value: Tensor) -> Kind:
    if value.dtype == torch.bool:
        return Kind.FLAG
    return Kind.REAL if value.is_floating_point() else Kind.INDEX


def _number(value: Any) -> float:
    return float(value)


def _folded(node: fx.Node, args: list[Any], named: dict[str, Any], dtype: torch.dtype) -> Any:
    """A value that depends on no register: computed now, in the precision of the program."""
    place = ("device", "layout", "pin_memory", "memory_format")
    kept = {name: value for name, value in named.items() if name not in place}
    result = node.target(*args, **kept)  # type: ignore[operator]

    def promoted(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

    if isinstance(result, (list, tuple)):
        return tuple(promoted(value) for value in result)
    return promoted(result)


__all__ = ["Mapping", "Missing", "Opcode", "math", "operator", "select_instructions"]
