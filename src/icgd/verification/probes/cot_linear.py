"""Probe blocks for linear models: one step from random weights, numbers over the whole certified range.

A training run asks its heads what training needs; probes ask everything else. Blocks of a single
example hold one head to its certificate; blocks of a few check that heads do not mix examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.transformer.blocks import Block
from icgd.transformer.nn.symbolic import weights_stay_fixed
from icgd.transformer.program import Program
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.verification.bounds.cot_linear import StepBound, linear_model_codec, step_bound

N_SINGLE, N_SEVERAL = 193, 24
EXECUTORS: tuple[ExecutorName, ...] = ("structured", "dense")


@dataclass(frozen=True)
class LinearModelProbe:
    """The worst of a set of probes: measured error of an entry of w (or a prediction), and its bound."""

    kind: str
    executor: str
    n_blocks: int
    n_examples: int
    error: float
    bound: float
    passed: bool


def run_linear_model_probes(
    program: Program, *, n_sets: int = 1, seed: int = 0
) -> list[LinearModelProbe]:
    """Every kind of probe on both executors."""
    generator = torch.Generator().manual_seed(seed)
    results = []
    for _ in range(n_sets):
        for n_blocks, n in ((N_SINGLE, 1), (N_SEVERAL, 4)):
            blocks = _blocks(program, n_blocks, n, generator)
            results += [_judge(program, name, n, *blocks) for name in EXECUTORS]
            if n == 1:
                x, _, w = blocks
                x, w = _plain_scores(program, x, w)
                results += [_judge_prediction(program, name, x, w) for name in EXECUTORS]
    return results


def _blocks(
    program: Program, n_blocks: int, n: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Examples and weights whose w.x (+ b) runs over [-radius, radius], edges included."""
    codec = linear_model_codec(program)
    spec, d = codec.spec, codec.spec.n_features

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64) * 2 - 1

    reach = 40.0 if math.isinf(program.radius) else program.radius
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


def _plain_scores(program: Program, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Blocks made for residuals or margins, shrunk until w.x itself is within the radius."""
    spec = linear_model_codec(program).spec
    weight = w[:, : spec.n_features]
    s = (x[:, 0] * weight).sum(-1) + (w[:, spec.n_features] if spec.intercept else 0.0)
    reach = min(codec_radius(program), 40.0 if math.isinf(program.radius) else math.inf)
    scale = (s.abs() / (reach * (1 - 1e-6))).clamp(min=1.0).unsqueeze(-1)
    return x, w / scale


def codec_radius(program: Program) -> float:
    """The range of the prediction head."""
    return linear_model_codec(program).tables.prediction.radius


def _targets(program: Program, uniform: Tensor) -> Tensor:
    codec = linear_model_codec(program)
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
) -> LinearModelProbe:
    bound: StepBound = step_bound(program, executor)
    with weights_stay_fixed():
        run = program.run(x, y, init=w, steps=1, executor=executor, watch=False, record="trace")
    exact = _exact(bound, x.double(), y.double(), w.double())
    error = (run.weights.double() - exact).abs()
    allowed = bound(w, x, y)
    excess = torch.where(torch.isnan(error), torch.inf, error - allowed)
    at = int(excess.argmax())
    carried = _carried(program, run.trace[-1].block, x, y)
    return LinearModelProbe(
        "update",
        executor,
        x.shape[0],
        n,
        float(error.reshape(-1)[at]),
        float(allowed.reshape(-1)[at]),
        carried and float(excess.max()) <= 0,
    )


def _carried(program: Program, block: Block, x: Tensor, y: Tensor) -> bool:
    """Whether the examples and the 1 arrived in the next block bit by bit."""
    kept: dict[str, Tensor] = {"x": x, "one": torch.ones((), dtype=x.dtype)}
    if linear_model_codec(program).spec.loss.form == "margin":
        kept |= {"positive": (y > 0).to(y), "negative": (y < 0).to(y)}
    else:
        kept["y"] = y
    return all(
        bool((torch.as_tensor(block.value(slot)) == value).all()) for slot, value in kept.items()
    )


def _judge_prediction(
    program: Program, executor: ExecutorName, x: Tensor, w: Tensor
) -> LinearModelProbe:
    """The prediction layer on single examples, against the link itself."""
    codec = linear_model_codec(program)
    spec, d, table = codec.spec, codec.spec.n_features, codec.tables.prediction
    u = torch.finfo(program.dtype).eps / 2
    with weights_stay_fixed():
        got = program.predict(x, w, executor=executor, watch=False).double().reshape(-1)
    X, W = x.double(), w.double()
    parts = X[:, 0] * W[:, :d]
    s, size = parts.sum(-1), parts.abs().sum(-1)
    if spec.intercept:
        s, size = s + W[:, d], size + W[:, d].abs()
    exact = spec.loss.slope(s) if spec.loss.form == "link" else s
    low, high = spec.loss.bends(max(1e-3, float(s.abs().max())))
    steep = max(abs(low), abs(high)) if spec.loss.form == "link" else 1.0
    terms = d + 2 if executor == "dense" else 1
    promised = (3 + terms) / 2 * table.certificate.sup_error
    promised_each = promised * (exact.abs() if table.relative else torch.ones_like(exact))
    allowed = promised_each + 2.2 * steep * (d + 4) * u * size + 8 * u * exact.abs()
    error = (got - exact).abs()
    excess = torch.where(torch.isnan(error), torch.inf, error - allowed)
    at = int(excess.argmax())
    return LinearModelProbe(
        "prediction",
        executor,
        x.shape[0],
        1,
        float(error[at]),
        float(allowed[at]),
        float(excess.max()) <= 0,
    )


def _exact(bound: StepBound, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """One exact step of every block by autograd; blocks are independent, so one sum serves all."""
    from icgd.oracle.gd import prox_l1

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
