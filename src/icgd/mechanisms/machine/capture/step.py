"""capture_step: the user's real training step, parameters to parameters, as one graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from icgd.errors import raise_all
from icgd.mechanisms.machine.capture.captured import Captured
from icgd.mechanisms.machine.capture.check import check_capture, perturbed_batches
from icgd.mechanisms.machine.capture.eager import number_tensors, state_after, state_by_name
from icgd.mechanisms.machine.capture.flat import (
    Layout,
    check_elementwise,
    flattened_state,
    stepping_flat,
)
from icgd.mechanisms.machine.capture.inputs import checked_step, key_path
from icgd.mechanisms.machine.capture.origins import Labels, Watching, call_the_users_step
from icgd.mechanisms.machine.capture.swapped import (
    Groups,
    State,
    counters_in,
    lent,
    parameter_groups,
)
from icgd.mechanisms.machine.capture.tracing import explained, functional_graph


def capture_step(
    step: Callable[..., Any],
    model: nn.Module,
    optimizer: Optimizer | None,
    example: Sequence[Any],
    *,
    hyper: Sequence[str] = ("lr",),
    fresh: bool,
    flat: bool = False,
) -> Captured:
    """`step(*example)` as one functional graph; compared with running it before it is given back.

    step       your loop body: zero_grad, forward, loss, backward, clipping, optimizer.step ...
    model      whose parameters and buffers it reads and writes
    optimizer  whose state and hyper-parameters it reads and writes; None for a step without one
    hyper      hyper-parameters that a schedule may change: inputs of the graph; all others are fixed in it
    fresh      True: the first step, from an empty state. False: a later one, from the optimizer's own state
               or, if that is empty, from the state that the first step leaves behind
    flat       True: optimizers that update entry by entry step one vector per parameter group

    Model, optimizer and random generators are as they were afterwards.
    """
    dtype = checked_step(step, model, optimizer, example, hyper)
    if flat:
        check_elementwise(optimizer)
    setting = _Setting(step, model, optimizer, tuple(example), tuple(hyper), flat, dtype)
    after = state_after(
        step, model, optimizer, example
    )  # a mistake of the step's own is its own news
    captured = setting.capture(setting.first_state() if fresh else setting.later_state(after))
    check_capture(captured, step, model, optimizer, perturbed_batches(setting.example))
    return captured


@dataclass
class _Setting:
    """What a step is captured with; every capture of it starts here."""

    step: Callable[..., Any]
    model: nn.Module
    optimizer: Optimizer | None
    example: tuple[Any, ...]
    hyper: tuple[str, ...]
    flat: bool
    dtype: torch.dtype
    groups: Groups = field(init=False)

    def __post_init__(self) -> None:
        self.groups = parameter_groups(self.model, self.optimizer)

    def first_state(self) -> State:
        """Empty, but for optimizers that write theirs when they are constructed: their counters are 0."""
        state = state_by_name(self.model, self.optimizer)
        counters = [entries.get("step") for entries in state.values()]
        untouched = all(counter is not None and float(counter) == 0 for counter in counters)
        return self._laid_out(state) if untouched else {}

    def later_state(self, after: State) -> State:
        """The state the optimizer has already; if it has none, what a step leaves behind."""
        return self._laid_out(state_by_name(self.model, self.optimizer) or after)

    def _laid_out(self, state: State) -> State:
        return flattened_state(state, self.groups) if self.flat else state

    def capture(self, state: State) -> Captured:
        """One capture from this state; not compared with anything yet."""
        trace = _Trace(self, state)
        with explained():
            graph = functional_graph(trace, trace.values)
        trace.check_structure(graph)
        _, arguments = pytree.tree_flatten(self.example)
        return Captured(
            graph,
            trace.in_names,
            trace.out_names,
            trace.values,
            groups=trace.layout,
            fixed={owner: entries for owner, entries in trace.fixed.items() if entries},
            arguments=arguments,
        )


class _Trace:
    """The step as a function of tensors alone: what make_fx runs."""

    def __init__(self, setting: _Setting, state: State) -> None:
        self.setting = setting
        optimizer = setting.optimizer
        self.fixed = {
            owner: {k: v for k, v in entries.items() if not isinstance(v, Tensor)}
            for owner, entries in state.items()
        }
        hypers = {
            f"{index}.{key}": torch.tensor(float(group[key]), dtype=torch.float64)
            for index, group in enumerate(optimizer.param_groups if optimizer else ())
            for key in setting.hyper
            if key in group
        }
        tree = {
            "param": {n: p.detach().clone() for n, p in setting.model.named_parameters()},
            "buffer": {n: self._promoted(b) for n, b in setting.model.named_buffers()},
            "state": {
                owner: {k: self._promoted(v) for k, v in entries.items() if isinstance(v, Tensor)}
                for owner, entries in state.items()
            },
            "hyper": hypers,
            "data": {str(i): value for i, value in enumerate(setting.example)},
        }
        leaves, self.spec = pytree.tree_flatten(tree)
        self.values: list[Tensor] = [leaf.detach().clone() for leaf in leaves]
        self.in_names = [key_path(path) for path, _ in pytree.tree_flatten_with_path(tree)[0]]
        self.out_names: list[str] = []
        self.state_after: State = {}
        self.layout: Layout = {}

    def _promoted(self, value: Tensor) -> Tensor:
        """Counters count in the model's precision; other tensors keep theirs."""
        counts = value.dim() == 0 and value.dtype != torch.bool and not value.is_complex()
        return value.detach().to(self.setting.dtype) if counts else value.detach()

    def __call__(self, *leaves: Tensor) -> list[Tensor]:
        """The step from these tensors; results in the order of out_names."""
        setting = self.setting
        tree = pytree.tree_unflatten(list(leaves), self.spec)
        trained = {n: p.requires_grad for n, p in setting.model.named_parameters()}
        parameters = {
            n: p.detach().clone().requires_grad_(trained[n]) for n, p in tree["param"].items()
        }
        buffers = {n: b.detach().clone() for n, b in tree["buffer"].items()}
        state = {o: {**tree["state"].get(o, {}), **self.fixed[o]} for o in self.fixed}
        hypers = {key: _number(value) for key, value in tree["hyper"].items()}
        body = _Body(setting.model, setting.step)
        swapped = {f"model.{n}": t for n, t in {**parameters, **buffers}.items()}
        per_parameter = {} if setting.flat else state
        with ExitStack() as stack:
            stack.enter_context(counters_in(setting.dtype, setting.optimizer))
            live = stack.enter_context(
                lent(setting.optimizer, parameters, setting.groups, per_parameter, hypers)
            )
            flat = None
            if setting.flat and setting.optimizer is not None:
                flat = stack.enter_context(
                    stepping_flat(setting.optimizer, parameters, setting.groups, state)
                )
            stack.enter_context(Watching(Labels(), setting.model))
            out = torch.func.functional_call(body, swapped, tuple(tree["data"].values()))
        if flat is not None:
            self.state_after, self.layout = flat.state, flat.layout
        else:
            self.state_after = {n: dict(live[p]) for n, p in parameters.items() if live.get(p)}
        return self._named(body.parameters_after, body.buffers_after, out)

    def _named(
        self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], out: Any
    ) -> list[Tensor]:
        results: dict[str, Tensor] = {f"param.{n}": p.detach() for n, p in parameters.items()}
        results |= {f"buffer.{n}": b.detach() for n, b in buffers.items()}
        for owner, entries in self.state_after.items():
            for key, value in entries.items():
                if isinstance(value, Tensor):
                    results[f"state.{owner}.{key}"] = self._promoted(value)
        results |= number_tensors(out, self.setting.dtype)
        self.out_names = list(results)
        return list(results.values())

    def check_structure(self, graph: fx.GraphModule) -> None:
        """What a step leaves behind must be what the next one can start from."""
        (results,) = graph.graph.output_node().args
        before = dict(zip(self.in_names, self.values, strict=True))
        after = dict(zip(self.out_names, results, strict=True))  # type: ignore[arg-type]
        raise_all([*_shape_complaints(before, after), *self._number_complaints()])

    def _number_complaints(self) -> Iterator[str]:
        for owner, entries in self.fixed.items():
            for key, before in entries.items():
                after = self.state_after.get(owner, {}).get(key)
                if isinstance(before, (int, float)) and after != before:
                    yield (
                        f"The optimizer's state `{key}` of {owner} is the Python number {before!r} and "
                        f"becomes {after!r}: the graph would hold it fixed. Store it as a tensor "
                        "(torch.tensor(0.0)) and update that in place."
                    )


