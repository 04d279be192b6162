"""The same models fitted by scikit-learn: an oracle that shares no line with this package."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.problems import LinearModel


def scikit_learn(problem: LinearModel, n_examples: int) -> Any:
    """scikit-learn's estimator with the same objective, at the tightest tolerance it takes.

    Its penalties count differently: Ridge alpha = lam n, LogisticRegression C = 1 / (lam n), Lasso
    and PoissonRegressor alpha = lam.
    """
    from sklearn import linear_model

    spec, lam = problem.spec, problem.spec.lam
    intercept = {"fit_intercept": spec.intercept}
    if spec.loss.name == "squared" and spec.penalty == "l1":
        return linear_model.Lasso(alpha=lam, tol=1e-14, max_iter=100_000, **intercept)
    if spec.loss.name == "squared":
        return linear_model.Ridge(alpha=lam * n_examples, **intercept)
    if spec.loss.name == "logistic":
        strength = {"C": 1 / (lam * n_examples)} if lam else {"C": np.inf}
        return linear_model.LogisticRegression(
            tol=1e-14, max_iter=10_000, solver="newton-cholesky", **strength, **intercept
        )
    if spec.loss.name == "poisson":
        return linear_model.PoissonRegressor(
            alpha=lam, tol=1e-12, max_iter=10_000, solver="newton-cholesky", **intercept
        )
    raise AssumptionViolated(
        f"scikit-learn has no estimator with the objective of {problem!r}. Compare with "
        "icgd.oracle.minimiser instead."
    )


def fitted_weights(problem: LinearModel, X: Tensor, y: Tensor) -> Tensor:
    """scikit-learn's weights in the order of ours: coefficients, then the intercept."""
    solver = scikit_learn(problem, X.shape[0])
    with warnings.catch_warnings():
        # It stops where rounding does, which is what its tolerance asks for.
        warnings.simplefilter("ignore")
        solver.fit(X.double().numpy(), y.double().numpy())
    w = torch.as_tensor(np.ravel(solver.coef_), dtype=torch.float64)
    if problem.spec.intercept:
        w = torch.cat([w, torch.as_tensor(np.ravel(solver.intercept_), dtype=torch.float64)])
    return w
