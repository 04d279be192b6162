"""Optimizers as plain descriptions: what a compiler needs to know, nothing it could run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from icgd.base.numbers import is_finite
from icgd.errors import InvalidParameter
from icgd.problems.foreign_optimizers import unknown_option


@dataclass(frozen=True, init=False)
class SGD:
    """Stochastic gradient descent, one example a round.

    W <- W - lr * dl/dW with the loss of one example l = 1/2 |o - y|^2, exactly
    `torch.optim.SGD(lr)` on that loss. The paper's loss |o - y|^2 is this with lr doubled.

    >>> SGD(lr=0.1).paper_lr
    0.05
    """

    lr: float

    def __init__(self, lr: float | None = None, **unknown: Any) -> None:
        for name, value in unknown.items():
            raise unknown_option("SGD", ("lr",), name, value)
        if lr is None:
            raise InvalidParameter(
                "lr", None, "be a finite number > 0", remedy="Try icgd.SGD(lr=0.05)."
            )
        object.__setattr__(self, "lr", lr)
        number = isinstance(lr, (int, float, np.number)) and not isinstance(lr, bool)
        if not (number and is_finite(self.lr) and self.lr > 0):
            raise InvalidParameter("lr", self.lr, "be a finite number > 0")
        object.__setattr__(self, "lr", float(self.lr))

    @property
    def paper_lr(self) -> float:
        """The step size eta that gives the same update under the paper's loss |o - y|^2."""
        return self.lr / 2


@dataclass(frozen=True, init=False)
class GD:
    """Full-batch gradient descent, and proximal gradient descent where the penalty has corners.

    w <- prox(w - lr * grad f(w)), f the mean over all examples of the prompt. `lr="auto"` is 1/beta
    with the smoothness beta that follows from the problem's radii. With a `box` the weights of a network
    are projected on [-box, box] after every step.

    >>> GD(lr=0.5).paper_lr(n_examples=10)
    0.05
    """

    lr: float | Literal["auto"] = "auto"
    box: float | None = None

    def __init__(
        self, lr: float | Literal["auto"] = "auto", box: float | None = None, **unknown: Any
    ) -> None:
        for name, value in unknown.items():
            raise unknown_option("GD", ("lr", "box"), name, value)
        object.__setattr__(self, "lr", lr)
        object.__setattr__(self, "box", box)
        self._check()

    def _check(self) -> None:
        if self.box is not None:
            box: object = self.box
            number = isinstance(box, (int, float, np.number)) and not isinstance(box, bool)
            if not (number and is_finite(self.box) and self.box > 0):
                raise InvalidParameter("box", box, "be a finite number > 0 or None")
            object.__setattr__(self, "box", float(self.box))
        lr: object = self.lr
        if isinstance(lr, str) and lr == "auto":
            return
        number = isinstance(lr, (int, float, np.number)) and not isinstance(lr, bool)
        if not (number and is_finite(lr) and float(lr) > 0):  # type: ignore[arg-type]
            raise InvalidParameter("lr", lr, "be a finite number > 0 or 'auto'")
        object.__setattr__(self, "lr", float(lr))  # type: ignore[arg-type]

    def paper_lr(self, n_examples: int) -> float:
        """The step size eta that gives the same update under the paper's sum over examples."""
        if isinstance(self.lr, str):
            raise InvalidParameter("lr", self.lr, "be a number before it can be converted")
        return self.lr / n_examples


@dataclass(frozen=True)
class Newton:
    """Newton's method for least squares by Schulz' iteration: M_{k+1} = 2 M_k - M_k S M_k, S = X^T X.

    M_0 = alpha S, and w_k = M_k X^T y. It converges for 0 < alpha < 2 / |S|^2. "auto" takes 1 / bound^2
    with the bound n x_radius^2 on |S| that follows from the problem's radius.

    >>> Newton().alpha
    'auto'
    """

    alpha: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        alpha: object = self.alpha
        if isinstance(alpha, str) and alpha == "auto":
            return
        number = isinstance(alpha, (int, float, np.number)) and not isinstance(alpha, bool)
        if not (number and is_finite(alpha) and float(alpha) > 0):  # type: ignore[arg-type]
            raise InvalidParameter("alpha", alpha, "be a finite number > 0 or 'auto'")
        object.__setattr__(self, "alpha", float(alpha))  # type: ignore[arg-type]


@dataclass(frozen=True)
class PreconditionedGD:
    """Gradient descent for least squares with a preconditioner M that Newton's iteration makes first.

    w <- w - lr M X^T (X w - y), M after `newton_steps` steps of `Newton(alpha)`: with none it is alpha S,
    with many it is S^-1, and lr = 1 then solves the problem at once.

    >>> PreconditionedGD(newton_steps=5).lr
    1.0
    """

    lr: float = 1.0
    newton_steps: int = 8
    alpha: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "lr", SGD(self.lr).lr)
        object.__setattr__(self, "alpha", Newton(self.alpha).alpha)
        steps: object = self.newton_steps
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
            raise InvalidParameter("newton_steps", steps, "be an integer >= 0")
