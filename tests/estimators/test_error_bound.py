"""error_bound_ and gap_bound_ are bounds in every regime, against minimisers in exact arithmetic.

Regimes: fewer and more examples than features, constant and collinear columns, columns in different
units, tiny and huge scales of features and targets, weak and strong penalties. A bound may be infinite,
which says that there is none; it may never be too small.
"""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from exact_minimisers import (
    exact_glm,
    exact_lasso,
    exact_lasso_objective,
    exact_ridge,
    within,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

import icgd

SHAPES = {"wide": (6, 14), "square": (6, 6), "tall": (12, 4)}
COLUMNS = {
    "plain": lambda X: X,
    "constant": lambda X: np.column_stack([X, np.full(len(X), 3.0)]),
    "zero": lambda X: np.column_stack([X, np.zeros(len(X))]),
    "twin": lambda X: np.column_stack([X, X[:, 0]]),
    "nearly twin": lambda X: np.column_stack([X, X[:, 0] + 1e-4 * X[:, 1]]),
    "other units": lambda X: X * np.logspace(-6, 3, X.shape[1]),
}
SCALES = [(1.0, 1.0), (1e-150, 1.0), (1e100, 1.0), (1.0, 1e-150), (1e-60, 1e60), (1e-150, 1e-150)]
LAMS = [1e-4, 1e-2, 0.3]
ALL = [(s, c, scale) for s in SHAPES for c in COLUMNS for scale in SCALES]
FEW = [case for case in ALL if (case[1] == "plain") + (case[2] == (1.0, 1.0)) >= 1]
CASES = [case if case in FEW else pytest.param(*case, marks=pytest.mark.slow) for case in ALL]


def quietly(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, y)


def data(shape, columns, scale, seed):
    random = np.random.default_rng(seed)
    n, d = SHAPES[shape]
    X = COLUMNS[columns](random.normal(size=(n, d)))
    y = X[:, 0] - X[:, 1] + 0.3 * random.normal(size=n)
    return X * scale[0], y * scale[1]


@pytest.mark.parametrize(("shape", "columns", "scale"), CASES)
def test_the_lasso_is_within_its_bounds(shape, columns, scale):
    exact = finite = 0
    for seed, lam in enumerate(LAMS):
        X, y = data(shape, columns, scale, seed)
        lam *= scale[0] * scale[1]
        if lam == 0:
            continue
        model = quietly(icgd.InContextLasso(lam, fit_intercept=False, tol=1e-4, max_iter=400), X, y)
        best = exact_lasso(X, y, lam)
        if best is None:
            continue
        exact += 1
        w = [Fraction(float(v)) for v in model.coef_]
        assert within(w, best, model.error_bound_)
        above = exact_lasso_objective(X, y, lam, w) - exact_lasso_objective(X, y, lam, best)
        assert math.isinf(model.gap_bound_) or above <= Fraction(model.gap_bound_)
        assert model.error_bound_ > 0
        finite += math.isfinite(model.error_bound_)
    # Of twins the oracle knows no single minimiser.
    assert exact >= (0 if columns == "twin" else 1)
    assert finite == exact or shape != "tall" or columns != "plain"


@pytest.mark.parametrize("lam", [0.0, 1e-3])
@pytest.mark.parametrize(("shape", "columns", "scale"), CASES)
def test_ridge_is_within_its_bounds(shape, columns, scale, lam):
    X, y = data(shape, columns, scale, seed=1)
    lam *= scale[0] ** 2
    model = quietly(icgd.InContextRidge(lam, fit_intercept=False, tol=1e-4, max_iter=400), X, y)
    best = exact_ridge(X, y, lam)
    if best is None:
        assert model.error_bound_ == math.inf
        return
    assert within([Fraction(float(v)) for v in model.coef_], best, model.error_bound_)
    assert model.error_bound_ > 0
    assert math.isfinite(model.error_bound_) or lam == 0


@pytest.mark.parametrize(
    "scale", [1.0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1e-3, 1e3))]
)
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("link", ["logistic", "poisson"])
def test_generalised_linear_models_are_within_their_bounds(link, shape, columns, scale):
    X, y = data(shape, columns, (scale, 1.0), seed=2)
    y = (y > 0).astype(float) if link == "logistic" else np.floor(np.abs(y) * 3)
    y[:2] = 0, 1
    lam = 0.1 * scale**2
    kind = {"logistic": icgd.InContextLogisticRegression, "poisson": icgd.InContextPoissonRegressor}
    model = quietly(kind[link](lam, tol=1e-4, max_iter=400), X, y)
    rows, targets = (t.numpy() for t in model.prompt(X, y))
    w = model.run_.weights.numpy()
    best = exact_glm(rows, targets, lam, link, start=w)
    assert within(w, best, model.error_bound_)
    assert model.error_bound_ > 0
    assert math.isfinite(model.error_bound_) or (columns, scale) != ("plain", 1.0)


@pytest.mark.parametrize("link", ["logistic", "poisson"])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_penalty_bounds_the_distance_from_anywhere(link, scale):
    """Two steps: far from the minimiser, where the curvature of the loss may have fallen off."""
    X, y = data("wide", "plain", (scale, 1.0), seed=3)
    y = (y > 0).astype(float) if link == "logistic" else np.floor(np.abs(y) * 3)
    y[:2] = 0, 1
    kind = {"logistic": icgd.InContextLogisticRegression, "poisson": icgd.InContextPoissonRegressor}
    model = quietly(kind[link](0.1, fit_intercept=False, tol=1e-4, max_iter=2), X, y)
    rows, targets = (t.numpy() for t in model.prompt(X, y))
    w = model.run_.weights.numpy()
    best = exact_glm(rows, targets, 0.1, link, start=w)
    assert math.isfinite(model.error_bound_)
    assert within(w, best, model.error_bound_)


def test_more_features_than_examples_and_a_weak_penalty():
    """The curvature over the span of the examples proves nothing: proximal steps leave it."""
    X = np.random.default_rng(0).normal(size=(10, 40))
    y = X[:, 0] - X[:, 1]
    model = icgd.InContextLasso(1e-4, fit_intercept=False, tol=1e-3, max_iter=1000)
    with pytest.warns(ConvergenceWarning, match="There is no bound on the distance to a minimiser"):
        model.fit(X, y)
    theirs = Lasso(1e-4, fit_intercept=False, tol=1e-12, max_iter=10**6).fit(X, y)
    assert np.linalg.norm(model.coef_ - theirs.coef_) > 0.1
    assert model.error_bound_ == math.inf


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lam", [1e-2, 1e-1, 1.0])
def test_wide_data_end_in_a_proof_or_in_a_warning(seed, lam):
    """Proved: near. Warned of: the fit, which all minimisers share, is near if the run says it converged."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(10, 40))
    y = X @ (random.normal(size=40) * (random.random(40) < 0.1)) + 0.1 * random.normal(size=10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = icgd.InContextLasso(lam, fit_intercept=False, tol=1e-3, max_iter=3000).fit(X, y)
    best = np.array([float(v) for v in exact_lasso(X, y, lam)])
    rms = np.sqrt(np.mean(y**2))
    if not caught:
        assert np.linalg.norm(model.coef_ - best) <= model.error_bound_ <= 1e-3
    elif "The objective converged" in str(caught[0].message):
        assert np.sqrt(np.mean((X @ (model.coef_ - best)) ** 2)) <= 1e-3 * rms
        assert model.error_bound_ == math.inf
    else:
        assert "did not converge" in str(caught[0].message)
