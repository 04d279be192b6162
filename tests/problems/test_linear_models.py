"""Objectives, gradients, prox and constants of linear models, against autograd and closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from cases import by_name
from linear_cases import LINEAR, LINEAR_BY_NAME, LinearCase
from random_programs import linear_model

import icgd
from icgd.oracle import minimiser
from icgd.oracle.library import fitted_weights


@pytest.mark.parametrize("case", LINEAR, ids=by_name)
def test_the_gradient_is_autograds(case: LinearCase) -> None:
    problem, (X, y) = case.make(3), case.data(9, 3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        w = torch.randn(3 + problem.spec.intercept, generator=generator, dtype=torch.float64)
        point = w.clone().requires_grad_(True)
        (grad,) = torch.autograd.grad(problem.smooth_part(point, X, y), point)
        assert float((grad - problem.gradient(w, X, y)).abs().max()) <= 1e-12


@pytest.mark.parametrize("case", LINEAR, ids=by_name)
def test_the_smooth_part_is_the_tests_own_loss_up_to_a_constant(case: LinearCase) -> None:
    if case.name == "user_link":
        pytest.skip("the tests' own loss of this case has a gradient only")
    problem, (X, y) = case.make(3), case.data(9, 3)
    spec = problem.spec

    def own(w: torch.Tensor) -> float:
        s = X @ w[:3] + (w[3] if spec.intercept else 0.0)
        ridge = spec.lam / 2 * float(w[:3].square().sum()) if spec.penalty == "l2" else 0.0
        return float(case.loss(s, y).mean()) + ridge

    zero = torch.zeros(3 + spec.intercept, dtype=torch.float64)
    away = torch.linspace(-1, 1, 3 + spec.intercept, dtype=torch.float64)
    ours = float(problem.smooth_part(away, X, y)) - float(problem.smooth_part(zero, X, y))
    assert ours == pytest.approx(own(away) - own(zero), abs=1e-12)


@pytest.mark.parametrize("case", LINEAR, ids=by_name)
def test_the_hessian_lies_between_the_constants(case: LinearCase) -> None:
    if case.exact is False and case.name != "joint":
        pytest.skip("a loss with corners has no Hessian at them")
    problem, (X, y) = case.make(3), case.data(20, 3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        w = 0.5 * torch.randn(3 + problem.spec.intercept, generator=generator, dtype=torch.float64)
        reach = float(problem.scores(w, X).abs().max()) + (
            float(y.abs().max()) if problem.spec.loss.form == "residual" else 0.0
        )
        alpha, beta = problem.constants_on(X, reach)
        hessian = torch.autograd.functional.hessian(lambda v: problem.smooth_part(v, X, y), w)
        eigenvalues = torch.linalg.eigvalsh(hessian)
        slack = 1e-9 if problem.spec.loss.bend is not None else 1e-2
        if case.name != "joint":
            assert alpha <= float(eigenvalues[0]) + slack
        assert float(eigenvalues[-1]) <= beta * (1 + slack) + slack


def test_the_prox_leaves_the_intercept_alone() -> None:
    w = torch.tensor([3.0, -0.5, 7.0])
    assert icgd.Lasso(2, 1.0, intercept=True).prox(w, 1.0).tolist() == [2.0, -0.0, 7.0]
    assert torch.equal(icgd.Ridge(3, 1.0).prox(w, 1.0), w)


@pytest.mark.parametrize("name", ["ridge_bias", "lasso_bias", "logistic_bias", "poisson_bias"])
def test_the_minimiser_is_scikit_learns(name: str) -> None:
    case = LINEAR_BY_NAME[name]
    problem, (X, y) = case.make(4), case.data(60, 4)
    ours, theirs = minimiser(problem, X, y), fitted_weights(problem, X, y)
    assert float((ours - theirs).abs().max()) <= 1e-9


def test_separable_classes_have_no_minimiser() -> None:
    X = torch.tensor([[1.0], [2.0], [-1.0], [-2.0]], dtype=torch.float64)
    y = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    with pytest.raises(icgd.AssumptionViolated, match=r"no minimiser .*separable"):
        minimiser(icgd.GLM(1, "logistic"), X, y)


def test_separable_classes_are_a_sentence_even_where_newtons_iterates_overflow() -> None:
    """Whether LAPACK takes a matrix of NaN or raises depends on the machine."""
    draw = linear_model(14)
    problem = icgd.GLM(draw.X.shape[1], "logistic", intercept=False)
    with pytest.raises(icgd.AssumptionViolated, match=r"no minimiser .*separable"):
        minimiser(problem, draw.X, draw.y)


def test_a_users_link_is_integrated_to_rounding() -> None:
    loss = icgd.link_loss(torch.exp)
    s = torch.linspace(-3, 3, 7, dtype=torch.float64)
    expected = torch.exp(s) - 1 - 2 * s
    assert float((loss.of(s, torch.full_like(s, 2.0)) - expected).abs().max()) <= 1e-13


def test_smoothness_from_radii_covers_every_data_set_within_them() -> None:
    generator = torch.Generator().manual_seed(0)
    for link, w_radius in (("identity", None), ("logistic", None), ("poisson", 2.0)):
        problem = icgd.GLM(3, link, 0.1, x_radius=1.5, w_radius=w_radius, intercept=True)
        for _ in range(10):
            X = torch.randn(5, 3, generator=generator, dtype=torch.float64)
            X = 1.5 * X / X.norm(dim=1, keepdim=True)
            reach = (w_radius or 1.0) * math.sqrt(1.5**2 + 1)
            assert problem.constants_on(X, reach)[1] <= problem.smoothness() * (1 + 1e-12)


def test_the_papers_sum_form_is_the_step_divided_by_n() -> None:
    """One step on the mean with lr is one step on the sum with paper_lr."""
    case = LINEAR_BY_NAME["plain"]
    problem, (X, y) = case.make(3), case.data(8, 3)
    w = torch.ones(3, dtype=torch.float64)
    optimizer = icgd.GD(0.3)
    summed = 8 * problem.gradient(w, X, y)
    assert torch.allclose(
        w - 0.3 * problem.gradient(w, X, y), w - optimizer.paper_lr(8) * summed, rtol=0, atol=1e-15
    )
