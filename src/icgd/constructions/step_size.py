"""Step sizes that cannot work, said before or after a run instead of returned as numbers."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated


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


def check_not_overflown(state: Tensor, name: str) -> None:
    """Refuse to decode a state that has left the range of floating point."""
    if not bool(state.isfinite().all()):
        raise AssumptionViolated(
            f"{name} overflowed: the residuals hold infinity or NaN after these steps. Lower lr below "
            "2 / lambda_max, or run fewer steps."
        )
