"""Runs in chunks are one run; a range or a step size that does not do is replaced."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import icgd
from icgd.estimators import descent
from icgd.estimators.descent import Task, descend
from icgd.oracle import gd_steps, minimiser


def task(problem, X, y, *, radius=64.0, target_radius=64.0):
    start = torch.zeros(problem.spec.n_features + problem.spec.intercept, dtype=torch.float64)
    return Task(
        problem, torch.tensor(X), torch.tensor(np.asarray(y, float)), start, radius, target_radius
    )


def test_chunks_are_one_run_to_the_last_bit(linear):
    made = task(icgd.Lasso(4, lam=0.1), *linear)
    outcome = descend(made, 1000, 0.0)
    assert outcome.n_steps == outcome.run.cost.rounds == 1000
    whole = outcome.program.run(made.X, made.y, steps=1000)
    assert torch.equal(outcome.run.weights, whole.weights)
    assert outcome.run.cost == whole.cost
    assert outcome.run.range_use == whole.range_use


def test_a_fixed_number_of_steps_is_exact_gradient_descent(linear):
    made = task(icgd.Ridge(4, lam=0.1), *linear)
    outcome = descend(made, 77, 0.0)
    lr = outcome.program.config["optimizer"]["lr"]
    exact = gd_steps(made.problem, made.start, made.X, made.y, lr)
    for _ in range(77):
        w = next(exact)
    assert float((outcome.run.weights - w).abs().max()) <= 1e-12


def test_it_stops_soon_after_the_tolerance_is_reached(diabetes):
    X, y = diabetes
    made = task(icgd.Ridge(10, lam=0.1), X, y - y.mean(), radius=512.0)
    outcome = descend(made, 10_000, 1e-6)
    assert outcome.standing.distance <= 1e-6
    best = minimiser(made.problem, made.X, made.y)
    assert float((outcome.run.weights - best).norm()) <= outcome.standing.distance
    fewer = outcome.program.run(made.X, made.y, steps=int(0.8 * outcome.n_steps))
    assert float((fewer.weights - best).norm()) > 1e-6


def test_a_range_left_is_doubled(linear):
    X, y = linear
    outcome = descend(task(icgd.Ridge(4, lam=0.1), X, y, radius=0.5), 5000, 1e-6)
    assert outcome.program.radius > 0.5
    assert outcome.run.range_use <= 1
    assert outcome.standing.distance <= 1e-6


@pytest.mark.parametrize("level", [-4.0, 2.0])
def test_the_exponential_gets_a_step_size_that_suits_it(level):
    """At -4 the first step size sends descent round in circles, at 2 it is too large at the end."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5))
    weight = np.array([1.5, -1.0, 0.8, 0.0, 0.6]) * (0.25 if level < 0 else 1.0)
    y = random.poisson(np.exp(X @ weight + level)).astype(float)
    problem = icgd.GLM(5, "poisson", lam=1e-3, intercept=True)
    made = task(problem, X, y, radius=16.0, target_radius=4096.0)
    made.start[-1] = np.log(y.mean())
    first = 1 / descent.Landscape(problem, made.X, made.y).beta(made.start)
    outcome = descend(made, 50_000, 1e-8)
    assert outcome.program.config["optimizer"]["lr"] <= first / 2
    assert float((outcome.run.weights - minimiser(problem, made.X, made.y)).norm()) <= 1e-8


def test_steps_too_long_for_the_exponential_head_are_shortened():
    X, y = np.array([[10.0], [-10.0], [1.0]]), np.array([40.0, 0.0, 1.0])
    outcome = descend(task(icgd.GLM(1, "poisson", lam=0.1), X, y, radius=8.0), 20_000, 1e-8)
    assert outcome.standing.distance <= 1e-8
    assert outcome.run.range_use <= 1


def test_a_problem_no_step_size_suits_is_an_error(linear, monkeypatch):
    monkeypatch.setattr(descent, "_too_fast", lambda *_: True)
    monkeypatch.setattr(descent, "RESTARTS", 3)
    with pytest.raises(icgd.AssumptionViolated, match="No step size down to"):
        descend(task(icgd.Ridge(4), *linear), 10, 1e-6)


def test_a_range_that_never_suffices_is_an_error(linear, monkeypatch):
    monkeypatch.setattr(descent, "RESTARTS", 2)
    with pytest.raises(icgd.AssumptionViolated, match="outside its certified range"):
        descend(task(icgd.Ridge(4), *linear, radius=2.0**-20), 10, 1e-6)
