"""Linear predictors fitted by minimising a mean loss with a penalty: GLM, ridge, lasso and kin.

Normalisation of the package, with every factor:
    smooth part  f(w, b) = 1/n sum_i l(w.x_i + b, y_i) + lam/2 |w|^2      (penalty "l2")
    lasso        f(w, b) = 1/n sum_i 1/2 (w.x_i + b - y_i)^2, plus h(w) = lam |w|_1
The intercept b, if there is one, is never penalised. The paper sums over examples instead of taking
the mean: its loss is n f, its step size lr / n (`GD.paper_lr`), its lam n lam.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.problems.losses import (
    LINKS,
    LOSSES,
    SQUARED,
    Loss,
    built_in,
    forgotten_loss,
    link_loss,
)
from icgd.problems.radii import checked_radius
from icgd.problems.rank import visible_rank

Penalty = Literal["l2", "l1"]


@dataclass(frozen=True)
class LinearModelSpec:
    """All a compiler may see: dimensions, loss, penalty and radii, never data."""

    n_features: int
    loss: Loss
    lam: float
    penalty: Penalty
    intercept: bool
    x_radius: float | None
    w_radius: float | None
    y_radius: float | None = None


class LinearModel:
    """Minimise 1/n sum_i l(w.x_i + b, y_i) + lam/2 |w|^2 for any loss of problems/losses.py.

    Statement: [COT] Lemma 3.1

    n_features  the dimension d of x
    loss        "squared", "huber", "squared_hinge", "logistic", "poisson", or a Loss made by
                link_loss, residual_loss, margin_loss or joint_loss
    lam         weight of the penalty, >= 0
    intercept   whether to fit b as well; the last entry of the weights
    x_radius    bound on |x| (Euclidean), needed for GD(lr="auto") only
    w_radius    bound on |w|, needed for lr="auto" where the loss bends more the further out
    y_radius    bound on |y|, needed for lr="auto" where the bend depends on y

    Differs from the paper: mean instead of sum over examples, an optional intercept.

    >>> LinearModel(3, loss="huber", lam=0.1)
    LinearModel(n_features=3, loss='huber[1.0]', lam=0.1, penalty='l2', intercept=False)
    """

    penalty: Penalty = "l2"

    def __init__(
        self,
        n_features: int,
        loss: str | Loss = "squared",
        lam: float = 0.0,
        *,
        intercept: bool = False,
        x_radius: float | None = None,
        w_radius: float | None = None,
        y_radius: float | None = None,
    ) -> None:
        if isinstance(loss, str):
            if loss not in LOSSES:
                raise InvalidParameter("loss", loss, f"be one of {sorted(LOSSES)} or a Loss")
            loss = LOSSES[loss]
        elif not isinstance(loss, Loss):
            raise InvalidParameter(
                "loss",
                type(loss).__name__,
                f"be one of {sorted(LOSSES)} or a Loss",
                remedy="For example icgd.residual_loss(psi).",
            )
        self.spec = LinearModelSpec(
            whole_number("n_features", n_features),
            loss,
            _weight("lam", lam),
            self.penalty,
            bool(intercept),
            checked_radius("x_radius", x_radius),
            checked_radius("w_radius", w_radius),
            checked_radius("y_radius", y_radius),
        )

    def __repr__(self) -> str:
        s = self.spec
        return (
            f"{type(self).__name__}(n_features={s.n_features}, loss={s.loss.name!r}, lam={s.lam:g}, "
            f"penalty={s.penalty!r}, intercept={s.intercept})"
        )

    @classmethod
    def of(cls, spec: LinearModelSpec) -> LinearModel:
        """The model a spec describes, with its objective and gradient."""
        model = LinearModel(spec.n_features, spec.loss, spec.lam, intercept=spec.intercept)
        model.penalty = spec.penalty
        model.spec = spec
        return model

    @property
    def title(self) -> str:
        """In a few words."""
        s = self.spec
        penalty = {"l1": ", lasso penalty", "l2": ", ridge penalty"}[s.penalty]
        return f"a linear model of {s.n_features} features, {s.loss.name} loss{penalty}"

    def to_config(self) -> dict[str, Any]:
        """All of it as numbers and names; of a loss of the user's own only what it is called."""
        s = self.spec
        return {
            "n_features": s.n_features,
            "loss": s.loss.name,
            "form": s.loss.form,
            "kinked": s.loss.kinked,
            "lam": s.lam,
            "penalty": s.penalty,
            "intercept": s.intercept,
            "x_radius": s.x_radius,
            "w_radius": s.w_radius,
            "y_radius": s.y_radius,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> LinearModel:
        """The model `to_config` describes; a loss of the user's own complains when it is evaluated."""
        name = str(config["loss"])
        loss = built_in(name) or forgotten_loss(name, config["form"], bool(config["kinked"]))
        rest = ("lam", "penalty", "intercept", "x_radius", "w_radius", "y_radius")
        return cls.of(LinearModelSpec(config["n_features"], loss, *(config[key] for key in rest)))

    # -- the objective and what descends it -------------------------------------------------------

    def scores(self, w: Tensor, X: Tensor) -> Tensor:
        """s_i = w.x_i (+ b, the last entry of w)."""
        d = self.spec.n_features
        s = X @ w[:d]
        return s + w[d] if self.spec.intercept else s

    def smooth_part(self, w: Tensor, X: Tensor, y: Tensor) -> Tensor:
        """f(w): the mean loss, and lam/2 |w|^2 if the penalty is smooth."""
        value = self.spec.loss.of(self.scores(w, X), y).mean()
        if self.penalty == "l2" and self.spec.lam:
            value = value + 0.5 * self.spec.lam * w[: self.spec.n_features].square().sum()
        return value

    def objective(self, w: Tensor, X: Tensor, y: Tensor) -> Tensor:
        """F(w) = f(w) + h(w)."""
        value = self.smooth_part(w, X, y)
        if self.penalty == "l1":
            value = value + self.spec.lam * w[: self.spec.n_features].abs().sum()
        return value

    def gradient(self, w: Tensor, X: Tensor, y: Tensor) -> Tensor:
        """grad f(w) in closed form: 1/n sum_i (d_s l)(s_i, y_i) [x_i; 1] + lam w."""
        slope = self.spec.loss.slope_of(self.scores(w, X), y) / X.shape[0]
        grad = slope @ X
        if self.penalty == "l2":
            grad = grad + self.spec.lam * w[: self.spec.n_features]
        return torch.cat([grad, slope.sum().reshape(1)]) if self.spec.intercept else grad

    def prox(self, w: Tensor, step: float) -> Tensor:
        """argmin_v h(v) + |v - w|^2 / (2 step): soft-thresholding for the lasso, w itself else."""
        if self.penalty == "l2":
            return w
        d, cut = self.spec.n_features, step * self.spec.lam
        shrunk = torch.sign(w[:d]) * (w[:d].abs() - cut).relu()
        return torch.cat([shrunk, w[d:]])

    # -- constants --------------------------------------------------------------------------------

    def smoothness(self) -> float:
        """beta from the radii alone: sup l'' (x_radius^2 (+ 1)) + lam.

        >>> GLM(2, "logistic", lam=0.1, x_radius=2.0).smoothness()
        1.1
        """
        s = self.spec
        if s.x_radius is None:
            raise AssumptionViolated(
                f"lr='auto' of {self!r} needs x_radius, a bound on |x|. Pass {type(self).__name__}(..., "
                "x_radius=...), or a number as lr."
            )
        size = math.sqrt(s.x_radius**2 + s.intercept)
        flat = s.loss.bend is not None and s.loss.bend(1.0)[1] == s.loss.bend(2.0)[1]
        if s.w_radius is None and not flat:
            raise AssumptionViolated(
                f"lr='auto' of {self!r} needs w_radius as well: the {s.loss.name} loss bends more the "
                "further out. Pass w_radius=..., or a number as lr."
            )
        if s.y_radius is None and s.loss.form == "joint":
            raise AssumptionViolated(
                f"lr='auto' of {self!r} needs y_radius: how much the loss bends depends on y. Pass "
                "y_radius=..., or a number as lr."
            )
        radius = (s.w_radius or 1.0) * size
        ridge = s.lam if s.penalty == "l2" else 0.0
        beta = s.loss.bends(radius, s.y_radius or 0.0)[1] * size**2 + ridge
        if not 0 < beta < math.inf:
            raise AssumptionViolated(
                f"The smoothness of {self!r} within |x| <= {s.x_radius:g}, |w| <= {s.w_radius or math.inf:g} "
                f"is {beta:g}: lr='auto' has no meaning. Pass smaller radii, or a number as lr."
            )
        return beta

    def constants_on(self, X: Tensor, radius: float, y_radius: float = 0.0) -> tuple[float, float]:
        """(alpha, beta) of f for these examples while |s| <= radius and |y| <= y_radius.

        alpha  inf l'' lambda_min(X^T X / n) + lam,   beta  sup l'' lambda_max(X^T X / n) + lam
        The unpenalised intercept makes alpha the smallest eigenvalue of the two parts together. An
        eigenvalue that rounding cannot tell from 0 is 0: dependent features have no condition number.
        """
        s = self.spec
        X = self._with_ones(X)
        gram = X.T @ X / X.shape[0]
        low, high = s.loss.bends(radius, y_radius)
        ridge = torch.full((X.shape[1],), s.lam if s.penalty == "l2" else 0.0, dtype=torch.float64)
        if s.intercept:
            ridge[-1] = 0.0
        values = torch.linalg.eigvalsh(low * gram + torch.diag(ridge))
        alpha, least = float(values[0]), 0.0 if s.intercept else float(ridge[0])
        rounding = 2 * X.shape[1] * torch.finfo(torch.float64).eps * float(values[-1])
        beta = float(torch.linalg.eigvalsh(high * gram + torch.diag(ridge))[-1])
        return (max(alpha, least) if alpha > rounding else least), beta

    def rank_on(self, X: Tensor) -> int:
        """The rank of these features, a column of ones for the intercept included, to machine precision."""
        return visible_rank(self._with_ones(X))

    def _with_ones(self, X: Tensor) -> Tensor:
        X = X.double()
        return torch.cat([X, X.new_ones(X.shape[0], 1)], dim=1) if self.spec.intercept else X


class GLM(LinearModel):
    """Generalised linear model: l(s, y) = -y s + int_0^s g(t) dt with inverse link g.

    Statement: [COT] Theorem 3.1

    link  "identity", "logistic", "poisson" (log link), or a smooth inverse link g as a torch function

    Differs from the paper: mean instead of sum, an optional ridge penalty and intercept.

    >>> GLM(3, "poisson").spec.loss.form
    'link'
    """

    def __init__(
        self,
        n_features: int,
        link: str | Callable[[Tensor], Tensor] = "identity",
        lam: float = 0.0,
        *,
        intercept: bool = False,
        x_radius: float | None = None,
        w_radius: float | None = None,
    ) -> None:
        if isinstance(link, str):
            if link not in LINKS:
                raise InvalidParameter("link", link, f"be one of {sorted(LINKS)} or a function")
            loss = LINKS[link]
        elif callable(link):
            loss = link_loss(link)
        else:
            raise InvalidParameter("link", link, f"be one of {sorted(LINKS)} or a function")
        super().__init__(
            n_features, loss, lam, intercept=intercept, x_radius=x_radius, w_radius=w_radius
        )


class Ridge(LinearModel):
    """Ridge regression: 1/n sum_i 1/2 (w.x_i + b - y_i)^2 + lam/2 |w|^2.

    Statement: [COT] Theorem 3.2

    scikit-learn's Ridge(alpha) minimises sum (..)^2 + alpha |w|^2, so alpha = lam n.

    Differs from the paper: no; an intercept may be added.

    >>> Ridge(3, lam=0.5).spec.lam
    0.5
    """

    def __init__(
        self,
        n_features: int,
        lam: float = 0.0,
        *,
        intercept: bool = False,
        x_radius: float | None = None,
    ) -> None:
        super().__init__(n_features, SQUARED, lam, intercept=intercept, x_radius=x_radius)


class Lasso(LinearModel):
    """Lasso: 1/n sum_i 1/2 (w.x_i + b - y_i)^2 + lam |w|_1, by proximal gradient descent.

    Statement: [COT] Theorem 3.3

    scikit-learn's Lasso(alpha) has the same objective, alpha = lam.

    Differs from the paper: 1/(2n) throughout; C.3 changes to 1/n halfway.

    >>> Lasso(2, lam=1.0).prox(torch.tensor([3.0, -0.5]), step=1.0).tolist()
    [2.0, -0.0]
    """

    penalty: Penalty = "l1"

    def __init__(
        self,
        n_features: int,
        lam: float = 0.0,
        *,
        intercept: bool = False,
        x_radius: float | None = None,
    ) -> None:
        super().__init__(n_features, SQUARED, lam, intercept=intercept, x_radius=x_radius)


def _weight(name: str, value: float) -> float:
    number = _real(name, value)
    if number < 0:
        raise InvalidParameter(name, value, "be >= 0")
    return number


def _real(name: str, value: object) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidParameter(name, value, "be a finite number")
    return number
