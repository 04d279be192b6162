"""What the checkers of [DEEP] share: small problems, the paper's recursion written out, and one step's bound.

Weights are lists of matrices V_1..V_N without biases, tokens are rows; the loss of an example is |p - y|^2
and L_n its sum over 2n, as in (2.2), so that u = 2 (p - y).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms import compile as compile_program
from icgd.oracle.network_gd import network_gd_step, network_gd_steps
from icgd.papers.deep.statements.bounds import Setting
from icgd.papers.measuring import UNIT as UNIT
from icgd.papers.measuring import matrices as matrices
from icgd.papers.measuring import step_bound
from icgd.problems import GD, Network, Weights
from icgd.problems.activations import ACTIVATIONS
from icgd.transformer.blocks import pack_block
from icgd.transformer.gadgets.fits.relu_sum import ReluSum, fit_relu_sum
from icgd.transformer.program import Program

F64 = torch.float64
Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """A network without biases, data, and initial weights inside the box."""

    network: Network
    X: Tensor
    Y: Tensor
    init: Weights
    lr: float
    box: float

    @property
    def matrices(self) -> list[Tensor]:
        """V_1..V_N at the start."""
        return [W for W, _ in self.init]

    def program(self, **options: Any) -> Program:
        """The compiled stack."""
        gd = GD(self.lr, box=self.box)
        return compile_program(self.network, gd, method="stack", **{"radius": 5.0, **options})

    def exact(self, steps: int) -> list[Weights]:
        """Autograd's gradient descent with the same box, step by step."""
        path = network_gd_steps(self.network.spec, self.init, self.X, self.Y, self.lr, self.box)
        return [next(path) for _ in range(steps)]


def make_case(
    widths: Sequence[int],
    activation: str = "tanh",
    *,
    seed: int = 0,
    n: int = 12,
    lr: float = 0.5,
    box: float = 1.5,
    output: str | None = None,
    scale: float = 0.5,
) -> Case:
    """Standard normal inputs, targets in [-1/2, 1/2], weights of the given scale."""
    g = torch.Generator().manual_seed(seed)
    network = Network(widths, activation, output=output or activation, bias=False)
    X = torch.randn(n, widths[0], generator=g, dtype=F64)
    Y = torch.rand(n, widths[-1], generator=g, dtype=F64) - 0.5
    init: Weights = [
        (torch.randn(b, a, generator=g, dtype=F64).mul(scale).clamp(-box, box), None)
        for a, b in pairwise(widths)
    ]
    return Case(network, X, Y, init, lr, box)


# -- the recursion of Definitions 1 to 3 ---------------------------------------------------------


@dataclass(frozen=True)
class Terms:
    """p(0..N), r'(1..N), g, s(1..N), one row an example, and the N blocks of the gradient."""

    p: list[Tensor]
    slopes: list[Tensor]
    g: Tensor
    s: list[Tensor]
    gradient: list[Tensor]
    z: list[Tensor]


def twice_residual(p: Tensor, y: Tensor) -> Tensor:
    """u of the squared error."""
    return 2 * (p - y)


def recursion(
    V: Sequence[Tensor],
    X: Tensor,
    Y: Tensor,
    r: Map,
    slope: Map,
    u: Callable[[Tensor, Tensor], Tensor] = twice_residual,
    *,
    rows: bool = False,
) -> Terms:
    """p, r', g, s and the gradient from any stand-ins for r, r' and u.

    Statement: [DEEP] Definition 3

    rows  multiply s(j+1) with row k of V_{j+1}, as the proof of Lemma 6 does

    Differs from the paper: no, unless `rows`.
    """
    p, z = [X], list[Tensor]()
    for W in V:
        z.append(p[-1] @ W.T)
        p.append(r(z[-1]))
    slopes, g = [slope(t) for t in z], u(p[-1], Y)
    s = [slopes[-1] * g]
    for j in range(len(V) - 2, -1, -1):
        W = V[j + 1].T if rows else V[j + 1]
        s.insert(0, slopes[j] * (s[0] @ W))
    gradient = [s[j].T @ p[j] / (2 * len(X)) for j in range(len(V))]
    return Terms(p, slopes, g, s, gradient, z)


