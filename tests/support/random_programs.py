"""Random programs of every family, with data of many scales and an oracle of one step by autograd.

A draw is a function of (family, seed) alone, so that a failing one can be named and drawn again. The
oracle is plain torch: it shares nothing with compilers, executors or `icgd.oracle`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import icgd

F64 = torch.float64
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": functional.softplus,
    "gelu": functional.gelu,
}


@dataclass
class Draw:
    """A program, the data of one step, and what the exact optimizer makes of them.

    run     arguments of `program.run` for one step
    exact   the weights after that step, layer by layer, by autograd
    before  the weights it starts from
    """

    program: icgd.Program
    X: Tensor
    y: Tensor
    run: dict[str, Any]
    exact: list[Tensor]
    before: list[Tensor]

    @property
    def update(self) -> float:
        """The largest change of a weight in the exact step."""
        return apart(self.exact, self.before)


def apart(left: list[Tensor], right: list[Tensor]) -> float:
    """The largest difference; infinite numbers differ from everything."""
    worst = 0.0
    for a, b in zip(left, right, strict=True):
        gap = (a.reshape(-1).to(F64) - b.reshape(-1).to(F64)).abs()
        worst = max(worst, float(gap.max()) if gap.numel() else 0.0)
    return worst if worst == worst else float("inf")


def flat(weights: Any) -> list[Tensor]:
    """The weights of a run as a list of tensors."""
    if isinstance(weights, Tensor):
        return [weights]
    return [p for pair in weights for p in pair if p is not None]


# -- networks -------------------------------------------------------------------------------------


def _network_step(
    widths: tuple[int, ...], act: str, init: list[Any], X: Tensor, Y: Tensor, lr: float
) -> list[Tensor]:
    leaves = [[p.clone().requires_grad_(True) for p in pair if p is not None] for pair in init]
    out = X
    for i, pair in enumerate(leaves):
        z = out @ pair[0].T + (pair[1] if len(pair) == 2 else 0.0)
        out = z if i == len(widths) - 2 else ACTIVATIONS[act](z)
    loss = (out - Y).square().sum(dim=1).mean() / 2
    every = [p for pair in leaves for p in pair]
    return [
        (p - lr * g).detach() for p, g in zip(every, torch.autograd.grad(loss, every), strict=True)
    ]


def _network_data(pick: random.Random, widths: tuple[int, ...], n: int, bias: bool) -> tuple:
    g = torch.Generator().manual_seed(pick.randrange(2**31))
    scale = 10.0 ** pick.choice((-14, -6, -2, -1, 0, 0, 0, 0.5, 1, 3))
    X = scale * torch.randn(n, widths[0], generator=g, dtype=F64)
    if pick.random() < 0.2:
        X[:, pick.randrange(widths[0])] = pick.choice((0.0, 1.0))
    Y = 10.0 ** pick.choice((-2, 0, 0, 1)) * torch.randn(n, widths[-1], generator=g, dtype=F64)
    size = pick.choice((0.1, 1.0, 1.0))
    init = [
        (
            size * torch.randn(b, a, generator=g, dtype=F64) / a**0.5,
            0.3 * torch.randn(b, generator=g, dtype=F64) if bias else None,
        )
        for a, b in pairwise(widths)
    ]
    return X, Y, init


def chain_of_thought(seed: int) -> Draw:
    """A ReLU network trained by one round of SGD."""
    pick = random.Random(f"cot {seed}")
    widths = tuple(pick.randint(1, 5) for _ in range(pick.randint(2, 5)))
    bias, lr = pick.random() < 0.7, 10.0 ** pick.uniform(-4, 0)
    X, Y, init = _network_data(pick, widths, 1, bias)
    options = pick.choice(({}, {}, {"n_grid": 41, "radius": 64.0}, {"radius": 16.0}))
    program = icgd.compile(icgd.Network(widths, bias=bias), icgd.SGD(lr), **options)
    exact = _network_step(widths, "relu", init, X, Y, lr)
    return Draw(program, X, Y, {"init": init, "epochs": 1}, exact, flat(init))


def _full_batch(family: str, seed: int, **options: Any) -> Draw:
    pick = random.Random(f"{family} {seed}")
    depth = pick.randint(2, 3 if family == "forward_mode" else 4)
    widths = tuple(pick.randint(1, 3) for _ in range(depth))
    act = pick.choice(tuple(ACTIVATIONS))
    bias, lr = pick.random() < 0.5, 10.0 ** pick.uniform(-3, 0)
    X, Y, init = _network_data(pick, widths, pick.randint(1, 6), bias)
    options |= {"n_relu": pick.choice((32, 64)), "method": family}
    if pick.random() < 0.3:
        options["radius"] = pick.choice((4.0, 16.0))
    if family == "stack" and pick.random() < 0.3:
        options["products"] = "attention"
    program = icgd.compile(icgd.Network(widths, act, bias=bias), icgd.GD(lr), **options)
    exact = _network_step(widths, act, init, X, Y, lr)
    return Draw(program, X, Y, {"init": init, "steps": 1}, exact, flat(init))


def stack(seed: int) -> Draw:
    """Full-batch descent by backpropagation through a stack."""
    return _full_batch("stack", seed)


def forward_mode(seed: int) -> Draw:
    """Full-batch descent by forward differentiation."""
    return _full_batch("forward_mode", seed)


# -- linear models --------------------------------------------------------------------------------


def _slope(kind: str, s: Tensor, y: Tensor) -> Tensor:
    if kind == "logistic":
        return torch.sigmoid(s) - y
    return torch.exp(s) - y if kind == "poisson" else s - y


def linear_model(seed: int) -> Draw:
    """A generalised linear model, ridge regression or the lasso, one (proximal) step from 0."""
    pick = random.Random(f"linear {seed}")
    g = torch.Generator().manual_seed(pick.randrange(2**31))
    d, n = pick.randint(1, 4), pick.randint(1, 9)
    kind = pick.choice(("squared", "ridge", "lasso", "logistic", "poisson"))
    X = 10.0 ** pick.choice((-8, -1, 0, 0, 0, 1)) * torch.randn(n, d, generator=g, dtype=F64)
    y = torch.randn(n, generator=g, dtype=F64)
    if kind == "logistic":
        y = (y > 0).to(F64)
    if kind == "poisson":
        y = torch.poisson(torch.exp(y.clamp(max=2.0)), generator=g)
    lr, lam = 10.0 ** pick.uniform(-3, 0), 10.0 ** pick.uniform(-3, 0)
    makers: dict[str, Callable[[], Any]] = {
        "squared": lambda: icgd.GLM(d, "squared", intercept=False),
        "logistic": lambda: icgd.GLM(d, "logistic", intercept=False),
        "poisson": lambda: icgd.GLM(d, "poisson", intercept=False),
        "ridge": lambda: icgd.Ridge(d, lam=lam, intercept=False),
        "lasso": lambda: icgd.Lasso(d, lam=lam, intercept=False),
    }
    program = icgd.compile(makers[kind](), icgd.GD(lr))
    w = torch.zeros(d, dtype=F64)
    after = w - lr * (X.T @ _slope(kind, X @ w, y) / n + (lam * w if kind == "ridge" else 0.0))
    if kind == "lasso":
        after = after.sign() * (after.abs() - lr * lam).clamp(min=0.0)
    return Draw(program, X, y, {"steps": 1}, [after], [w])


def loop(seed: int) -> Draw:
    """Least squares by a loop: softmax heads in several modes, or linear attention."""
    pick = random.Random(f"loop {seed}")
    g = torch.Generator().manual_seed(pick.randrange(2**31))
    d, n = pick.randint(1, 4), pick.randint(2, 9)
    X = 10.0 ** pick.choice((-6, -1, 0, 0, 0, 1)) * torch.randn(n, d, generator=g, dtype=F64)
    y = X @ torch.randn(d, generator=g, dtype=F64) + torch.randn(n, generator=g, dtype=F64)
    lr = 10.0 ** pick.uniform(-3, -0.5)
    options: dict[str, Any] = pick.choice(
        ({}, {"mode": "sym"}, {"mode": "four"}, {"attention": "linear"})
    )
    problem = icgd.LinearRegression(n_features=d, n_examples=n)
    program = icgd.compile(problem, icgd.GD(lr), **options)
    w = torch.zeros(d, dtype=F64)
    return Draw(program, X, y, {"steps": 1}, [w + lr * X.T @ y / n], [w])


FAMILIES: dict[str, Callable[[int], Draw]] = {
    "chain_of_thought": chain_of_thought,
    "linear_model": linear_model,
    "stack": stack,
    "forward_mode": forward_mode,
    "loop": loop,
}
