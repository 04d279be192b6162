"""A report shows no condition number and no range where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import icgd
from icgd.pages.report.stories.linear_model import condition_row
from icgd.pages.report.stories.numbers import range_row

FOUR = {name: {} for name in "abcd"}


def constants(problem, X):
    alpha, beta = problem.constants_on(X, radius=8.0)
    return {"constants": {"kappa": beta / alpha if alpha else None}}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["twin", "sum", "wide"])
def test_dependent_features_have_a_rank_and_no_condition_number(kind, seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(3 if kind == "wide" else 30, 4))
    if kind != "wide":
        X[:, 3] = X[:, 0] + (X[:, 1] if kind == "sum" else 0)
    problem, X = icgd.Ridge(4), torch.tensor(X)
    result = {**constants(problem, X), "rank": problem.rank_on(X), "coefficients": FOUR}
    assert result["rank"] == np.linalg.matrix_rank(X.numpy()) == 3
    assert condition_row(result) == (
        "Rank of the features",
        "3 of 4: the solution is not unique",
    )
    # A penalty makes it unique, and the number one that means something.
    penalised = {**constants(icgd.Ridge(4, lam=0.1), X), "rank": 3, "coefficients": FOUR}
    title, value = condition_row(penalised)
    exact = np.linalg.cond(X.numpy().T @ X.numpy() / len(X) + 0.1 * np.eye(4))
    assert title == "Condition number kappa"
    assert float(value) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_independent_features_have_their_condition_number(seed):
    X = torch.tensor(np.random.default_rng(seed).normal(size=(30, 4)))
    problem = icgd.Ridge(4)
    result = {**constants(problem, X), "rank": problem.rank_on(X), "coefficients": FOUR}
    assert result["rank"] == 4
    assert float(condition_row(result)[1]) == pytest.approx(np.linalg.cond(X) ** 2, rel=1e-3)


def test_a_stored_number_beyond_all_digits_is_not_shown():
    stored = {"constants": {"kappa": 5.87e17}, "coefficients": FOUR}
    assert condition_row(stored)[1] == "none: the curvature vanishes to rounding"


def test_a_range_is_shown_where_there_is_one():
    assert range_row({"range_use": 0.25, "radius": 8.0})[1] == "25 %"
    assert range_row({"range_use": 0.0, "radius": None})[1].startswith("no limit")
    assert range_row({"range_use": 0.0, "radius": 8.0})[1] == "not measured"
