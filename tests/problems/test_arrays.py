"""Arrays that are not what they look like are refused by name, wherever they come in."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest
import torch

import icgd

X = torch.linspace(-1, 1, 18, dtype=torch.float64).reshape(6, 3).sin()
Y = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyTorch calls these kinds of tensors prototypes.
    CSR, NESTED = X.to_sparse_csr(), torch.nested.nested_tensor([X[:2], X[2:]])
    QUANTISED = torch.quantize_per_tensor(X.float(), 0.1, 0, torch.qint8)
STRANGE = {
    "sparse": (X.to_sparse(), r"layout torch.sparse_coo. Use .to_dense\(\)"),
    "csr": (CSR, "layout torch.sparse_csr"),
    "meta": (X.to("meta"), "a meta tensor. It has a shape and no numbers"),
    "nested": (NESTED, "a nested tensor"),
    "quantised": (QUANTISED, "torch.qint8"),
    "masked": (np.ma.masked_array(X.numpy(), mask=X.numpy() > 0.5), "hold no masked entries"),
    "masked rows": ([np.ma.masked_array(r, mask=[1, 0, 0]) for r in X.numpy()], "Got 6 masked"),
}


def ridge():
    return icgd.compile(icgd.Ridge(3), icgd.GD(0.1))


PLACES = {
    "run": lambda value: ridge().run(value, Y, steps=1),
    "predict": lambda value: ridge().predict(value, torch.zeros(3)),
    "fit": lambda value: icgd.InContextRidge().fit(value, Y),
    "logistic": lambda value: icgd.InContextLogisticRegression().fit(value, Y),
    "mlp": lambda value: icgd.InContextMLPRegressor((2,)).fit(value, Y),
    "estimate": lambda value: icgd.InContextRidge(steps=2).fit(X, Y).predict(value),
    "loop": lambda value: icgd.compile(icgd.LinearRegression(3, 6), icgd.GD(0.1)).run(
        value, Y, steps=1
    ),
    "representation": lambda value: icgd.RepresentationRegression(
        3, 6, representation=[(value, Y)]
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", STRANGE)
def test_strange_arrays_are_refused(kind, place):
    value, message = STRANGE[kind]
    with pytest.raises(icgd.InvalidParameter, match=message):
        PLACES[place](value)


def test_masked_targets_are_refused():
    masked = np.ma.masked_array(Y.numpy(), mask=[0, 0, 1, 0, 0, 0])
    fits = (lambda y: ridge().run(X, y, steps=1), lambda y: icgd.InContextRidge().fit(X, y))
    for fit in fits:
        with pytest.raises(
            icgd.InvalidParameter, match=r"`y` must hold no masked entries. Got 1 masked"
        ):
            fit(masked)


def test_a_mask_that_hides_nothing_changes_nothing():
    open_ = np.ma.masked_array(X.numpy(), mask=False)
    assert torch.equal(ridge().run(open_, Y, steps=2).weights, ridge().run(X, Y, steps=2).weights)


@pytest.mark.parametrize("radius", [1e100, 1e-100, 1e160, 1e-160, 1e308, 5e-324])
def test_radii_of_any_size_compile_or_are_refused_by_name(radius):
    makers = (
        lambda: icgd.compile(icgd.LinearRegression(3, 6, x_radius=radius), icgd.GD()),
        lambda: icgd.compile(icgd.LinearRegression(3, 6, x_radius=radius), icgd.Newton()),
        lambda: icgd.compile(icgd.LinearRegression(3, 6, x_radius=radius), icgd.PreconditionedGD()),
        lambda: icgd.compile(icgd.Autoregression(3, 2, 6, x_radius=radius), icgd.GD(0.1)),
        lambda: icgd.compile(icgd.MLPChain(3, 2, 6, x_radius=radius), icgd.GD(0.1)),
        lambda: icgd.compile(icgd.Ridge(3, x_radius=radius), icgd.GD()),
        lambda: icgd.compile(icgd.GLM(3, "poisson", x_radius=radius, w_radius=radius), icgd.GD()),
    )
    for make in makers:
        with contextlib.suppress(icgd.IcgdError):
            make()


@pytest.mark.parametrize("lr", [1e200, 1e39, 1e-50])
@pytest.mark.parametrize(
    "problem",
    [icgd.Ridge(3), icgd.Lasso(3, lam=0.1), icgd.Network((3, 4, 1)), icgd.LinearRegression(3, 6)],
)
def test_a_step_size_that_float32_cannot_hold_is_refused(problem, lr):
    optimizer = icgd.SGD(lr) if isinstance(problem, icgd.Network) else icgd.GD(lr)
    with pytest.raises(icgd.InvalidParameter, match=r"`lr` must lie between .* of torch.float32"):
        icgd.compile(problem, optimizer, dtype=torch.float32)
