"""Step sizes that cannot work, said before or after a run instead of returned as numbers."""

from __future__ import annotations

import warnings
from typing import Literal

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.problems import LinearRegression


def largest_curvature(features: Tensor) -> float:
    """The largest eigenvalue of 1/N sum_i f_i f_i^T, over a batch of features (..., N, D).

    >>> round(largest_curvature(torch.tensor([[2.0], [2.0]])), 12)
    4.0
    """
    size = torch.linalg.matrix_norm(features.double(), ord=2)
    return float(size.square().max()) / features.shape[-2]


def warn_if_diverging(lr: float, features: Tensor, name: str, *, lam: float = 0.0) -> None:
    """Say so if gradient descent on 1/(2N) sum |A f_i - y_i|^2 + lam/2 |A|^2 does not converge.

    features  (..., N, D)      name  what is being trained, for the message

    >>> warn_if_diverging(0.4, torch.tensor([[2.0], [2.0]]), "example")
    """
    curvature = largest_curvature(features) + lam
    if not lr * curvature < 2:  # also true for NaN
        warnings.warn(
            f"lr * lambda_max = {lr * curvature:.3g} >= 2 for {name} (lr = {lr:g}, lambda_max = "
            f"{curvature:.3g}): gradient descent does not converge, here or anywhere else. Use "
            f"lr < {2 / curvature:.3g}.",
            UserWarning,
            stacklevel=2,
        )


def newton_alpha(problem: LinearRegression, alpha: float | Literal["auto"]) -> float:
    """alpha of Newton's iteration; "auto" is 1 / bound^2 with the bound n x_radius^2 on |X^T X|.

    >>> newton_alpha(LinearRegression(2, 10, x_radius=1.0), "auto")
    0.01
    """
    if alpha != "auto":
        return float(alpha)
    bound = problem.n_examples * problem.radius**2
    if not 1e-150 <= bound <= 1e150:
        raise AssumptionViolated(
            f"alpha = 1 / (n x_radius^2)^2 is no ordinary number for x_radius = {problem.radius:g} and n = "
            f"{problem.n_examples}. Scale the data, or pass a number as alpha."
        )
    return 1 / bound**2


def refuse_underflow(features: Tensor, name: str) -> None:
    """Refuse features whose squares, which a loop reads its weights by, are below every ordinary number."""
    largest = float(features.abs().max()) if features.numel() else 0.0
    if largest > 0 and largest**2 < torch.finfo(features.dtype).tiny:
        raise AssumptionViolated(
            f"The largest feature of {name} is {largest:.3g}, and its square is below the smallest ordinary "
            f"number of {features.dtype}. Scale the data."
        )


def check_not_overflown(state: Tensor, name: str) -> None:
    """Refuse to decode a state that has left the range of floating point."""
    if not bool(state.isfinite().all()):
        raise AssumptionViolated(
            f"{name} overflowed: the residuals hold infinity or NaN after these steps. Lower lr below "
            "2 / lambda_max, or run fewer steps."
        )
