"""No run ends in numbers that are none, and no setting of the caller's changes a program's precision."""

from __future__ import annotations

import pytest
import torch

import icgd
from icgd.oracle import sgd_rounds

X = torch.linspace(-1, 1, 18, dtype=torch.float64).reshape(6, 3).sin()
Y = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0], dtype=torch.float64)


@pytest.mark.parametrize("executor", ["structured", "dense"])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_diverged_logistic_model_is_refused_by_every_executor(executor, steps):
    """A sigmoid has no range that could be left: only the weights tell."""
    program = icgd.compile(icgd.GLM(3, "logistic"), icgd.GD(lr=1e308))
    with pytest.raises(icgd.AssumptionViolated, match=r"diverged.*lower lr"):
        program.run(100 * X, Y, steps=steps, executor=executor)


def test_without_the_watch_they_are_returned():
    program = icgd.compile(icgd.GLM(3, "logistic"), icgd.GD(lr=1e308))
    assert not bool(program.run(100 * X, Y, steps=1, watch=False).weights.isfinite().all())


@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_a_prediction_that_overflows_is_refused(executor):
    program = icgd.compile(icgd.GLM(3, "logistic"), icgd.GD(0.1))
    weights = torch.full((3,), 1e308, dtype=torch.float64)
    with pytest.raises(icgd.AssumptionViolated):
        program.predict(100 * torch.tensor([[1.0, -1.0, 1.0]]), weights, executor=executor)


@pytest.mark.parametrize("size", [1e-310, 1e-170])
@pytest.mark.parametrize(
    "optimizer", [icgd.GD(0.1), icgd.Newton(1e-3), icgd.PreconditionedGD(alpha=1e-3)]
)
def test_features_whose_squares_underflow_are_refused_by_loops(optimizer, size):
    program = icgd.compile(icgd.LinearRegression(3, 6), optimizer)
    with pytest.raises(icgd.AssumptionViolated, match=r"square is below .* Scale the data"):
        program.run(X * size, Y, steps=2)


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("size", [1e-310, 1e-170])
@pytest.mark.parametrize("estimator", [icgd.InContextRidge, icgd.InContextLasso])
def test_estimators_fit_or_refuse_features_whose_squares_underflow(estimator, size, lam):
    rows = (X * size).numpy()
    if lam and estimator is icgd.InContextRidge:
        model = estimator(lam, fit_intercept=False).fit(rows, Y.numpy())
        exact = rows.T @ Y.numpy() / (6 * lam)  # X^T X is nothing beside lam
        assert abs(model.coef_ - exact).max() <= model.error_bound_ + 1e-12 * abs(exact).max()
        assert model.error_bound_ > 0
    else:
        with pytest.raises(
            icgd.AssumptionViolated, match=r"curvature .* underflows.*Scale the features"
        ):
            estimator(lam, fit_intercept=False).fit(rows, Y.numpy())


def test_a_perceptron_refuses_columns_its_scaler_cannot_see():
    with pytest.raises(
        icgd.AssumptionViolated, match=r"Column 0 of `X` varies by .* Scale the data"
    ):
        icgd.InContextMLPRegressor((2,), max_iter=1).fit(X.numpy() * 1e-310, Y.numpy())


CASES = {
    "linear": (icgd.Ridge(3), icgd.GD(0.1), {"steps": 20}),
    "network": (icgd.Network((3, 4, 1)), icgd.SGD(0.1), {"epochs": 3}),
    "stack": (icgd.Network((3, 4, 1)), icgd.GD(0.1), {"steps": 3}),
    "loop": (icgd.LinearRegression(3, 6), icgd.GD(0.1), {"steps": 20}),
}


@pytest.mark.parametrize("name", CASES)
def test_autocast_does_not_reach_a_program(name):
    problem, optimizer, how = CASES[name]
    program = icgd.compile(problem, optimizer, dtype=torch.float32)
    is_network = isinstance(problem, icgd.Network)
    targets = Y.unsqueeze(-1) if is_network else Y
    if is_network:
        how = how | {"init": problem.init(0)}
    alone = program.run(X, targets, **how)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = program.run(X, targets, **how)
        if name != "loop":
            assert torch.equal(cast.predict(X), alone.predict(X))
    flat = [run.weights if not is_network else run.weights[0][0] for run in (alone, cast)]
    assert torch.equal(*flat)
    assert flat[1].dtype == torch.float32


def test_autocast_does_not_reach_the_oracle():
    net = icgd.Network((3, 4, 1))
    start = net.init(0, dtype=torch.float32)
    rows, targets = X.float(), Y.float().unsqueeze(-1)
    alone = list(sgd_rounds(net.spec, start, rows, targets, 0.1))[-1]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = list(sgd_rounds(net.spec, start, rows, targets, 0.1))[-1]
    assert torch.equal(alone[0][0], cast[0][0])
