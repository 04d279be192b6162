"""Sums of ReLUs: measured <= promised <= little more, and the laws the papers build on."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

import icgd
from icgd.problems.activations import ACTIVATIONS, Activation, activation
from icgd.transformer.gadgets.fits.relu_sum import Knots, ReluSum, fit_relu_sum

SMOOTH = [a for a in ACTIVATIONS.values() if a.smooth]


def fits(
    a: Activation, radius: float, n: int, knots: Knots
) -> list[tuple[ReluSum, Tensor, Tensor]]:
    """r and r', each with a fine sweep and its exact values."""
    t = torch.linspace(-radius, radius, 50_001, dtype=torch.float64)
    second, third, fourth = a.bounds[1:4]
    r = fit_relu_sum(a.apply, radius, n, second=second, third=third, knots=knots)
    slope = fit_relu_sum(a.derivative, radius, n, second=third, third=fourth, knots=knots)
    return [(r, t, a.apply(t)), (slope, t, a.derivative(t))]


@pytest.mark.parametrize("knots", ["uniform", "adaptive"])
@pytest.mark.parametrize("n", [1, 7, 64, 512])
@pytest.mark.parametrize("radius", [0.5, 4.0, 12.0])
@pytest.mark.parametrize("a", SMOOTH, ids=lambda a: a.name)
def test_a_fit_keeps_its_promise(a: Activation, radius: float, n: int, knots: Knots) -> None:
    for fit, t, exact in fits(a, radius, n, knots):
        # In pieces: all points at once would be 200 MB of units.
        parts = zip(t.split(2000), exact.split(2000), strict=True)
        error = max(float((fit(part) - truth).abs().max()) for part, truth in parts)
        assert error <= fit.certificate.sup_error
        # Not a bound that always holds: within a small factor of the truth.
        assert fit.certificate.sup_error <= 2.5 * error + 1e-10
        assert fit.certificate.rigorous
        assert float(fit.a.abs().sum(dim=1).max()) <= 1 + 1e-15
        assert fit.n_relu == n + 1


@pytest.mark.parametrize("a", SMOOTH[:4], ids=lambda a: a.name)
def test_the_error_falls_like_the_square_of_the_units(a: Activation) -> None:
    """Four times less for twice the units: M ~ error^-1/2, far fewer than the cited error^-2."""
    errors = [fits(a, 4.0, n, "uniform")[0][0].certificate.sup_error for n in (64, 128, 256, 512)]
    for coarse, fine in pairwise(errors):
        assert coarse / fine == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize("a", SMOOTH[:4], ids=lambda a: a.name)
def test_adaptive_knots_gain_and_coefficients_stay_bounded(a: Activation) -> None:
    for even, bent in zip(fits(a, 5.0, 256, "uniform"), fits(a, 5.0, 256, "adaptive"), strict=True):
        assert bent[0].certificate.sup_error < even[0].certificate.sup_error
    few, many = fits(a, 5.0, 32, "uniform")[0][0].C, fits(a, 5.0, 2048, "uniform")[0][0].C
    assert few == pytest.approx(many, rel=0.1)


@pytest.mark.parametrize("a", SMOOTH, ids=lambda a: a.name)
def test_the_bounds_on_derivatives_hold_and_are_sharp(a: Activation) -> None:
    t = torch.linspace(-30, 30, 60_001, dtype=torch.float64).requires_grad_(True)
    value = a.apply(t)
    for bound in a.bounds:
        if not value.requires_grad:
            assert bound == 0.0
            continue
        (value,) = torch.autograd.grad(value.sum(), t, create_graph=True)
        largest = float(value.detach().abs().max())
        assert largest <= bound * (1 + 1e-4)
        assert bound <= largest * 1.001 + 1e-12


@pytest.mark.parametrize("a", SMOOTH, ids=lambda a: a.name)
def test_the_derivative_is_autograds(a: Activation) -> None:
    t = torch.linspace(-20, 20, 4001, dtype=torch.float64).requires_grad_(True)
    (slope,) = torch.autograd.grad(a.apply(t).sum(), t)
    assert float((slope - a.derivative(t.detach())).abs().max()) <= 1e-14


def test_bad_input() -> None:
    with pytest.raises(icgd.InvalidParameter, match="`activation` must be one of"):
        activation("swish")
    with pytest.raises(icgd.InvalidParameter, match="`n_relu` must be an integer >= 1"):
        fit_relu_sum(torch.tanh, 1.0, 0, second=1.0, third=2.0)
    with pytest.raises(icgd.InvalidParameter, match="`radius` must be a finite number > 0"):
        fit_relu_sum(torch.tanh, math.inf, 4, second=1.0, third=2.0)
    with pytest.raises(icgd.InvalidParameter, match="`knots` must be 'uniform' or 'adaptive'"):
        fit_relu_sum(torch.tanh, 1.0, 4, second=1.0, third=2.0, knots="random")  # type: ignore[arg-type]
