"""What a capture gives: one functional graph, its named inputs and outputs, and where each node comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

ORIGIN = "icgd_origin"
"""Key of a node's meta that holds its Origin."""


@dataclass(frozen=True)
class Origin:
    """Where in the user's code a node comes from.

    file   name of the file, without folders; "" if no line of the user's led here
    line   number of the line, from 1
    text   the line, without indentation
    phase  "forward", "backward", "update", or "" where there are no phases

    >>> print(Origin("train.py", 12, "loss.backward()", "backward"))
    train.py:12: loss.backward()
    """

    file: str = ""
    line: int = 0
    text: str = ""
    phase: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.file else "inside PyTorch"

    def during(self, phase: str) -> Origin:
        """The same line in another phase."""
        return replace(self, phase=phase)


@dataclass
class Captured:
    """A step as a graph of functional ATen operations.

    graph      placeholders in the order of in_names; the output node lists results in the order of out_names
    in_names   "param.<name>", "buffer.<name>", "state.<...>", "hyper.<group>.<key>", "data.<i>"
    out_names  "param.<name>", "buffer.<name>", "state.<...>", "out.<i>"
    example    one value per input, the values it was captured with
    groups     parameters of each flat group ("group0", ...), in the order in which they are laid end to end
    fixed      entries of the optimizer's state that are no tensors, by parameter
    arguments  how the data lie in the arguments of the step

    Every node carries an `Origin` in node.meta["icgd_origin"].
    """

    graph: fx.GraphModule
    in_names: list[str]
    out_names: list[str]
    example: list[Tensor]
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fixed: dict[str, dict[str, Any]] = field(default_factory=dict)
    arguments: pytree.TreeSpec | None = None

    def named_example(self) -> dict[str, Tensor]:
        """The example by name."""
        return dict(zip(self.in_names, self.example, strict=True))

    def arguments_of(self, values: Mapping[str, Tensor]) -> tuple[Any, ...]:
        """The arguments of the step, out of inputs by name."""
        data = [values[name] for name in self.in_names if name.startswith("data.")]
        return tuple(pytree.tree_unflatten(data, self.arguments) if self.arguments else data)

    def __call__(self, values: Mapping[str, Tensor] | Sequence[Tensor]) -> dict[str, Tensor]:
        """The graph in plain torch semantics: results by name."""
        inputs = [values[name] for name in self.in_names] if isinstance(values, Mapping) else values
        with torch.no_grad():
            results = Plain(self.graph).run(*inputs)
        return dict(zip(self.out_names, results, strict=True))


class Plain(fx.Interpreter):
    """Runs a graph in plain torch; `view` lays out anew what does not lie in order."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """One operation."""
        return plainly(target)(*args, **kwargs)


def plainly(target: Any) -> Any:
    """The operation as graphs mean it."""
    return torch.reshape if target is torch.ops.aten.view.default else target


def origin_of(node: fx.Node) -> Origin:
    """Where a node comes from; an empty Origin if nothing is known."""
    origin = node.meta.get(ORIGIN)
    return origin if isinstance(origin, Origin) else Origin()
