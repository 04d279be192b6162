"""Algorithms as plain functions: captured once, iterated, beside PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
from captured_runs import double

from icgd.mechanisms.machine.capture.function import capture_function


def newton(w, x, y):
    """Logistic regression, the Hessian inverted by Newton-Schulz."""
    p = torch.sigmoid(x @ w)
    gradient = x.t() @ (p - y) / len(x) + 0.01 * w
    hessian = (x.t() * (p * (1 - p))) @ x / len(x) + 0.01 * torch.eye(x.shape[1], **double)
    inverse = hessian.t() / (hessian.abs().sum(0).max() * hessian.abs().sum(1).max())
    for _ in range(30):
        inverse = 2 * inverse - inverse @ hessian @ inverse
    return w - inverse @ gradient


def power_iteration(v, a):
    w = a @ v
    return w / torch.linalg.vector_norm(w)


def sinkhorn(u, v, cost):
    kernel = torch.exp(-cost / 0.1)
    u = (1 / len(u)) / (kernel @ v)
    return u, (1 / len(v)) / (kernel.t() @ u)


def k_means(centres, x):
    distances = ((x[:, None] - centres[None]) ** 2).sum(-1)
    nearest = torch.nn.functional.one_hot(distances.argmin(1), len(centres)).to(x.dtype)
    return (nearest.t() @ x) / nearest.sum(0).clamp(min=1.0)[:, None]


def mixture(share, mean, variance, x):
    """One round of expectation and maximisation."""
    logs = (
        share.log()
        - 0.5 * (2 * math.pi * variance).log()
        - (x[:, None] - mean) ** 2 / (2 * variance)
    )
    weight = torch.softmax(logs, 1)
    n = weight.sum(0)
    mean = (weight * x[:, None]).sum(0) / n
    return n / len(x), mean, (weight * (x[:, None] - mean) ** 2).sum(0) / n


def pendulum(y, t):
    """A driven pendulum by Runge and Kutta."""

    def f(y, t):
        return torch.stack([y[1], -torch.sin(y[0]) + 0.1 * torch.cos(t)])

    h = 0.05
    k1 = f(y, t)
    k2 = f(y + h / 2 * k1, t + h / 2)
    k3 = f(y + h / 2 * k2, t + h / 2)
    k4 = f(y + h * k3, t + h)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), t + h


def example(name):
    torch.manual_seed(0)
    x = torch.randn(20, 4, **double)
    one = torch.ones(3, **double)
    return {
        "newton": (newton, (torch.zeros(4, **double), x, (x[:, 0] > 0.3).double()), 1),
        "power iteration": (power_iteration, (torch.randn(4, **double), x.t() @ x), 1),
        "sinkhorn": (sinkhorn, (one, torch.ones(5, **double), torch.rand(3, 5, **double)), 2),
        "k-means": (k_means, (x[:3].clone(), x), 1),
        "mixture": (mixture, (one / 3, torch.tensor([-1.0, 0.0, 1.0], **double), one, x[:, 0]), 3),
        "pendulum": (
            pendulum,
            (torch.tensor([1.0, 0.0], **double), torch.tensor(0.0, **double)),
            2,
        ),
    }[name]


ALGORITHMS = ("newton", "power iteration", "sinkhorn", "k-means", "mixture", "pendulum")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_fifty_iterations(name):
    function, arguments, n_state = example(name)
    captured = capture_function(function, arguments)
    assert captured.in_names == [f"data.{i}" for i in range(len(arguments))]
    assert captured.out_names == [f"out.{i}" for i in range(n_state)]
    ours, eager = list(arguments), list(arguments)
    for _ in range(50):
        ours[:n_state] = captured(ours).values()
        result = function(*eager)
        eager[:n_state] = result if isinstance(result, tuple) else (result,)
    gaps = [(a - b).abs().max() for a, b in zip(ours, eager, strict=True)]
    assert max(gaps) <= 1e-12


def test_arguments_may_be_nested_and_results_named_in_order():
    def function(pair, scale):
        return {"sum": (pair["a"] + pair["b"]) * scale, "rest": [pair["a"].sum()]}

    pair = {"a": torch.ones(2, **double), "b": torch.arange(2, **double)}
    captured = capture_function(function, (pair, torch.tensor(2.0, **double)))
    assert captured.in_names == ["data.0.a", "data.0.b", "data.1"]
    results = captured(captured.example)
    assert results["out.0"].tolist() == [2.0, 4.0]
    assert float(results["out.1"]) == 2.0


def test_numbers_are_results_too():
    captured = capture_function(lambda a: (a.sum().item(), 3), (torch.ones(2, **double),))
    assert [float(v) for v in captured(captured.example).values()] == [2.0, 3.0]


def test_constants_are_computed_once():
    """What depends on no input is a stored tensor, or a number where it is the same everywhere."""

    def function(a):
        table = torch.arange(3, **double).exp() * torch.ones(3, **double)
        return a * table + torch.full((3,), 2.0, **double) * 0.5 + torch.zeros_like(a)

    captured = capture_function(function, (torch.ones(3, **double),))
    ops = [str(n.target) for n in captured.graph.graph.nodes if n.op == "call_function"]
    assert ops == ["aten.mul.Tensor", "aten.add.Tensor", "aten.add.Tensor"]
    stored = dict(captured.graph.named_buffers())
    assert [t.tolist() for t in stored.values()] == [torch.arange(3, **double).exp().tolist()]
