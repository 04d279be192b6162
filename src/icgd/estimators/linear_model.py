"""The fit of every linear model: centre, compile for the data, run, prove how near, map back."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from icgd.estimators.base import (
    Array,
    InContextEstimator,
    as_tensor,
    checked_data,
    grid_radius,
)
from icgd.estimators.descent import Outcome, Task, descend
from icgd.estimators.landscape import Standing
from icgd.mechanisms import compile
from icgd.problems import GD, LinearModel
from icgd.transformer.program import Program
from icgd.verification.bounds.cot_linear import linear_model_codec
from icgd.verification.cot_linear import problem_of


class InContextLinearModel(InContextEstimator):
    """Base of the estimators that fit a linear predictor by (proximal) gradient descent in context.

    With `fit_intercept` the transformer sees X - x_mean_. The intercept is not penalised, so moving the
    features changes it and nothing else; but a large mean would make gradient descent slow, as the
    constant and the features then point almost the same way. Squared losses have their targets centred
    as well and need no intercept in the prompt at all; the others fit b in context. Predictions are the
    transformer's own for x - x_mean_, plus y_mean_.

    `program_.run(*prompt(X, y), init=start_, steps=n_iter_)` is run_ once more, to the last bit.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lam": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "steps": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        lam: float = 0.01,
        *,
        fit_intercept: bool = True,
        steps: int | Literal["auto"] = "auto",
        tol: float = 1e-6,
        max_iter: int = 50_000,
    ) -> None:
        self.lam = lam
        self.fit_intercept = fit_intercept
        self.steps = steps
        self.tol = tol
        self.max_iter = max_iter

    # -- what the models differ in ----------------------------------------------------------------

    @abstractmethod
    def _problem(self, n_features: int) -> LinearModel:
        """The problem to compile."""

    @abstractmethod
    def _targets(self, y: Array) -> Array:
        """Targets as the loss wants them, (n,), or (b, n) for b problems at once."""

    def _start(self, problem: LinearModel, y: Tensor) -> Tensor:
        """The first weights, zero unless there is something better."""
        spec = problem.spec
        return torch.zeros(*y.shape[:-1], spec.n_features + spec.intercept, dtype=torch.float64)

    @abstractmethod
    def _radii(self, y: Tensor, start: Tensor) -> tuple[float, float]:
        """(radius, target radius): powers of two well above what is likely to be met."""

    # -- fitting ----------------------------------------------------------------------------------

    def prompt(self, X: Any, y: Any) -> tuple[Tensor, Tensor]:
        """The examples as the transformer saw them: what `program_.run` and `icgd.verify` take."""
        check_is_fitted(self)
        X, y = checked_data(self, X, y, reset=False)
        return self._prompt(X, self._targets(y))

    def _prompt(self, X: Array, y: Array) -> tuple[Tensor, Tensor]:
        rows = as_tensor(X - self.x_mean_)
        targets = as_tensor(y - self.y_mean_)
        return rows.expand(*targets.shape[:-1], *rows.shape), targets

    def _fit(self, X: Array, y: Array) -> Self:
        """Fit checked features and targets."""
        problem = self._problem(X.shape[1])
        self.x_mean_ = _means(X) if self.fit_intercept else np.zeros(X.shape[1])
        self.y_mean_ = float(y.mean()) if self.fit_intercept and not problem.spec.intercept else 0.0
        rows, targets = self._prompt(X, y)
        start = self._start(problem, targets)
        task = Task(problem, rows, targets, start, *self._radii(targets, start))
        if self.steps == "auto":
            outcome = descend(task, int(self.max_iter), float(self.tol))
        else:
            outcome = descend(task, int(self.steps), 0.0)
        self._warn(outcome)
        self.program_, self.run_ = outcome.program, outcome.run
        self.start_ = start.clone()
        self.n_iter_ = outcome.n_steps
        self.error_bound_, self.gap_bound_ = outcome.standing.distance, outcome.standing.gap
        w = self.run_.weights.numpy()
        self.coef_ = w[..., : X.shape[1]].copy()
        b = w[..., X.shape[1]] if problem.spec.intercept else 0.0
        self.intercept_ = b + self.y_mean_ - self.coef_ @ self.x_mean_
        return self

    def _warn(self, outcome: Outcome) -> None:
        standing = outcome.standing
        if outcome.collinear:
            n_weights = outcome.run.weights.shape[-1]
            _announce(
                f"The features have rank {outcome.rank} of {n_weights} to machine precision and lam = 0: the "
                "minimiser is not unique. Gradient descent approaches the one of least norm. Use lam > 0 or "
                "remove collinear features."
            )
        if self.steps != "auto":
            return
        numbers = _proved(outcome.standing, self.tol)
        if outcome.needed < self.tol:
            numbers += f" Features are large, so predictions settle only at a distance of {outcome.needed:.3e}."
        if outcome.converged:
            if outcome.fit:
                _announce(
                    "The objective converged, but nothing is proved about coef_: the features that can matter "
                    "at a minimiser are linearly dependent, or more than the examples, so that the minimiser "
                    "may not be unique. Predictions are within the tolerance of those of every minimiser. "
                    f"Decrease tol to rule out more features, or increase lam. {numbers}"
                )
        elif standing.alpha == 0:
            _announce(
                "Objective did not converge provably: features that can matter at the minimiser are linearly "
                "dependent to machine precision, or more than the examples. There may be more than one "
                f"minimiser. Increase lam or max_iter={self.max_iter}, or remove collinear features. {numbers}"
            )
        elif standing.stalled:
            _announce(
                "Objective did not converge to the tolerance: the steps are down to rounding errors, so "
                f"more iterations would not help. Increase tol. {numbers}"
            )
        else:
            _announce(
                "Objective did not converge. You might want to increase the number of iterations "
                f"(max_iter={self.max_iter}), check the scale of the features or consider increasing "
                f"regularisation. {numbers}"
            )

    # -- predicting -------------------------------------------------------------------------------

    def _answers(self, X: Any) -> Array:
        """The transformer's predictions for new rows, (n,), or (b, n)."""
        check_is_fitted(self)
        X = checked_data(self, X, reset=False)
        return self._ask(as_tensor(X - self.x_mean_)) + self.y_mean_

    def _compiled(self, radius: float) -> Program:
        program = self.program_
        problem = problem_of(linear_model_codec(program).spec)
        lr = float(program.config["optimizer"]["lr"])
        return compile(
            problem,
            GD(lr=lr),
            radius=radius,
            target_radius=program.config["options"]["target_radius"],
        )


def _means(X: Array) -> Array:
    """Means of the columns; exact for constant ones, which rounding would leave with a slope."""
    return np.where(np.ptp(X, axis=0) == 0, X[0], X.mean(axis=0))


def linear_radius(y: Tensor) -> float:
    """A range for residuals: at the start they are the targets, and the sum of their squares falls."""
    return grid_radius(2 * float(y.abs().max()))


def _proved(standing: Standing, tol: float) -> str:
    """The bounds that there are, and the tolerance."""
    if math.isfinite(standing.distance):
        text = (
            f"Bound on the distance to the minimiser: {standing.distance:.3e}, tolerance: {tol:.3e}"
        )
    else:
        text = f"There is no bound on the distance to a minimiser, tolerance: {tol:.3e}"
    if math.isfinite(standing.gap):
        text += f", bound on what the objective is above its minimum: {standing.gap:.3e}"
    if math.isfinite(standing.kappa):
        text += f", condition number: {standing.kappa:.3g}"
    return text + "."


def _announce(message: str) -> None:
    # Point at the caller of fit, beyond self._warn, self._fit and fit itself.
    warnings.warn(message, ConvergenceWarning, stacklevel=5)
