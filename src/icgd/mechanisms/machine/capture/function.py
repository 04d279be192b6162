"""capture_function: any function of tensors as one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from icgd.mechanisms.machine.capture.captured import Captured
from icgd.mechanisms.machine.capture.check import check_capture, perturbed_batches
from icgd.mechanisms.machine.capture.eager import number_tensors
from icgd.mechanisms.machine.capture.inputs import checked_function, key_path
from icgd.mechanisms.machine.capture.origins import Labels, Watching, call_the_users_step
from icgd.mechanisms.machine.capture.tracing import (
    explained,
    functional_graph,
    generators_kept,
)


def capture_function(function: Callable[..., Any], example: Sequence[Any]) -> Captured:
    """`function(*example)` as one functional graph; compared with calling it before it is given back.

    Inputs are "data.<i>", results "out.<i>" in the order in which the function returns them.
    """
    dtype = checked_function(function, example)
    arguments = tuple(example)
    leaves, spec = pytree.tree_flatten(arguments)
    values = [leaf.detach().clone() for leaf in leaves]
    out_names: list[str] = []

    def of_tensors(*tensors: Tensor) -> list[Tensor]:
        with Watching(Labels(), None):
            out = call_the_users_step(function, *pytree.tree_unflatten(list(tensors), spec))
        results = number_tensors(out, dtype)
        out_names[:] = results
        return list(results.values())

    with generators_kept():
        function(*arguments)  # a mistake of the function's own is its own news
    with explained():
        graph = functional_graph(of_tensors, values)
    names = [f"data.{key_path(path)}" for path, _ in pytree.tree_flatten_with_path(arguments)[0]]
    captured = Captured(graph, names, list(out_names), values, arguments=spec)
    check_capture(captured, function, nn.Module(), None, perturbed_batches(arguments))
    return captured
