"""Probes of a stack: random weights and data, every slot looked at, on every executor that fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.mechanisms.stacks.codec import STATE, StackCodec
from icgd.oracle.network_gd import network_gd_step
from icgd.oracle.sgd import torch_network
from icgd.problems import NetworkSpec, Weights
from icgd.problems.targets import fitting_targets
from icgd.transformer.mask_rules import Step
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.nn.symbolic import weights_stay_fixed
from icgd.transformer.program import Program
from icgd.transformer.runtime.executors.choose import STACK_PARAMETER_LIMIT, ExecutorName
from icgd.transformer.runtime.executors.stack import StackExecutor
from icgd.transformer.runtime.watch import RangeWatch
from icgd.verification.bounds.stack import StepBound, near_weights

SPARSE_LIMIT = 3_000_000_000
DENSE_LIMIT = 20_000_000_000
"""Operations a probe may take."""


@dataclass(frozen=True)
class StackProbe:
    """One probe: the largest error of a step's new weights (or of predictions) and its bound."""

    name: str
    executor: str
    error: float
    bound: float
    passed: bool


def run_stack_probes(
    program: Program,
    make_bound: Callable[[Program, ExecutorName], StepBound],
    *,
    n_sets: int = 1,
    seed: int = 0,
) -> list[StackProbe]:
    """One step from random states, small and large weights, against an exact step."""
    codec = program.codec
    assert isinstance(codec, StackCodec)
    assert isinstance(program.step, Stack)
    n = codec.n_examples or 6
    names: list[ExecutorName] = ["collapsed"]
    if sum(c.sparse_flops(n + 1) for c in program.step.counts()) <= SPARSE_LIMIT:
        names.append("sparse")
    if (
        program.step.dense_parameters(n) <= STACK_PARAMETER_LIMIT
        and program.step.dense_flops(n + 1) <= DENSE_LIMIT
    ):
        names.append("dense")
    probes = []
    with torch.no_grad(), weights_stay_fixed():
        for which in range(n_sets):
            for name, size in (("small", 0.3), ("unit", 1.0)):
                generator = torch.Generator().manual_seed(1000 * seed + which)
                state = _state(program, codec, n, size, generator)
                for executor in names:
                    bound = make_bound(program, executor)
                    for kind, probe in (("step", _probe), ("prediction", _prediction)):
                        label = f"{kind}, {name} weights"
                        try:
                            probes.append(probe(program, codec, label, state, executor, bound))
                        except AssumptionViolated:
                            # Tokens that no longer agree, or no numbers at all: a verdict, no accident.
                            probes.append(StackProbe(label, executor, math.inf, 0.0, False))
    return probes


def _state(
    program: Program, codec: StackCodec, n: int, size: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, Weights]:
    """Data and weights of this size; pre-activations stay inside the certified range."""
    spec, like = codec.spec, codec.like

    def random(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64).mul_(2).sub_(1)

    limit = 1.0 if codec.box is None else codec.box
    weights: Weights = []
    for j in range(1, spec.n_layers + 1):
        inp = spec.widths[j - 1]
        W = random(spec.widths[j], inp) * min(limit, size * (3.0 / inp) ** 0.5)
        b = random(spec.widths[j]) * min(limit, size) / 2 if spec.bias else None
        weights.append((W.to(like), None if b is None else b.to(like)))
    reach = min(1.0, float(program.options["signal_radius"]))
    X, Y = random(n, spec.widths[0]) * reach, random(n, spec.widths[-1])
    # Pre-activations must stay where the program is certified: smaller weights until they do.
    for _ in range(60):
        x, largest = X, 0.0
        for j, (W, b) in enumerate(weights, 1):
            x = x @ W.double().T + (0.0 if b is None else b.double())
            largest = max(largest, float(x.abs().max()))
            x = spec.activation_of(j).apply(x)
        if largest <= 0.9 * program.radius:
            break
        weights = [(W * 0.7, None if b is None else b * 0.7) for W, b in weights]
    return X.to(like), fitting_targets(spec.loss, Y, codec.target_radius).to(like), weights


def _probe(
    program: Program,
    codec: StackCodec,
    name: str,
    state: tuple[Tensor, Tensor, Weights],
    executor: ExecutorName,
    bound: StepBound,
) -> StackProbe:
    X, Y, weights = state
    spec, gd = codec.spec, program.optimizer
    session = codec.session(X, Y, init=weights, steps=1, padded=False)
    assert isinstance(program.step, Stack)
    watch = RangeWatch(torch.inf, program.step.slope, lambda largest: 0.0)
    engine = StackExecutor(program.step, program.layout, session.n_columns, executor, watch)
    before = engine.load(session.prompt[STATE])
    after = engine.step([before], Step("update", STATE, (STATE,)), 1)
    moved = session.decode({STATE: engine.dump(after)})
    exact = network_gd_step(spec, weights, X, Y, gd.lr, gd.box)
    promised = bound(weights, X, Y)
    error, limit, passed = 0.0, 0.0, True
    for (W, b), (V, c), (e_W, e_b) in zip(moved, exact, promised, strict=True):
        for have, want, e in ((W, V, e_W), (b, c, e_b)):
            if have is None or want is None or e is None:
                continue
            off = (have.double() - want.double()).abs()
            error, limit = max(error, float(off.max())), max(limit, float(e.max()))
            passed &= bool((off <= e).all())
    kept = torch.ones(program.layout.width, dtype=torch.bool)
    for slot in program.layout:
        kept[program.layout.slice(slot.name)] = not slot.name.startswith(("weight", "bias"))
    # Data and flags as they were, scratch slots empty again: nothing else may have changed.
    passed &= bool(torch.equal(before[..., kept], after[..., kept]))
    return StackProbe(name, executor, error, limit, passed)


def _prediction(
    program: Program,
    codec: StackCodec,
    name: str,
    state: tuple[Tensor, Tensor, Weights],
    executor: ExecutorName,
    bound: StepBound,
) -> StackProbe:
    X, _, weights = state
    spec: NetworkSpec = codec.spec
    predicted = program.predict(X, weights, executor=executor, watch=False).double()
    wide = [(W.double(), None if b is None else b.double()) for W, b in weights]
    exact = torch_network(spec, wide)(X.double())
    off = float((predicted - exact).abs().max())
    promised = bound.output(near_weights(weights, None), X.double()).error
    limit = float(promised.max())
    passed = bool(((predicted - exact).abs() <= promised).all())
    return StackProbe(name, executor, off, limit, passed)
