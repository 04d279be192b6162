"""One small program of every kind, with data, for everything that records or shows runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

import icgd

N, D = 12, 2


@dataclass(frozen=True)
class Case:
    problem: Any
    program: Any
    X: torch.Tensor
    Y: torch.Tensor
    options: dict[str, Any]
    lr: float = 0.05

    def run(self, **more):
        return self.program.run(self.X, self.Y, **self.options, **more)

    def record(self, **more):
        return icgd.record_trace(self.program, self.X, self.Y, **self.options, **more)


def _data():
    X = torch.randn(N, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return X, X[:, :1].abs() - 0.3 * X[:, 1:]


def _network(widths, optimizer, options, **compiled):
    activation = compiled.pop("activation", "relu")
    X, Y = _data()
    net = icgd.Network(widths, activation=activation)
    program = icgd.compile(net, optimizer, **compiled)
    return Case(net, program, X, Y, {"init": net.init(seed=0), **options})


def _linear(problem, optimizer, options, *, classes=False, **compiled):
    X, Y = _data()
    y = (Y[:, 0] > 0.3).double() if classes else Y[:, 0]
    return Case(problem, icgd.compile(problem, optimizer, **compiled), X, y, options)


_MAKERS = {
    "network": lambda: _network((2, 4, 3, 1), icgd.SGD(0.05), {"epochs": 1}),
    "one_layer": lambda: _network((2, 1), icgd.SGD(0.05), {"epochs": 1}),
    "stack": lambda: _network((2, 3, 1), icgd.GD(0.1), {"steps": 4}, method="stack"),
    "tanh_stack": lambda: _network(
        (2, 3, 1), icgd.GD(0.1), {"steps": 4}, method="stack", activation="tanh"
    ),
    "forward_mode": lambda: _network(
        (2, 3, 1), icgd.GD(0.1), {"steps": 4}, method="forward_mode", activation="tanh"
    ),
    "lasso": lambda: _linear(icgd.Lasso(D, 0.1), icgd.GD(0.1), {"steps": 6}),
    "ridge": lambda: _linear(icgd.Ridge(D, 0.1, intercept=True), icgd.GD(0.1), {"steps": 6}),
    "logistic": lambda: _linear(
        icgd.GLM(D, "logistic", 0.1), icgd.GD(0.1), {"steps": 6}, classes=True
    ),
    "loop": lambda: _linear(icgd.LinearRegression(D, N), icgd.GD(0.1), {"steps": 5}),
    "sym": lambda: _linear(icgd.LinearRegression(D, N), icgd.GD(0.1), {"steps": 5}, mode="sym"),
    "newton": lambda: _linear(icgd.LinearRegression(D, N), icgd.Newton(), {"steps": 8}),
    "preconditioned": lambda: _linear(
        icgd.LinearRegression(D, N), icgd.PreconditionedGD(1.0, 6), {"steps": 4}
    ),
    "decoder": lambda: _linear(
        icgd.LinearRegression(D, N), icgd.GD(0.1), {"steps": 4}, causal=True
    ),
    "linear_attention": lambda: _linear(
        icgd.LinearRegression(D, N), icgd.GD(0.1), {"steps": 5}, attention="linear"
    ),
}
PROGRAMS = sorted(_MAKERS)


@cache
def case(name: str) -> Case:
    """A program of this kind, compiled once."""
    return _MAKERS[name]()
