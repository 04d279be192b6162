"""Logistic regression in context, two classes or one-vs-rest."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from icgd.estimators.base import Array, checked_data
from icgd.estimators.linear_model import InContextLinearModel
from icgd.problems import GLM, LinearModel

SAME = 2.0**-48
"""Relative difference of probabilities that may be rounding alone."""


class InContextLogisticRegression(ClassifierMixin, InContextLinearModel):
    """Logistic regression by gradient descent in a transformer's context.

    Minimises 1/n sum_i (log(1 + exp(s_i)) - y_i s_i) + lam/2 |w|^2 with s_i = w.x_i + b, y_i in {0, 1}:
    scikit-learn's LogisticRegression(C=1 / (lam * n)). More than two classes are fitted one-vs-rest, as
    sklearn.multiclass.OneVsRestClassifier does, all in one run: a batch of prompts that share their rows.

    lam            weight of the penalty, >= 0
    fit_intercept  whether to fit b
    steps          gradient steps; "auto": until the distance to the minimiser is provably <= tol
    tol            for steps="auto", on the Euclidean distance in the units of coef_; where features are
                   large the distance must also be too small to move scores by more than tol
                   in root mean square
    max_iter       for steps="auto", most steps taken before a ConvergenceWarning

    After fit: classes_, coef_ and intercept_ (one row for two classes, else one per class), program_,
    run_, n_iter_, error_bound_ (proved bound on the distance to the minimiser, the largest of the
    classes'), gap_bound_ (proved bound on what the objective is above its minimum, likewise), start_,
    n_features_in_, feature_names_in_, x_mean_. The curvature of the loss changes with the weights;
    error_bound_ uses that at the weights found and how fast it can fall off from there, and is infinite
    further away than that allows (with a penalty and no intercept it is |gradient| / lam). Separable
    classes without a penalty have no minimiser, and the fit ends with a ConvergenceWarning.

    >>> import numpy as np
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = InContextLogisticRegression(lam=0.1).fit(X, ["no", "no", "yes", "yes"])
    >>> model.predict([[-3.0], [3.0]])
    array(['no', 'yes'], dtype='<U3')
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Compile a transformer for these data and let it train in context, all classes at once."""
        self._validate_params()
        X, y = checked_data(self, X, y)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data contains only "
                f"one class: {self.classes_[0]!r}"
            )
        self._fit(X, self._targets(y))
        self.coef_ = np.atleast_2d(self.coef_)
        self.intercept_ = np.atleast_1d(self.intercept_)
        return self

    def predict_proba(self, X: Any) -> Array:
        """The transformer's own predictions, one column per class; one-vs-rest rows are scaled to 1."""
        answers = self._answers(X)
        if answers.ndim == 1:
            return np.stack([1 - answers, answers], axis=1)
        each = answers.T
        total = each.sum(axis=1, keepdims=True)
        even = np.full_like(each, 1 / len(self.classes_))
        return np.divide(each, total, out=even, where=total > 0)

    def decision_function(self, X: Any) -> Array:
        """Scores X @ coef_.T + intercept_, one column per class, or (n,) for two classes.

        This is linear algebra on the weights the transformer wrote, not an answer of the transformer.
        """
        check_is_fitted(self)
        X = checked_data(self, X, reset=False)
        scores: Array = X @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row; of classes that tie, the one with the largest score."""
        proba = self.predict_proba(X)
        if len(self.classes_) > 2:
            # Far out several classes are certain, or all impossible, and only scores tell them apart.
            ties = proba >= (1 - SAME) * proba.max(axis=1, keepdims=True)
            proba = np.where(ties, self.decision_function(X), -np.inf)
        return self.classes_[proba.argmax(axis=1)]

    def _problem(self, n_features: int) -> LinearModel:
        return GLM(n_features, "logistic", float(self.lam), intercept=bool(self.fit_intercept))

    def _targets(self, y: NDArray[Any]) -> Array:
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(f"y contains previously unseen labels: {strange.tolist()}")
        each = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        indicator = (np.asarray(y) == each[:, np.newaxis]).astype(np.float64)
        return indicator[0] if len(each) == 1 else indicator

    def _radii(self, y: Tensor, start: Tensor) -> tuple[float, float]:
        # A sigmoid is two tokens and has no range; targets are 0 and 1.
        return 1.0, 1.0
