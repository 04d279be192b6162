"""Formulas for Gaussian prompts against simulation and against exact arithmetic."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from icgd.errors import InvalidParameter
from icgd.papers.lsa.statements.formulas import (
    best_step,
    linear_map_loss,
    one_feature_loss,
    one_step_floor,
    turning_point,
)

SPEC = {(10, 20): 1.7742, (10, 50): 0.9016, (10, 100): 0.4955, (5, 20): 0.5769, (20, 40): 3.4426}


def one_step_loss(lr, d, n):
    """Mean loss after one step, from E S = I and E S^2 = (n+d+1)/n I."""
    return d / 2 * (1 - 2 * lr + lr**2 * (n + d + 1) / n)


def loss_after(d, n, lr, k, count, seed=11):
    """1/2 |w_k - w*|^2 of many prompts, by the recursion on w itself."""
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(count, n, d, generator=g, dtype=torch.float64)
    target = torch.randn(count, d, 1, generator=g, dtype=torch.float64)
    y, w = X @ target, torch.zeros_like(target)
    for _ in range(k):
        w = w - lr / n * (X.mT @ (X @ w - y))
    return (w - target).square().sum(dim=(1, 2)) / 2


@pytest.mark.parametrize("size", SPEC)
def test_the_floor_is_what_simulation_finds(size):
    floor = one_step_floor(*size)
    assert abs(floor - SPEC[size]) < 5e-5
    seen = float(loss_after(*size, best_step(*size), 1, 20_000).mean())
    assert abs(seen / floor - 1) < 0.03


@pytest.mark.parametrize("lr", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("size", [(1, 1), (4, 9), (3, 2)])
def test_one_step_at_any_step_size(size, lr):
    seen = float(loss_after(*size, lr, 1, 100_000).mean())
    assert abs(seen / one_step_loss(lr, *size) - 1) < 0.03


@pytest.mark.parametrize("size", [(1, 1), (10, 20), (3, 2), (50, 7)])
def test_the_best_step_is_the_minimum(size):
    best = best_step(*size)
    assert math.isclose(one_step_loss(best, *size), one_step_floor(*size), rel_tol=1e-12)
    for lr in (best - 0.01, best + 0.01, 0.0, 1.0):
        assert one_step_loss(lr, *size) > one_step_floor(*size)


def test_no_other_matrix_is_as_good():
    g = torch.Generator().manual_seed(0)
    d, n = 4, 9
    for _ in range(50):
        M = torch.randn(d, d, generator=g, dtype=torch.float64)
        loss = linear_map_loss(float(M.trace()), float(M.square().sum()), d, n)
        off = M - best_step(d, n) * torch.eye(d, dtype=torch.float64)
        excess = (n + d + 1) / (2 * n) * float(off.square().sum())
        assert math.isclose(loss, one_step_floor(d, n) + excess, rel_tol=1e-12)


def test_the_loss_of_a_matrix_is_what_simulation_finds():
    g = torch.Generator().manual_seed(1)
    d, n, count = 3, 8, 100_000
    M = 0.5 * torch.randn(d, d, generator=g, dtype=torch.float64)
    X = torch.randn(count, n, d, generator=g, dtype=torch.float64)
    target = torch.randn(count, d, 1, generator=g, dtype=torch.float64)
    seen = float((target - M @ (X.mT @ (X @ target)) / n).square().sum(dim=(1, 2)).mean()) / 2
    assert abs(seen / linear_map_loss(float(M.trace()), float(M.square().sum()), d, n) - 1) < 0.03


def test_the_order_of_the_floor_needs_as_many_examples_as_features():
    for d in (1, 3, 10, 100):
        for n in (d, 2 * d, 50 * d):
            assert d**2 / (6 * n) <= one_step_floor(d, n) <= d**2 / n
    assert one_step_floor(1000, 1) < 1e-3 * 1000**2 / 1
    assert one_step_floor(1000, 1) == pytest.approx(1000 / 2, rel=0.01)


@pytest.mark.parametrize(("lr", "n", "k"), [(0.5, 20, 1), (0.5, 20, 3), (0.3, 8, 2), (1.0, 30, 2)])
def test_one_feature_exactly(lr, n, k):
    seen = float(loss_after(1, n, lr, k, 400_000).mean())
    assert abs(seen / one_feature_loss(lr, n, k) - 1) < 0.05
    if k == 1:
        assert math.isclose(one_feature_loss(lr, n, 1), one_step_loss(lr, 1, n), rel_tol=1e-12)


def test_one_feature_by_integration():
    """E over the density of chi-squared with 4 degrees, s e^{-s/2} / 4, by the trapezoid rule."""
    s = torch.linspace(0, 400, 4_000_001, dtype=torch.float64)
    for k in (1, 5, 12):
        f = (1 - 0.4 * s / 4) ** (2 * k) * s * torch.exp(-s / 2) / 4
        exact = float(torch.trapezoid(f, s)) / 2
        assert math.isclose(one_feature_loss(0.4, 4, k), exact, rel_tol=1e-6)


@pytest.mark.parametrize(("lr", "n"), [(0.3, 20), (0.5, 50), (1.0, 5), (0.05, 3)])
def test_the_mean_falls_and_then_grows_beyond_all_bounds(lr, n):
    turn = turning_point(lr, n)
    values = [one_feature_loss(lr, n, k) for k in range(turn + 1)]
    assert all(b < a for a, b in pairwise(values))
    assert one_feature_loss(lr, n, turn + 1) >= values[-1]
    assert one_feature_loss(lr, n, 4 * turn + 4) > 1e3
    assert one_feature_loss(lr, n, 2000) == math.inf


def test_more_features_leave_at_least_as_much_each():
    d, n, lr, k = 4, 12, 0.6, 3
    assert float(loss_after(d, n, lr, k, 50_000).mean()) > d * one_feature_loss(lr, n, k)


@pytest.mark.parametrize("size", [(0, 3), (3, 0), (-1, 2)])
def test_sizes_must_be_positive(size):
    for formula in (best_step, one_step_floor):
        with pytest.raises(InvalidParameter, match="integer >= 1"):
            formula(*size)
