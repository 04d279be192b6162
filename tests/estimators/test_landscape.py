"""The bound on the distance to the minimiser is a bound, at every stage, and a close one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

import icgd
from icgd.estimators.duality import duality_gap
from icgd.estimators.landscape import Landscape
from icgd.oracle import minimiser

PROBLEMS = {
    "ridge": lambda d: icgd.Ridge(d, lam=0.1),
    "least squares": lambda d: icgd.Ridge(d),
    "lasso": lambda d: icgd.Lasso(d, lam=0.2),
    "logistic": lambda d: icgd.GLM(d, "logistic", lam=0.05, intercept=True),
    "poisson": lambda d: icgd.GLM(d, "poisson", lam=0.05, intercept=True),
}


def instance(name, seed, n=40, d=4):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * random.uniform(0.3, 2.0, size=d)
    s = X @ random.normal(size=d) * 0.5
    y = {
        "logistic": lambda: (s + random.logistic(size=n) > 0).astype(float),
        "poisson": lambda: random.poisson(np.exp(s.clip(-3, 3))).astype(float),
    }.get(name, lambda: s + random.normal(size=n))()
    return PROBLEMS[name](d), torch.tensor(X), torch.tensor(y)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", PROBLEMS)
def test_measured_distance_is_within_the_bound(name, seed):
    problem, X, y = instance(name, seed)
    land = Landscape(problem, X, y)
    best = minimiser(problem, X, y)
    lr = 0.9 / land.beta(best)
    generator = torch.Generator().manual_seed(seed)
    finite = 0
    for size in (1.0, 1e-1, 1e-2, 1e-4, 1e-6):
        noise = torch.randn(len(best), generator=generator, dtype=torch.float64)
        w = best + size * noise / noise.norm()
        standing = land.standing(w, lr)
        assert float((w - best).norm()) <= standing.distance + 1e-9
        finite += math.isfinite(standing.distance)
    assert finite >= 2
    # The last one is near enough for the bound to be within the condition number of the truth.
    assert standing.distance <= 3 * standing.kappa * size


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_far_away_nothing_is_claimed(name):
    problem, X, y = instance(name, 0)
    w = torch.full((5,), -4.0, dtype=torch.float64)
    assert Landscape(problem, X, y).standing(w, lr=0.1).distance == math.inf


def test_curvature_is_that_of_autograd():
    problem, X, y = instance("poisson", 3)
    w = torch.linspace(-0.5, 0.5, 5, dtype=torch.float64)
    exact = torch.autograd.functional.hessian(lambda v: problem.smooth_part(v, X, y), w)
    values = torch.linalg.eigvalsh(exact)
    standing = Landscape(problem, X, y).standing(w, lr=0.1)
    assert standing.alpha == pytest.approx(float(values[0]), rel=1e-12)
    assert standing.beta == pytest.approx(float(values[-1]), rel=1e-12)


@pytest.mark.parametrize("gap", [6e-8, 1e-7, 2e-7])
@pytest.mark.parametrize("seed", range(4))
def test_rounding_does_not_raise_the_smallest_curvature(seed, gap):
    """Nearly parallel features: their curvature is below the rounding in X^T X."""
    random = np.random.default_rng(seed)
    a = random.normal(size=1000)
    X = np.column_stack([a, a + gap * random.normal(size=1000)])
    w = torch.zeros(2, dtype=torch.float64)
    land = Landscape(icgd.Ridge(2), torch.tensor(X), torch.tensor(a))
    alpha = Fraction(land.standing(w, lr=0.1).alpha)
    assert alpha > 0
    rows = [(Fraction(u), Fraction(v)) for u, v in X.tolist()]
    uu, uv, vv = (sum(r[i] * r[j] for r in rows) / 1000 for i, j in ((0, 0), (0, 1), (1, 1)))
    # H - alpha I is still positive semidefinite, in exact arithmetic.
    assert uu > alpha
    assert (uu - alpha) * (vv - alpha) >= uv**2
    # And little is given away.
    assert (uu - alpha * Fraction(101, 100)) * (vv - alpha * Fraction(101, 100)) < uv**2


def test_least_squares_with_twin_features_is_bounded_in_visible_directions_only():
    _, X, y = instance("least squares", 0)
    X = torch.cat([X, X[:, :1]], dim=1)
    land = Landscape(icgd.Ridge(5), X, y)
    assert land.collinear
    best = torch.tensor(np.linalg.lstsq(X.numpy(), y.numpy(), rcond=None)[0])
    w = 0.9 * best  # in the span of the rows, as is all that descent from 0 visits
    standing = land.standing(w, lr=0.1)
    # Rounding decides whether twins are twins, so nothing is proved.
    assert standing.distance == standing.gap == math.inf
    assert float((w - best).norm()) <= standing.visible < math.inf


def test_the_duality_gap_rules_out_features_and_never_a_true_one():
    for seed in range(10):
        problem, X, y = instance("lasso", seed)
        best = minimiser(problem, X, y)
        kept = duality_gap(X, y, best, problem.spec.lam).can_be_nonzero
        assert bool(kept[best != 0].all())
        far = torch.full((4,), 50.0, dtype=torch.float64)
        assert bool(duality_gap(X, y, far, problem.spec.lam).can_be_nonzero.all())
    # Wide data: dependent features, but few of them can matter, and those are independent.
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(20, 50, generator=generator, dtype=torch.float64)
    y = X[:, 0] * 3
    problem = icgd.Lasso(50, lam=0.5)
    land, best = Landscape(problem, X, y), minimiser(problem, X, y)
    assert int(duality_gap(X, y, best, 0.5).can_be_nonzero.sum()) < 10
    assert land.standing(best, lr=0.1).distance < 1e-6


def test_duplicate_features_leave_the_lasso_without_a_bound():
    problem, X, y = instance("lasso", 0)
    X = torch.cat([X, X], dim=1)
    problem = icgd.Lasso(8, lam=0.01)
    standing = Landscape(problem, X, y).standing(torch.zeros(8, dtype=torch.float64), lr=0.1)
    assert standing.alpha == 0
    assert standing.distance == standing.kappa == math.inf


def test_overflowing_curvature_is_an_error():
    problem, X, y = instance("ridge", 0)
    with pytest.raises(icgd.AssumptionViolated, match="curvature of the squared loss overflows"):
        Landscape(problem, X * 1e200, y).beta(torch.zeros(4, dtype=torch.float64))


def test_a_lasso_with_an_intercept_in_the_prompt_is_refused():
    _, X, y = instance("lasso", 0)
    with pytest.raises(icgd.InvalidParameter, match=r"no intercept .* Centre X and y instead"):
        Landscape(icgd.Lasso(4, lam=0.1, intercept=True), X, y)
