"""Ridge, lasso and Poisson regression in context."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score
from torch import Tensor

from icgd.estimators.base import Array, checked_data, grid_radius
from icgd.estimators.linear_model import InContextLinearModel, linear_radius
from icgd.problems import GLM, Lasso, LinearModel, Ridge


class InContextRegressor(RegressorMixin, InContextLinearModel):
    """Base of the linear models with one numeric target."""

    def fit(self, X: Any, y: Any) -> Self:
        """Compile a transformer for these data and let it train in context."""
        self._validate_params()
        X, y = checked_data(self, X, y, y_numeric=True)
        return self._fit(X, self._targets(y))

    def predict(self, X: Any) -> Array:
        """The transformer's own predictions."""
        return self._answers(X)

    def _targets(self, y: Array) -> Array:
        return np.asarray(y, dtype=np.float64)

    def _radii(self, y: Tensor, start: Tensor) -> tuple[float, float]:
        return (linear_radius(y),) * 2


class InContextRidge(InContextRegressor):
    """Ridge regression by gradient descent in a transformer's context.

    Minimises 1/(2n) sum_i (w.x_i + b - y_i)^2 + lam/2 |w|^2: scikit-learn's Ridge(alpha=lam * n).

    lam            weight of the penalty, >= 0
    fit_intercept  whether to fit b
    steps          gradient steps; "auto": until the distance to the minimiser is provably <= tol
    tol            for steps="auto", on the Euclidean distance in the units of coef_; where features are
                   large the distance must also be too small to move predictions by more than
                   tol * rms(y), y centred (Poisson: scores by more than tol), in root mean square
    max_iter       for steps="auto", most steps taken before a ConvergenceWarning

    After fit: coef_, intercept_, program_ (the transformer), run_ (its run), n_iter_ (steps taken),
    error_bound_ (proved bound on the distance of `run_.weights` to the minimiser for the prompt; infinite,
    which says that there is none, if lam = 0 and both features and examples are dependent to machine
    precision; with lam = 0 and independent examples, fewer than features, to the minimiser of least norm),
    gap_bound_ (proved bound on what the objective is above its minimum, infinite alike),
    n_features_in_, feature_names_in_, and x_mean_, y_mean_, by which the prompt was moved: `prompt(X, y)`
    is what the transformer saw, and start_ the weights it began with. Gradient descent needs about
    kappa log(1/tol) steps with the condition number kappa of the features: standardise them first.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]]); y = 2 * X[:, 0] + 1
    >>> model = InContextRidge(lam=0.0).fit(X, y)
    >>> bool(abs(model.coef_[0] - 2) < 1e-6), bool(abs(model.predict([[10.0]])[0] - 21) < 1e-5)
    (True, True)
    """

    def _problem(self, n_features: int) -> LinearModel:
        return Ridge(n_features, float(self.lam))


class InContextLasso(InContextRegressor):
    """The lasso by proximal gradient descent in a transformer's context.

    Minimises 1/(2n) sum_i (w.x_i + b - y_i)^2 + lam |w|_1: scikit-learn's Lasso(alpha=lam). Zeros in
    coef_ are exact: the soft-threshold is a feed-forward layer.

    Parameters and attributes are those of InContextRidge. error_bound_ rests on the curvature over all
    directions in the features that can be non-zero at the minimiser (those the duality gap does not rule
    out). While these are linearly dependent, or more than the examples, nothing is proved about coef_ and
    error_bound_ is infinite. gap_bound_, the duality gap, is a bound in every case. There steps="auto" goes
    on until the gap proves predictions within tol * rms(y) of those of every minimiser, in root mean
    square, and a ConvergenceWarning says that this is all that is proved.

    >>> import numpy as np
    >>> X = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> InContextLasso(lam=0.5).fit(X, X @ [2.0, 0.25]).coef_
    array([1.5, 0. ])
    """

    def _problem(self, n_features: int) -> LinearModel:
        return Lasso(n_features, float(self.lam))


class InContextPoissonRegressor(InContextRegressor):
    """Poisson regression with log link by gradient descent in a transformer's context.

    Minimises 1/n sum_i (exp(s_i) - y_i s_i) + lam/2 |w|^2 with s_i = w.x_i + b: scikit-learn's
    PoissonRegressor(alpha=lam). Predictions are exp(s); `score` is the D^2 of the Poisson deviance.

    Parameters and attributes are those of InContextRidge. The intercept starts at log(mean of y). The
    exponential bends more the further out, so no step size is safe beforehand: the first is 1/beta with
    the curvature at the start, and where it proves too large the run starts again with a smaller one.
    Likewise error_bound_ uses the curvature at the weights found and how fast it can fall off from
    there; further away than that allows it is |gradient| / lam, or infinite with an intercept.

    >>> import numpy as np
    >>> X = np.array([[-1.0], [0.0], [1.0], [2.0]])
    >>> model = InContextPoissonRegressor(lam=0.0).fit(X, np.exp(0.5 * X[:, 0] + 1))
    >>> bool(abs(model.coef_[0] - 0.5) < 1e-6), bool(abs(model.intercept_ - 1) < 1e-6)
    (True, True)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D^2, the share of the deviance explained; 1 is perfect, 0 a constant."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def _problem(self, n_features: int) -> LinearModel:
        return GLM(n_features, "poisson", float(self.lam), intercept=bool(self.fit_intercept))

    def _targets(self, y: Array) -> Array:
        if (y < 0).any():
            raise ValueError(
                "Some value(s) of y are out of the valid range of the loss 'HalfPoissonLoss': a Poisson "
                f"target must be >= 0. Got {y.min():g}."
            )
        return super()._targets(y)

    def _start(self, problem: LinearModel, y: Tensor) -> Tensor:
        start = super()._start(problem, y)
        mean = float(y.mean())
        if problem.spec.intercept and mean > 0:
            start[-1] = math.log(mean)
        return start

    def _radii(self, y: Tensor, start: Tensor) -> tuple[float, float]:
        top = float(y.max())
        met = max(8.0, float(start.abs().max()), math.log1p(top))
        return grid_radius(2 * met), grid_radius(max(1.0, top))