def _shape_complaints(before: Mapping[str, Tensor], after: Mapping[str, Any]) -> Iterator[str]:
    for name, node in after.items():
        shape = tuple(node.meta["val"].shape)
        if name in before and shape != tuple(before[name].shape):
            yield (
                f"`{name}` has shape {tuple(before[name].shape)} before the step and {shape} after it. "
                "Keep shapes: reserve the room that is needed at the end."
            )
    kept = [name for name in before if name.startswith("state.") and name not in after]
    if kept:
        yield f"The step drops state that it started from: {', '.join(kept)}. Keep it in every step."


class _Body(nn.Module):
    """Calls the step with the model as a part, so that functional_call can lend it other tensors."""

    def __init__(self, model: nn.Module, step: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self._step = model, step
        self.parameters_after: dict[str, Tensor] = {}
        self.buffers_after: dict[str, Tensor] = {}

    def forward(self, *arguments: Any) -> Any:
        """One step; what the model holds afterwards is kept, also where attributes were replaced."""
        out = call_the_users_step(self._step, *arguments)
        self.parameters_after = dict(self.model.named_parameters())
        self.buffers_after = dict(self.model.named_buffers())
        return out


def _number(value: Tensor) -> Any:
    """A hyper-parameter as optimizers want it, a number; they ask whether it is zero, and it is not."""
    number = value.item()
    torch._check(number != 0)
    return number
