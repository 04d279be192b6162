"""Which targets a loss is made for: one rule, whatever model or construction the loss is used in."""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.problems.losses import Loss


def check_targets(loss: Loss, y: Tensor, name: str = "y") -> None:
    """Refuse targets for which the loss has no lower bound or no meaning; y may have any shape.

    logistic  0 or 1: log(1 + exp(s)) - y s falls without end in s for any y outside [0, 1]
    poisson   >= 0: exp(s) - y s falls without end for y < 0
    margin    -1 or +1: psi(y s) reads the class off the sign of s

    >>> import torch
    >>> from icgd.problems.losses import LOGISTIC
    >>> check_targets(LOGISTIC, torch.tensor([0.0, -1.0]))
    Traceback (most recent call last):
    ...
    icgd.errors.InvalidParameter: `y` must be 0 or 1 for a logistic model. Got -1.0. Encode -1/+1 as (y + 1)/2.
    """
    if loss.name == "poisson":
        _refuse(name, y[y < 0], "be >= 0 for a Poisson model", "Targets are counts or rates.")
    elif loss.name == "logistic":
        wrong = y[(y != 0) & (y != 1)]
        _refuse(name, wrong, "be 0 or 1 for a logistic model", "Encode -1/+1 as (y + 1)/2.")
    elif loss.form == "margin":
        must = f"be -1 or +1 for the {loss.name} loss"
        _refuse(name, y[y.abs() != 1], must, "Encode 0/1 as 2 * y - 1.")


def fitting_targets(loss: Loss, uniform: Tensor, radius: float) -> Tensor:
    """Targets within the radius that `check_targets` accepts, made of numbers in [-1, 1]."""
    if loss.name == "logistic":
        return (uniform > 0).to(uniform) * (radius >= 1)
    if loss.form == "margin":
        return torch.where(uniform > 0, 1.0, -1.0).to(uniform)
    scaled = uniform * min(1.0, radius)
    return scaled.abs() if loss.name == "poisson" else scaled


def _refuse(name: str, wrong: Tensor, must: str, remedy: str) -> None:
    if wrong.numel():
        raise InvalidParameter(name, float(wrong[0]), must, remedy=remedy)
