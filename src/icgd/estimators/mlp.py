"""A multilayer perceptron trained in context."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from icgd.errors import AssumptionViolated
from icgd.estimators.base import Array, InContextEstimator, as_tensor, checked_data
from icgd.mechanisms import compile
from icgd.problems import SGD, Network
from icgd.transformer.program import Program


class InContextMLPRegressor(RegressorMixin, InContextEstimator):
    """A ReLU network trained by SGD in a transformer's context.

    Every round is one example: a forward pass, a backward pass and an update, all by the same frozen
    layer. Features and target are standardised inside, which keeps every number in the heads' certified
    range. The loss is 1/2 (o - y)^2 of one standardised example, without momentum or penalty; rows
    are shuffled once, not in every epoch.

    hidden_layer_sizes  units of the hidden layers, as in scikit-learn's MLPRegressor
    learning_rate_init  step size of SGD, constant
    max_iter            epochs: passes over the data
    random_state        seeds the initial weights and the order of the rows

    After fit: coefs_ and intercepts_ (of the standardised network, coefs_[i] of shape (in, out) as in
    scikit-learn), program_, run_, n_iter_ (epochs), n_features_in_, feature_names_in_. There is no
    error_bound_: the minimum of a network is not unique. How far each round is from exact SGD is what
    `icgd.verify(model.program_, ...)` says.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 40).reshape(-1, 1)
    >>> model = InContextMLPRegressor((8,), max_iter=30, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> bool(model.score(X, np.abs(X[:, 0])) > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hidden_layer_sizes": ["array-like", Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        hidden_layer_sizes: Any = (16,),
        *,
        learning_rate_init: float = 0.02,
        max_iter: int = 20,
        random_state: Any = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Compile a transformer for the network's widths and let it train on these rows."""
        self._validate_params()
        X, y = checked_data(self, X, y, y_numeric=True)
        widths = (X.shape[1], *self._hidden(), 1)
        self._scale_x = StandardScaler().fit(X)
        self._scale_y = StandardScaler().fit(y.reshape(-1, 1))
        _refuse_invisible("X", X, self._scale_x)
        _refuse_invisible("y", y.reshape(-1, 1), self._scale_y)
        random = check_random_state(self.random_state)
        net = Network(widths)
        init = net.init(seed=int(random.randint(np.iinfo(np.int32).max)))
        order = random.permutation(len(X))
        rows = as_tensor(self._scale_x.transform(X)[order])
        targets = as_tensor(self._scale_y.transform(y.reshape(-1, 1))[order])
        program = compile(net, SGD(lr=float(self.learning_rate_init)))
        try:
            run = program.run(rows, targets, init=init, epochs=int(self.max_iter))
        except AssumptionViolated as left:
            raise AssumptionViolated(
                f"Training left the certified range: {left} Here the step size is learning_rate_init = "
                f"{self.learning_rate_init:g}; the data are standardised already."
            ) from left
        self.program_, self.run_, self.n_iter_ = program, run, int(self.max_iter)
        self.coefs_ = [W.numpy().T.copy() for W, _ in run.weights]
        self.intercepts_ = [b.numpy().copy() for _, b in run.weights]
        return self

    def predict(self, X: Any) -> Array:
        """The transformer's own predictions: the forward steps of the layer that trained."""
        check_is_fitted(self)
        X = checked_data(self, X, reset=False)
        answers = self._ask(as_tensor(self._scale_x.transform(X)))
        return self._scale_y.inverse_transform(answers).ravel()

    def _hidden(self) -> tuple[int, ...]:
        sizes = tuple(int(size) for size in np.atleast_1d(self.hidden_layer_sizes))
        if any(size < 1 for size in sizes):
            raise ValueError(f"hidden_layer_sizes must be > 0, got {list(sizes)}.")
        return sizes

    def _compiled(self, radius: float) -> Program:
        return compile(self.program_.problem, self.program_.optimizer, radius=radius)


def _refuse_invisible(name: str, values: Array, scaler: StandardScaler) -> None:
    """Refuse columns that vary by so little that the scaler takes them for constant: squares underflow."""
    varies = np.ptp(values, axis=0)
    lost = (varies > 0) & (scaler.var_ < np.finfo(np.float64).tiny)
    if lost.any():
        raise AssumptionViolated(
            f"Column {int(lost.argmax())} of `{name}` varies by {varies[lost][0]:.3g} only, and the square of "
            "that underflows. Scale the data."
        )
