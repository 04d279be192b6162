"""Sums of tanh, sigmoid and ReLU units: measured <= promised, oddness, the ways against each other."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import icgd
from icgd.problems.activations import ACTIVATIONS, Activation
from icgd.transformer.gadgets.fits.decay_condition import combination, decay_condition
from icgd.transformer.gadgets.fits.feature_fit import (
    UNITS,
    FeatureFit,
    fit_features,
    fit_function,
    fit_identity,
)
from icgd.transformer.gadgets.fits.slope_product import (
    SHARPNESS,
    fit_slope_product,
    slope_product_ways,
)

SMOOTH = [ACTIVATIONS[name] for name in ("tanh", "sigmoid", "softplus", "gelu")]
BOX = (1.6, 4.0)


def scattered(box: tuple[float, ...], n: int = 20_000) -> Tensor:
    """Points that no grid holds, and the corners."""
    inside = torch.rand(
        n, len(box), dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * len(box))
    points = torch.cat([inside, corners.reshape(-1, len(box))])
    return (2 * points - 1) * torch.tensor(box, dtype=torch.float64)


def keeps(fit: FeatureFit, exact: Tensor, points: Tensor) -> float:
    """The error off the grid, after looking that it is the promised one."""
    error = float((fit(points) - exact).abs().max())
    assert error <= fit.certificate.sup_error
    assert fit.c.shape == (fit.n_units,)
    assert fit.a.shape == (fit.n_units, points.shape[1] + 1)
    # The units as a layer would sum them, one after the other.
    z = points @ fit.a[:, :-1].T + fit.a[:, -1]
    plain = (UNITS[fit.activation](z) * fit.c).sum(dim=1)
    assert float((plain - exact).abs().max()) <= fit.certificate.sup_error + 1e-15
    return error


def product_of(a: Activation, points: Tensor) -> Tensor:
    return points[..., 0] * a.derivative(points[..., 1])


@pytest.mark.parametrize("attention", sorted(UNITS))
@pytest.mark.parametrize("n", [10, 50, 200])
@pytest.mark.parametrize("a", [*SMOOTH, ACTIVATIONS["linear"]], ids=lambda a: a.name)
def test_a_fit_of_the_activation_keeps_its_promise(a: Activation, n: int, attention: str) -> None:
    points = scattered((4.0,))
    fit = fit_function(a, 4.0, n, attention)
    keeps(fit, a.apply(points[:, 0]), points)
    assert fit.n_units <= n


@pytest.mark.parametrize("a", SMOOTH, ids=lambda a: a.name)
@pytest.mark.parametrize(
    ("attention", "bar"), [("tanh", 1e-10), ("sigmoid", 1e-10), ("relu", 1e-3)]
)
def test_fifty_units_fit_an_activation(a: Activation, attention: str, bar: float) -> None:
    assert fit_function(a, 4.0, 50, attention).certificate.sup_error <= bar


def test_what_a_unit_is_itself_needs_one_or_two() -> None:
    for name, attention, units in [
        ("tanh", "tanh", 1),
        ("sigmoid", "sigmoid", 1),
        ("tanh", "sigmoid", 2),
        ("sigmoid", "tanh", 2),
        ("relu", "relu", 1),
        ("linear", "relu", 2),
    ]:
        fit = fit_function(ACTIVATIONS[name], 4.0, 50, attention)
        assert fit.n_units == units
        assert fit.certificate.sup_error <= 1e-14


@pytest.mark.parametrize("attention", sorted(UNITS))
@pytest.mark.parametrize("n", [2, 8, 16])
def test_the_identity_is_odd_and_accurate(n: int, attention: str) -> None:
    points = scattered((3.0,))
    fit = fit_identity(3.0, n, attention)
    keeps(fit, points[:, 0], points)
    assert fit.n_units <= n
    assert float(fit(torch.zeros(1, 1, dtype=torch.float64))) == 0.0
    assert torch.equal(fit(-points), -fit(points))
    bar = 0.0 if attention == "relu" else 1e-11 if n > 2 else 1e-6
    assert fit.certificate.sup_error <= bar


@pytest.mark.parametrize("attention", sorted(UNITS))
@pytest.mark.parametrize("n", [2, 9, 50, 100])
@pytest.mark.parametrize("a", SMOOTH, ids=lambda a: a.name)
def test_a_fit_of_the_product_keeps_its_promise(a: Activation, n: int, attention: str) -> None:
    points = scattered(BOX)
    fit = fit_slope_product(a, *BOX, n, attention)
    keeps(fit, product_of(a, points), points)
    assert fit.n_units <= n
    if fit.odd:
        still = points.clone()
        still[:, 0] = 0
        assert torch.equal(fit(still), torch.zeros(len(still), dtype=torch.float64))


@pytest.mark.parametrize(
    ("name", "attention", "bars"),
    [
        ("softplus", "tanh", (1e-4, 1e-6, 2e-9)),
        ("softplus", "sigmoid", (1e-4, 3e-8, 5e-10)),
        ("gelu", "tanh", (2e-3, 3e-5, 3e-8)),
        ("gelu", "sigmoid", (1e-3, 1e-7, 5e-10)),
        ("tanh", "tanh", (1e-11,) * 3),
        ("sigmoid", "tanh", (1e-11,) * 3),
        ("tanh", "sigmoid", (1e-11,) * 3),
        ("softplus", "relu", (2e-2, 6e-3, 2e-3)),
        ("tanh", "relu", (8e-2, 3e-2, 1e-2)),
    ],
)
def test_how_accurate_the_product_is(name: str, attention: str, bars: tuple[float, ...]) -> None:
    for n, bar in zip((50, 100, 200), bars, strict=True):
        fit = fit_slope_product(ACTIVATIONS[name], *BOX, n, attention)
        assert fit.certificate.sup_error <= bar, (n, fit.way)


@pytest.mark.parametrize("attention", sorted(UNITS))
def test_difference_quotients_beat_random_units(attention: str) -> None:
    """With the same number of units; pairs that are odd as the product is beat units that are not."""
    a = ACTIVATIONS["gelu"]
    ways = slope_product_ways(a, lambda p: product_of(a, p), BOX, 100, attention)
    plain, pairs, quotients = [fit.certificate.sup_error for fit in ways]
    assert quotients < plain / 5
    assert quotients < pairs / 5
    assert attention == "relu" or pairs < plain
    assert fit_slope_product(a, *BOX, 100, attention).way == ways[2].way


def test_seeds_and_shapes() -> None:
    first, same, other = (
        fit_features(lambda t: t[..., 0].sin(), (2.0,), 20, seed=s) for s in (0, 0, 1)
    )
    assert torch.equal(first.c, same.c)
    assert not torch.equal(first.a, other.a)
    assert first(torch.zeros(3, 5, 1, dtype=torch.float64)).shape == (3, 5)
    assert not first.certificate.rigorous
    relu = fit_features(lambda t: t[..., 0].sin(), (2.0,), 40, "relu")
    assert relu.certificate.sup_error < 2e-3


# -- ReLU networks --------------------------------------------------------------------------------------


def test_the_step_is_exact_but_for_an_interval() -> None:
    fit = fit_slope_product(ACTIVATIONS["relu"], *BOX, 2, "relu")
    assert fit.n_units == 2
    assert fit.blind is not None
    low, high = fit.blind
    assert (low, high) == (0.0, (2.0 + 1.6) / SHARPNESS)
    assert float(fit.a.abs().sum(dim=1).max()) <= 1
    points = scattered(BOX)
    edges = torch.tensor(
        [(s, t) for s in (-1.6, 0.0, 1.6) for t in (0.0, high)], dtype=torch.float64
    )
    points = torch.cat([points, edges])
    seen = (points[:, 1] <= low) | (points[:, 1] >= high)
    exact = product_of(ACTIVATIONS["relu"], points)
    error = (fit(points) - exact).abs()
    assert float(error[seen].max()) <= fit.certificate.sup_error
    assert fit.certificate.sup_error <= 2.0**-50 * SHARPNESS * (4.0 + 1e-3)
    # Units that are off have t = 0 exactly; there and below nothing at all may pass.
    assert float(fit(points[points[:, 1] <= 0]).abs().max()) == 0.0
    # Inside the interval the promise would not hold.
    middle = torch.tensor([[1.6, high / 4]], dtype=torch.float64)
    assert float((fit(middle) - 1.6).abs()) > 0.1


@pytest.mark.parametrize("attention", ["tanh", "sigmoid"])
def test_a_corner_needs_relu_attention(attention: str) -> None:
    for fit in (
        lambda: fit_function(ACTIVATIONS["relu"], 4.0, 50, attention),
        lambda: fit_slope_product(ACTIVATIONS["relu"], *BOX, 50, attention),
    ):
        with pytest.raises(icgd.AssumptionViolated, match='Use attention="relu"'):
            fit()


# -- the condition on units -------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "units"), [("tanh", 2), ("sigmoid", 2), ("relu", 3)])
def test_units_that_decay(name: str, units: int) -> None:
    decay = decay_condition(name)
    assert decay.n_units == units
    assert decay.power > 1
    assert decay.proven is not None
    assert 0 < decay.constants[0] <= decay.proven * (1 + 1e-12)
    t = torch.linspace(-200, 200, 40_001, dtype=torch.float64)
    weighted = combination(name, decay, t).abs() * (1 + t.abs()) ** decay.power
    assert float(weighted.max()) <= decay.proven * (1 + 1e-9)


def test_other_units() -> None:
    for sigma, units in [
        (torch.nn.functional.softplus, 3),
        (torch.nn.functional.gelu, 3),
        (torch.atan, 2),
        (lambda t: torch.exp(-t * t), 1),
        (lambda t: t * torch.relu(t), 4),
    ]:
        assert decay_condition(sigma).n_units == units
    for lacking in ("exp", "linear", torch.sin, lambda t: t**3, torch.zeros_like):
        with pytest.raises(icgd.AssumptionViolated, match="general decay condition"):
            decay_condition(lacking)
    with pytest.raises(icgd.InvalidParameter, match="`sigma` must be one of"):
        decay_condition("swish")


def test_bad_input() -> None:
    with pytest.raises(icgd.InvalidParameter, match="`attention` must be one of"):
        fit_identity(1.0, 4, "exp")
    with pytest.raises(icgd.InvalidParameter, match="`n_units` must be an integer >= 2"):
        fit_slope_product(ACTIVATIONS["tanh"], 1.0, 1.0, 1, "tanh")
    with pytest.raises(icgd.InvalidParameter, match="`radius` must be finite numbers > 0"):
        fit_function(ACTIVATIONS["tanh"], math.inf, 4, "tanh")
    with pytest.raises(icgd.InvalidParameter, match="`box` must have one or two half-widths"):
        fit_features(torch.sin, (1.0, 1.0, 1.0), 4)
