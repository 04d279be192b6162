"""scikit-learn's own checks, all of them, on every estimator as a user gets it. None is expected to fail."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)

import icgd

ESTIMATORS = [
    icgd.InContextRidge(),
    icgd.InContextLasso(),
    icgd.InContextLogisticRegression(),
    icgd.InContextPoissonRegressor(),
    icgd.InContextMLPRegressor(),
]


@parametrize_with_checks(ESTIMATORS)
def test_every_check_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize(
    "check", [check_dataframe_column_names_consistency, check_param_validation]
)
def test_checks_scikit_learn_keeps_for_its_own_estimators(estimator, check):
    check(type(estimator).__name__, estimator)
