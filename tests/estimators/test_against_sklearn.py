"""The estimators find what scikit-learn's solvers find, and work inside its tools."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.linear_model import Lasso, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import icgd


def gap(left, right):
    return float(np.abs(np.asarray(left) - np.asarray(right)).max())


def logistic(lam, n):
    return LogisticRegression(C=1 / (lam * n), tol=1e-12, solver="newton-cholesky", max_iter=1000)


# -- the same minimiser ---------------------------------------------------------------------------


def test_ridge_on_diabetes(diabetes):
    X, y = diabetes
    ours = icgd.InContextRidge(lam=0.1, tol=5e-9).fit(X, y)
    theirs = Ridge(alpha=0.1 * len(y)).fit(X, y)
    assert gap(ours.coef_, theirs.coef_) <= 1e-8
    assert gap(ours.intercept_, theirs.intercept_) <= 1e-8
    assert gap(ours.predict(X), theirs.predict(X)) <= 1e-8
    assert ours.error_bound_ <= 5e-9


def test_lasso_on_diabetes(diabetes):
    X, y = diabetes
    ours = icgd.InContextLasso(lam=0.05, tol=5e-9).fit(X, y)
    theirs = Lasso(alpha=0.05, tol=1e-14, max_iter=100_000).fit(X, y)
    assert gap(ours.coef_, theirs.coef_) <= 1e-8
    assert gap(ours.predict(X), theirs.predict(X)) <= 1e-8
    assert ours.error_bound_ <= 5e-9
    assert ((ours.coef_ != 0) == (theirs.coef_ != 0)).all()


def test_a_lasso_that_drops_features(diabetes):
    X, y = diabetes
    ours = icgd.InContextLasso(lam=3.0, tol=5e-9).fit(X, y)
    theirs = Lasso(alpha=3.0, tol=1e-14, max_iter=100_000).fit(X, y)
    assert gap(ours.coef_, theirs.coef_) <= 1e-8
    assert ((ours.coef_ == 0) == (theirs.coef_ == 0)).all()
    assert (ours.coef_ == 0).sum() >= 3


def test_lasso_with_more_features_than_examples():
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 100))
    y = X[:, :3] @ [3.0, -2.0, 1.0] + 0.1 * random.normal(size=40)
    ours = icgd.InContextLasso(lam=0.1, tol=1e-8).fit(X, y)
    theirs = Lasso(alpha=0.1, tol=1e-14, max_iter=100_000).fit(X, y)
    assert gap(ours.coef_, theirs.coef_) <= 1e-8
    assert ours.error_bound_ <= 1e-8


def test_logistic_on_breast_cancer(breast_cancer):
    X, y = breast_cancer
    ours = icgd.InContextLogisticRegression(lam=0.01).fit(X, y)
    theirs = logistic(0.01, len(y)).fit(X, y)
    assert gap(ours.coef_, theirs.coef_) <= 1e-6
    assert gap(ours.intercept_, theirs.intercept_) <= 1e-6
    assert gap(ours.predict_proba(X), theirs.predict_proba(X)) <= 1e-6
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert ours.coef_.shape == (1, 30)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_poisson_on_simulated_counts(counts, fit_intercept):
    X, y = counts
    ours = icgd.InContextPoissonRegressor(lam=0.01, fit_intercept=fit_intercept).fit(X, y)
    theirs = PoissonRegressor(
        alpha=0.01, tol=1e-12, solver="newton-cholesky", fit_intercept=fit_intercept
    ).fit(X, y)
    assert gap(ours.coef_, theirs.coef_) <= 1e-6
    assert gap(ours.intercept_, theirs.intercept_) <= 1e-6
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-6)


def test_one_vs_rest_on_iris_in_one_run(iris):
    X, y = iris
    ours = icgd.InContextLogisticRegression(lam=0.01).fit(X, y)
    theirs = OneVsRestClassifier(logistic(0.01, len(y))).fit(X, y)
    assert gap(ours.coef_, np.vstack([e.coef_ for e in theirs.estimators_])) <= 1e-6
    assert gap(ours.predict_proba(X), theirs.predict_proba(X)) <= 1e-6
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert tuple(ours.run_.weights.shape) == (3, 5)
    assert ours.run_.cost.rounds == ours.n_iter_


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_the_intercept_takes_up_any_shift(linear, fit_intercept, shift):
    X, y = linear
    X = X + shift if fit_intercept else X
    ours = icgd.InContextRidge(lam=0.1, fit_intercept=fit_intercept).fit(X, y + shift)
    theirs = Ridge(alpha=0.1 * len(y), fit_intercept=fit_intercept).fit(X, y + shift)
    assert gap(ours.coef_, theirs.coef_) <= 1e-5
    assert gap(ours.predict(X), theirs.predict(X)) <= 1e-5
    assert fit_intercept or ours.intercept_ == 0.0


# -- inside scikit-learn's tools ------------------------------------------------------------------


def test_a_grid_search_over_lam_in_a_pipeline(linear):
    X, y = linear
    pipeline = make_pipeline(StandardScaler(), icgd.InContextRidge())
    search = GridSearchCV(pipeline, {"incontextridge__lam": [0.001, 10.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"incontextridge__lam": 0.001}
    assert search.score(X, y) > 0.95


def test_a_grid_search_in_threads(linear):
    X, y = linear
    with parallel_config("threading", n_jobs=2):
        search = GridSearchCV(icgd.InContextLasso(), {"lam": [0.01, 5.0]}, cv=2).fit(X, y)
    assert search.best_params_ == {"lam": 0.01}
    assert search.best_estimator_.error_bound_ <= 1e-6


def test_cross_validation_of_a_classifier(iris):
    X, y = iris
    assert cross_val_score(icgd.InContextLogisticRegression(lam=0.1), X, y, cv=3).mean() > 0.8


def test_clone_keeps_parameters_and_forgets_the_fit(linear):
    fitted = icgd.InContextLasso(lam=0.3, tol=1e-4, steps=10).fit(*linear)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "run_")


@pytest.mark.parametrize(
    "model",
    [icgd.InContextRidge(), icgd.InContextLogisticRegression(), icgd.InContextMLPRegressor()],
)
def test_a_pickled_model_predicts_the_same_to_the_last_bit(iris, model):
    X, y = iris
    fitted = model.fit(X, y)
    loaded = pickle.loads(pickle.dumps(fitted))
    assert (loaded.predict(X) == fitted.predict(X)).all()
    assert loaded.run_.program is loaded.program_
    assert loaded.program_.config == fitted.program_.config


def test_names_of_columns_are_kept_and_checked(linear):
    X, y = linear
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = icgd.InContextRidge().fit(table, y)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[["b", "a", "c", "d"]])
