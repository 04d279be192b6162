"""The shared table of linear models, their data, and the tests' own oracle.

`exact_gd` descends by autograd on an objective written here, without anything of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

import icgd


@dataclass(frozen=True)
class LinearCase:
    """A linear model with data; `loss(s, y)` is the tests' own, `exact` whether 1e-12 is due."""

    name: str
    make: Callable[[int], icgd.LinearModel]
    loss: Callable[[Tensor, Tensor], Tensor]
    targets: str
    lr: float = 0.1
    exact: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def data(self, n: int, d: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        X = torch.randn(n, d, generator=generator, dtype=torch.float64)
        s = X @ torch.randn(d, generator=generator, dtype=torch.float64) / d**0.5
        noise = 0.3 * torch.randn(n, generator=generator, dtype=torch.float64)
        if self.targets == "label":
            return X, (s + noise > 0).double()
        if self.targets == "sign":
            return X, torch.where(s + noise > 0, 1.0, -1.0).double()
        if self.targets == "count":
            return 0.5 * X, torch.poisson(torch.exp(0.5 * s), generator=generator)
        if self.targets == "small":
            return X, (s + noise).clamp(-2, 2)
        return X, s + noise

    def exact_gd(self, problem: icgd.LinearModel, X: Tensor, y: Tensor, steps: int) -> list[Tensor]:
        """w after every step, by autograd; soft-thresholding entry by entry."""
        spec = problem.spec
        w = torch.zeros(X.shape[1] + spec.intercept, dtype=torch.float64)
        found = []
        for _ in range(steps):
            point = w.clone().requires_grad_(True)
            weight = point[: X.shape[1]]
            s = X @ weight + (point[-1] if spec.intercept else 0.0)
            value = self.loss(s, y).mean()
            if spec.penalty == "l2":
                value = value + spec.lam / 2 * (weight**2).sum()
            value.backward()
            assert point.grad is not None
            w = w - self.lr * point.grad
            if spec.penalty == "l1":
                cut = self.lr * spec.lam
                for j in range(X.shape[1]):
                    v = float(w[j])
                    w[j] = v - cut if v > cut else v + cut if v < -cut else 0.0
            found.append(w.clone())
        return found


def _log_cosh(r: Tensor) -> Tensor:
    return r.abs() + softplus(-2 * r.abs())


def _joint(s: Tensor, y: Tensor) -> Tensor:
    return softplus(s * torch.tanh(y)) + 0.1 * s * s * torch.cos(y) ** 2


def _huber(s: Tensor, y: Tensor) -> Tensor:
    r = (s - y).abs()
    return torch.where(r <= 1, r * r / 2, r - 0.5)


def _square(s: Tensor, y: Tensor) -> Tensor:
    return (s - y) ** 2 / 2


def _softplus(s: Tensor, y: Tensor) -> Tensor:
    return softplus(s) - y * s


def _exp(s: Tensor, y: Tensor) -> Tensor:
    return torch.exp(s) - y * s


def _hinge(s: Tensor, y: Tensor) -> Tensor:
    return (1 - y * s).relu() ** 2 / 2


def _soft_link(s: Tensor, y: Tensor) -> Tensor:
    # int_0^s softplus, by its derivative: only the gradient is ever used.
    return _Softplus.apply(s) - y * s


class _Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor) -> Tensor:
        ctx.save_for_backward(s)
        return torch.zeros_like(s)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (s,) = ctx.saved_tensors
        return grad * softplus(s)


LINEAR = [
    LinearCase("ridge", lambda d: icgd.Ridge(d, 0.1), _square, "number"),
    LinearCase("plain", lambda d: icgd.GLM(d, "identity"), _square, "number"),
    LinearCase("ridge_bias", lambda d: icgd.Ridge(d, 0.1, intercept=True), _square, "number"),
    LinearCase("lasso", lambda d: icgd.Lasso(d, 0.05), _square, "number"),
    LinearCase("lasso_bias", lambda d: icgd.Lasso(d, 0.05, intercept=True), _square, "number"),
    LinearCase("logistic", lambda d: icgd.GLM(d, "logistic", 0.01), _softplus, "label", lr=0.5),
    LinearCase(
        "logistic_bias", lambda d: icgd.GLM(d, "logistic", 0.01, intercept=True), _softplus, "label"
    ),
    LinearCase(
        "logistic_grid",
        lambda d: icgd.GLM(d, "logistic", 0.01),
        _softplus,
        "label",
        options={"native": False},
    ),
    LinearCase("poisson", lambda d: icgd.GLM(d, "poisson", 0.01), _exp, "count"),
    LinearCase(
        "poisson_bias", lambda d: icgd.GLM(d, "poisson", 0.01, intercept=True), _exp, "count"
    ),
    LinearCase("user_link", lambda d: icgd.GLM(d, softplus, 0.1), _soft_link, "label"),
    LinearCase(
        "log_cosh",
        lambda d: icgd.LinearModel(d, icgd.residual_loss(_log_cosh), 0.05),
        lambda s, y: _log_cosh(s - y),
        "number",
    ),
    LinearCase(
        "soft_margin",
        lambda d: icgd.LinearModel(
            d, icgd.margin_loss(lambda m: softplus(-m)), 0.05, intercept=True
        ),
        lambda s, y: softplus(-y * s),
        "sign",
    ),
    LinearCase(
        "joint",
        lambda d: icgd.LinearModel(d, icgd.joint_loss(_joint), 0.1),
        _joint,
        "small",
        exact=False,
        options={"n_grid": 64, "target_radius": 3.0},
    ),
    LinearCase(
        "huber",
        lambda d: icgd.LinearModel(d, "huber", 0.05),
        _huber,
        "number",
        exact=False,
        options={"n_grid": 128},
    ),
    LinearCase(
        "squared_hinge",
        lambda d: icgd.LinearModel(d, "squared_hinge", 0.05, intercept=True),
        _hinge,
        "sign",
        exact=False,
        options={"n_grid": 128},
    ),
]
LINEAR_BY_NAME = {case.name: case for case in LINEAR}
SHAPES = [(1, 1), (5, 1), (1, 4), (12, 3)]