def autograd_gradient(V: Sequence[Tensor], X: Tensor, Y: Tensor, r: Map) -> list[Tensor]:
    """The gradient of 1/(2n) sum |p(N) - y|^2 by automatic differentiation."""
    leaves = [W.detach().clone().requires_grad_(True) for W in V]
    with torch.enable_grad():
        p = X
        for W in leaves:
            p = r(p @ W.T)
        loss = (p - Y).square().sum() / (2 * len(X))
    return list(torch.autograd.grad(loss, leaves))


def fits(name: str, radius: float, n_relu: int) -> tuple[ReluSum, ReluSum]:
    """Sums of ReLUs for r and r' on [-radius, radius], equal segments."""
    act = ACTIVATIONS[name]
    _, second, third, fourth, _ = act.bounds
    value = fit_relu_sum(act.apply, radius, n_relu - 1, second=second, third=third)
    return value, fit_relu_sum(act.derivative, radius, n_relu - 1, second=third, third=fourth)


def tanh_size(z: float) -> float:
    """max |tanh(t)| over |t| <= z."""
    return math.tanh(z)


def forward_setting(its: Case, eps: float, *, activation: str = "tanh") -> Setting:
    """The constants of a case at its initial weights, fits off by eps included.

    B_v bounds the rows and the columns of every matrix, so that Lemma 6 holds as printed.
    """
    act, widths, V = ACTIVATIONS[activation], its.network.widths, its.matrices
    B_v = max(float(torch.cat([W.norm(dim=1), W.norm(dim=0)]).max()) for W in V)
    terms = recursion(V, its.X, its.Y, act.apply, act.derivative)
    return Setting(
        n_layers=len(V),
        width=max(widths[1:-1]),
        d=widths[-1],
        B_v=B_v,
        B_x=float(its.X.norm(dim=1).max()),
        L_r=act.bounds[0],
        L_slope=act.bounds[1],
        L_loss=2.0,
        B_r=max(float(p.abs().max()) for p in terms.p[1:]) + eps,
        B_slope=max(float(t.abs().max()) for t in terms.slopes) + eps,
        B_loss=float(terms.g.abs().max()) + 2 * eps,
    )


def packed(program: Program, its: Case) -> Tensor:
    """The tokens a run starts with."""
    session = program.codec.session(its.X, its.Y, init=its.init, epochs=None, steps=1, padded=False)
    (block,) = session.prompt.values()
    return pack_block(block, program.layout, len(its.X), program.step.like)


def gap(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The largest difference of an entry."""
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


def distance(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The 2-norm of all differences together."""
    return math.sqrt(sum(float((a - b).square().sum()) for a, b in zip(one, other, strict=True)))


# -- one step of a compiled stack against autograd, with a bound computed from its own certificates ----


@dataclass(frozen=True)
class Walk:
    """Every step of a run held against the exact step from the same weights."""

    step_errors: list[float]
    step_bounds: list[float]
    within: bool
    errors: list[float]
    weights: list[Weights]
    exact: list[Weights]

    @property
    def worst(self) -> tuple[float, float]:
        """(error, bound) of the step with the largest error."""
        return max(zip(self.step_errors, self.step_bounds, strict=True))


def walk(its: Case, program: Program, steps: int, **options: Any) -> Walk:
    """Run a stack and judge it step by step."""
    run = program.run(its.X, its.Y, init=its.init, steps=steps, record="weights", **options)
    assert run.history is not None
    before, errors, bounds, within = its.init, list[float](), list[float](), True
    for after in run.history:
        exact = network_gd_step(its.network.spec, before, its.X, its.Y, its.lr, its.box)
        promised = step_bound(program, before, its.X, its.Y)
        missed = [(a - e).abs() for a, e in zip(matrices(after), matrices(exact), strict=True)]
        within = within and all(bool((m <= b).all()) for m, b in zip(missed, promised, strict=True))
        errors.append(max(float(m.max()) for m in missed))
        bounds.append(max(float(b.max()) for b in promised))
        before = after
    exact_path = its.exact(steps)
    off = [gap(matrices(w), matrices(e)) for w, e in zip(run.history, exact_path, strict=True)]
    return Walk(errors, bounds, within, off, run.history, exact_path)
