"""Probe blocks for linear models: one step from random weights, numbers over the whole certified range.

A training run asks its heads what training needs; probes ask everything else. Blocks of a single
example hold one head to its certificate; blocks of a few check that heads do not mix examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.nn.structured import weights_stay_fixed
from icgd.program import Program
from icgd.program.program import ExecutorName
from icgd.verification.statistics_bound import StepBound, statistics_codec, step_bound

N_SINGLE, N_SEVERAL = 193, 24
EXECUTORS: tuple[ExecutorName, ...] = ("structured", "dense")


@dataclass(frozen=True)
class StatisticsProbe:
    """The worst of a set of probes: measured error of an entry of w, and its bound."""

    executor: str
    n_blocks: int
    n_examples: int
    error: float
    bound: float
    passed: bool


def run_statistics_probes(
    program: Program, *, n_sets: int = 1, seed: int = 0
) -> list[StatisticsProbe]:
    """Every kind of probe on both executors."""
    generator = torch.Generator().manual_seed(seed)
    results = []
    for _ in range(n_sets):
        for n_blocks, n in ((N_SINGLE, 1), (N_SEVERAL, 4)):
            blocks = _blocks(program, n_blocks, n, generator)
            results += [_judge(program, name, n, *blocks) for name in EXECUTORS]
    return results


def _blocks(
    program: Program, n_blocks: int, n: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Examples and weights whose w.x (+ b) runs over [-radius, radius], edges included."""
    codec = statistics_codec(program)
    spec, d = codec.spec, codec.spec.n_features

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64) * 2 - 1

    reach = min(program.radius, 40.0 if math.isinf(codec.tables.slope.radius) else math.inf)
    wanted = torch.linspace(-1, 1, n_blocks, dtype=torch.float64).unsqueeze(-1).expand(-1, n)
    wanted = wanted if n == 1 else uniform(n_blocks, n)
    if spec.loss.name == "poisson":
        # exp over the whole range would drown small numbers in large ones.
        reach = min(reach, 12.0)
    y = _targets(program, uniform(n_blocks, n))
    s = wanted * reach * (1 - 1e-6)
    if spec.loss.form == "residual":
        s = s + y  # the residual is what the head reads
    elif spec.loss.form == "margin":
        s = s * y
    w = uniform(n_blocks, d)
    x = uniform(n_blocks, n, d)
    bias = uniform(n_blocks, 1) if spec.intercept else torch.zeros(n_blocks, 1, dtype=torch.float64)
    # Move x along w until w.x + b is what is wanted.
    now = (x @ w.unsqueeze(-1)).squeeze(-1) + bias
    x = x + ((s - now) / w.square().sum(-1, keepdim=True)).unsqueeze(-1) * w.unsqueeze(1)
    if spec.x_radius is not None:
        # The codec refuses longer examples: lengthen w instead.
        scale = (x.norm(dim=-1).amax(dim=-1) / spec.x_radius).clamp(min=1.0) * (1 + 1e-9)
        x, w = x / scale[:, None, None], w * scale[:, None]
    full = torch.cat([w, bias], dim=-1) if spec.intercept else w
    return tuple(t.to(program.dtype) for t in (x, y, full))  # type: ignore[return-value]


def _targets(program: Program, uniform: Tensor) -> Tensor:
    codec = statistics_codec(program)
    loss = codec.spec.loss
    if loss.name == "logistic":
        return (uniform > 0).double()
    if loss.form == "margin":
        return torch.where(uniform > 0, 1.0, -1.0).double()
    if loss.name == "poisson":
        return (uniform.abs() * min(20.0, codec.target_radius)).floor()
    if loss.form == "residual":
        return uniform * min(4.0, program.radius / 4)
    return uniform * codec.target_radius * (1 - 1e-6)


def _judge(
    program: Program, executor: ExecutorName, n: int, x: Tensor, y: Tensor, w: Tensor
) -> StatisticsProbe:
    bound: StepBound = step_bound(program, executor)
    with weights_stay_fixed():
        got = program.run(x, y, init=w, steps=1, executor=executor, watch=False).weights.double()
    exact = _exact(bound, x.double(), y.double(), w.double())
    error = (got - exact).abs()
    allowed = bound(w, x, y)
    excess = torch.where(torch.isnan(error), torch.inf, error - allowed)
    at = int(excess.argmax())
    return StatisticsProbe(
        executor, x.shape[0], n, float(error.reshape(-1)[at]), float(allowed.reshape(-1)[at]),
        float(excess.max()) <= 0,
    )  # fmt: skip


def _exact(bound: StepBound, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """One exact step of every block by autograd; blocks are independent, so one sum serves all."""
    from icgd.reference.gd import prox_l1

    spec, d = bound.spec, bound.spec.n_features
    point = w.clone().requires_grad_(True)
    with torch.enable_grad():
        s = (x @ point[:, :d].unsqueeze(-1)).squeeze(-1)
        s = s + point[:, d:] if spec.intercept else s
        total = spec.loss.of(s, y).mean(dim=-1).sum()
        if spec.penalty == "l2":
            total = total + 0.5 * spec.lam * point[:, :d].square().sum()
        (grad,) = torch.autograd.grad(total, point)
    moved = w - bound.lr * grad
    return prox_l1(moved, d, bound.lr * spec.lam) if spec.penalty == "l1" else moved
