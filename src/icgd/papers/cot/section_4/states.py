"""Exact states of one training round, from autograd, and single steps of a program taken from them.

Nothing here uses a gradient formula: pre-activations, error signals and updates are what autograd
says they are, so that a wrong formula, printed or ours, has something independent to disagree with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.problems import NetworkSpec, Weights
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.mask_rules import Address, Step
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.program import Program
from icgd.transformer.runtime.executors.chain import DenseExecutor, StructuredExecutor
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.transformer.runtime.loop import Executor
from icgd.transformer.runtime.watch import RangeWatch
from icgd.verification.bounds.cot_rounds import StepErrors

FORWARD_FLAGS = {"not_backward": 1.0, "not_data": 1.0}
BACKWARD_FLAGS = {"not_forward": 1.0, "not_data": 1.0}
DATA_FLAGS = {"not_forward": 1.0, "not_backward": 1.0}

Blocks = dict[Address, Block]


@dataclass(frozen=True)
class LayerState:
    """What layer i holds in one round: i is the position in the list, counted from 1.

    inp, z, out   o_{i-1}, z_i, o_i
    delta         dl/dz_i             signal   dl/do_{i-1} = W_i^T delta_i
    W, b          before the round    new      (W, b) after it
    """

    W: Tensor
    b: Tensor | None
    inp: Tensor
    z: Tensor
    out: Tensor
    delta: Tensor
    signal: Tensor
    new: tuple[Tensor, Tensor | None]
    linear: bool

    @property
    def slope(self) -> Tensor:
        """sigma'(z_i), with sigma'(0) = 0 as in PyTorch."""
        return torch.ones_like(self.z) if self.linear else (self.z > 0).to(self.z.dtype)


def exact_states(
    spec: NetworkSpec, weights: Weights, x: Tensor, y: Tensor, lr: float
) -> list[LayerState]:
    """One exact round of SGD on 1/2 |o_N - y|^2, layer by layer, by autograd.

    Statement: [COT] Definition 2.3

    Differs from the paper: nothing is computed by the printed recursion (2)-(4).
    """
    leaves = [
        (W.clone().requires_grad_(), None if b is None else b.clone().requires_grad_())
        for W, b in weights
    ]
    o, z = [x.clone().requires_grad_()], list[Tensor]()
    with torch.enable_grad():
        for i, (W, b) in enumerate(leaves, 1):
            z.append(torch.nn.functional.linear(o[-1], W, b))
            o.append(z[-1] * 1.0 if spec.is_linear(i) else torch.relu(z[-1]))
        for tensor in (*z, *o):
            tensor.retain_grad()
        (0.5 * (o[-1] - y).square().sum()).backward()

    def moved(leaf: Tensor) -> Tensor:
        return (leaf - lr * _gradient(leaf)).detach()

    return [
        LayerState(
            W.detach(),
            None if b is None else b.detach(),
            o[i].detach(),
            z[i].detach(),
            o[i + 1].detach(),
            _gradient(z[i]),
            _gradient(o[i]),
            (moved(W), None if b is None else moved(b)),
            spec.is_linear(i + 1),
        )
        for i, (W, b) in enumerate(leaves)
    ]


def _gradient(tensor: Tensor) -> Tensor:
    assert tensor.grad is not None
    return tensor.grad


def spec_of(program: Program) -> NetworkSpec:
    """The network a program trains."""
    return program.problem.spec


def exact_blocks(states: Sequence[LayerState], x: Tensor, y: Tensor) -> tuple[Blocks, Blocks]:
    """The blocks a round starts from, and those it should write, padded to the widest layer."""
    width = max(max(s.W.shape) for s in states)

    def block(values: dict[str, Tensor], flags: dict[str, float]) -> Block:
        return make_block({**{slot: _fit(v, width) for slot, v in values.items()}, **flags})

    start: Blocks = {
        ("X", 0): block({"out": x}, DATA_FLAGS),
        ("Y", 0): block({"out": y}, DATA_FLAGS),
    }
    written: Blocks = {}
    for i, s in enumerate(states, 1):
        linear = {"linear": 1.0} if s.linear else {}
        start[("B", i)] = block(_layer(s.W, s.b), {**linear, **BACKWARD_FLAGS})
        # Padded units of a hidden layer have z = 0 and are closed.
        closed = torch.zeros_like(s.z) if s.linear else 1.0 - _fit(s.slope, width)
        forward = {"out": s.out, "inp": s.inp, "closed": closed, **_layer(s.W, s.b)}
        written[("F", i)] = block(forward, {**linear, **FORWARD_FLAGS})
        backward = {"out": s.delta, "inp": s.signal, **_layer(*s.new)}
        written[("B", i)] = block(backward, {**linear, **BACKWARD_FLAGS})
    return start, written


def _fit(value: Tensor, width: int) -> Tensor:
    pad = [n for size in reversed(value.shape) for n in (0, width - size)]
    return torch.nn.functional.pad(value, pad)


def _layer(W: Tensor, b: Tensor | None) -> dict[str, Tensor]:
    return {"weight": W} if b is None else {"weight": W, "bias": b}


def unwatched(program: Program, executor: ExecutorName = "structured") -> Executor:
    """An executor for steps outside a run: a wrong mask rule may well leave the certified range."""
    watch = RangeWatch(math.inf, program.step.slope, lambda largest: 0.0)
    assert isinstance(program.step, Layer)
    if executor == "dense":
        return DenseExecutor(program.step, program.layout, program.layout["out"].size, watch)
    return StructuredExecutor(program.step, ("top", "bottom"), watch, batched=False, keep_all=True)


def single_steps(
    program: Program, weights: Weights, x: Tensor, y: Tensor, executor: ExecutorName = "structured"
) -> Iterator[tuple[Step, float]]:
    """Every step of a round taken from exact blocks, with the largest error in any slot it writes."""
    lr = program.optimizer.lr
    live, exact = exact_blocks(exact_states(spec_of(program), weights, x, y, lr), x, y)
    engine = unwatched(program, executor)
    for step in program.mask.steps():
        with torch.no_grad():
            visible = [engine.load(live[address]) for address in step.reads]
            got = engine.dump(engine.step(visible, step, 1))
        yield step, block_distance(got, exact[step.writes])
        live[step.writes] = exact[step.writes]


def largest(values: Iterable[float]) -> float:
    """The maximum; unlike max, NaN if any value is."""
    return float(torch.tensor(list(values), dtype=torch.float64).max())


def block_distance(got: Block, wanted: Block) -> float:
    """Largest difference over the slots of the wanted block; NaN stays NaN."""
    gaps = []
    for slot in wanted.tags:
        target = torch.as_tensor(wanted.value(slot))
        value = torch.as_tensor(got.value(slot), dtype=target.dtype)
        if value.dim():
            # Runs of networks with unequal widths leave padding out; what it holds is exactly known.
            corner = tuple(
                slice(0, min(n, m)) for n, m in zip(value.shape, target.shape, strict=True)
            )
            value, target = value[corner], target[corner]
        gaps.append((value - target).abs().max())
    return float(torch.stack(gaps).max())


def step_accuracies(program: Program, weights: Weights, x: Tensor, y: Tensor) -> StepErrors:
    """The accuracies eps_x, eps_forward, eps_y, eps_backward that a round's steps really have."""
    worst = dict.fromkeys(("x", "forward", "y", "backward"), 0.0)
    for step, error in single_steps(program, weights, x, y):
        worst[step.kind] = largest([worst[step.kind], error])
    return StepErrors(**worst)


def weight_distance(left: Weights, right: Weights) -> float:
    """Largest difference over all entries of all W and b; NaN stays NaN."""
    gaps = [
        (p - q).abs().max()
        for pair, other in zip(left, right, strict=True)
        for p, q in zip(pair, other, strict=True)
        if p is not None and q is not None
    ]
    return float(torch.stack(gaps).max())
