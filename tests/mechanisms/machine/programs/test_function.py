"""Functions of tensors, iterated fifty times, against PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

import icgd
from icgd.errors import InvalidParameter

f64 = torch.float64


def newton(w, X, y):
    """Newton's method for penalised logistic regression; the inverse by Newton-Schulz."""
    p = torch.sigmoid(X @ w)
    gradient = X.T @ (p - y) / X.shape[0] + 1e-2 * w
    H = (X.T * (p * (1 - p))) @ X / X.shape[0] + 1e-2 * torch.eye(X.shape[1], dtype=X.dtype)
    V = H.T / (H.abs().sum(0).max() * H.abs().sum(1).max())
    for _ in range(20):
        V = 2 * V - V @ H @ V
    return w - V @ gradient


def power_iteration(v, A):
    """Towards the largest eigenvector."""
    w = A @ v
    return w / torch.linalg.vector_norm(w)


def sinkhorn(u, v, C):
    """Scalings of a transport plan."""
    K = torch.exp(-C / 0.1)
    u = (1 / u.shape[0]) / (K @ v)
    return u, (1 / v.shape[0]) / (K.T @ u)


def kmeans(C, X):
    """Lloyd's algorithm."""
    distance = ((X[:, None] - C[None]) ** 2).sum(-1)
    member = functional.one_hot(distance.argmin(1), C.shape[0]).to(X.dtype)
    return (member.T @ X) / member.sum(0).clamp(min=1.0)[:, None]


def mixture(share, mean, variance, x):
    """Expectation maximisation of a mixture of normals in one dimension."""
    log_p = torch.log(share) - 0.5 * torch.log(2 * math.pi * variance)
    log_p = log_p - (x[:, None] - mean) ** 2 / (2 * variance)
    r = torch.softmax(log_p, 1)
    n = r.sum(0)
    mean = (r * x[:, None]).sum(0) / n
    return n / x.shape[0], mean, (r * (x[:, None] - mean) ** 2).sum(0) / n


def pendulum(y, t):
    """One Runge-Kutta step of a driven pendulum."""

    def slope(y, t):
        return torch.stack([y[1], -torch.sin(y[0]) + 0.1 * torch.cos(t)])

    h = 0.05
    k1 = slope(y, t)
    k2 = slope(y + h / 2 * k1, t + h / 2)
    k3 = slope(y + h / 2 * k2, t + h / 2)
    k4 = slope(y + h * k3, t + h)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), t + h


def draws(*shapes, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=g, dtype=f64) for shape in shapes]


def case(name):
    if name == "newton":
        X, noise = draws((40, 4), (40,))
        return newton, (torch.zeros(4, dtype=f64), X, (X[:, 0] + noise > 0).to(f64))
    if name == "power_iteration":
        v, A = draws((6,), (6, 6))
        return power_iteration, (v, A @ A.T)
    if name == "sinkhorn":
        (C,) = draws((6, 7))
        return sinkhorn, (torch.ones(6, dtype=f64), torch.ones(7, dtype=f64), torch.sigmoid(C))
    if name == "kmeans":
        return kmeans, tuple(draws((3, 2), (30, 2)))
    if name == "mixture":
        a, b = draws((20,), (20,))
        start = (torch.full((3,), 1 / 3, dtype=f64), torch.tensor([-1.0, 0.0, 1.0], dtype=f64))
        return mixture, (*start, torch.ones(3, dtype=f64), torch.cat([a - 2, 0.5 * b + 2]))
    return pendulum, (torch.tensor([1.0, 0.0], dtype=f64), torch.zeros((), dtype=f64))


def iterated(function, arguments, steps):
    values = list(arguments)
    for _ in range(steps):
        results = function(*values)
        results = (results,) if isinstance(results, torch.Tensor) else results
        values[: len(results)] = results
    return values[: len(results)]


ALGORITHMS = ["newton", "power_iteration", "sinkhorn", "kmeans", "mixture", "pendulum"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_fifty_steps_of_an_algorithm(name):
    function, arguments = case(name)
    program = icgd.compile(function, example=arguments)
    seen = []
    results = program.run(*arguments, steps=50, record=lambda step, values: seen.append(step))
    results = (results,) if isinstance(results, torch.Tensor) else results
    wanted = iterated(function, arguments, 50)
    for result, exact in zip(results, wanted, strict=True):
        assert float((result - exact).abs().max()) <= 1e-10 * max(1.0, float(exact.abs().max()))
    assert seen == [*range(1, 51)]


def test_a_function_can_be_called():
    function, arguments = case("sinkhorn")
    program = icgd.compile(function, example=arguments)
    for result, exact in zip(program(*arguments), function(*arguments), strict=True):
        assert float((result - exact).abs().max()) <= 1e-13


def test_constants_have_full_precision():
    """Whatever PyTorch's default type is: 0.1 is not its single-precision neighbour."""
    x = torch.tensor([1.0, 2.0], dtype=f64)
    program = icgd.compile(lambda x: x + 0.1, example=(x,))
    assert torch.equal(program(x), x + 0.1)


def test_wrong_arguments_are_named():
    function, arguments = case("power_iteration")
    program = icgd.compile(function, example=arguments)
    with pytest.raises(InvalidParameter, match="as in the example"):
        program(arguments[0])
    with pytest.raises(InvalidParameter, match="shape of the example"):
        program(arguments[0][:3], arguments[1])
    with pytest.raises(InvalidParameter, match="steps"):
        program.run(*arguments, steps=0)
    with pytest.raises(InvalidParameter, match="example"):
        icgd.compile(function)
