"""The lasso's duality gap: how far the objective is from its minimum, and which features can matter.

In the units of the sum, P(w) = 1/2 |y - X w|^2 + cut |w|_1 with cut = n lam. For any rho with
|x_j.rho| <= cut for all j, D(rho) = rho.y - 1/2 |rho|^2 is a lower bound on the minimum. With r = y - X w
    P(w) - D(rho) = 1/2 |r - rho|^2 + sum_j (cut |w_j| - w_j x_j.rho),
a sum of terms >= 0 in which nothing cancels. rho is the residual, scaled down until it is feasible. The
optimal rho* lies within sqrt(2 (P - D)) of rho, so w*_j = 0 wherever |x_j.rho| + |x_j| sqrt(2 (P - D)) < cut,
for every minimiser w*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.estimators.safe_numbers import TINY, UNIT, column_lengths, length, power_of_two


@dataclass(frozen=True)
class DualityGap:
    """What is proved about weights w, for every minimiser w* of F = 1/(2n) |y - X w|^2 + lam |w|_1.

    objective       bound on F(w) - F(w*)
    predictions     bound on the root mean square of X w - X w*: F is a quadratic plus a convex function,
                    so F(w) - F(w*) >= 1/(2n) |X (w - w*)|^2
    can_be_nonzero  features that may be non-zero in w*
    """

    objective: float
    predictions: float
    can_be_nonzero: Tensor


def duality_gap(X: Tensor, y: Tensor, w: Tensor, lam: float) -> DualityGap:
    """What the dual point made of the residual at w proves; roundings are counted against it."""
    n, d = X.shape
    nothing = DualityGap(math.inf, math.inf, torch.ones(d, dtype=torch.bool))
    # In units of the largest feature and target: squares neither underflow nor overflow.
    x_unit = power_of_two(float(X.abs().max()))
    y_unit = power_of_two(max(float(y.abs().max()), float((X @ w).abs().max())))
    X, y, w = X / x_unit, y / y_unit, w / y_unit * x_unit
    cut = n * lam / x_unit / y_unit
    if not (0 < cut < math.inf and bool(X.isfinite().all()) and bool(w.isfinite().all())):
        return nothing
    r = y - X @ w
    r_error = (d + 3) * (UNIT * (y.abs() + X.abs() @ w.abs()) + TINY * (1 + w.abs().sum()))

    lost = (n + 3) * TINY * (1 + float(r.abs().max()))
    reached, reached_error = X.T @ r, (n + 3) * UNIT * (X.abs().T @ r.abs()) + lost
    scale = max(cut, float((reached.abs() + reached_error).max())) * (1 + 8 * UNIT)
    share = cut / scale
    rho = share * r
    along = X.T @ rho
    along_error = (n + 3) * UNIT * (X.abs().T @ rho.abs()) + lost

    apart = length((r - rho).abs() + r_error + UNIT * r.abs() + TINY)
    complementary = w.abs() * ((cut - w.sign() * along).clamp(min=0) + along_error + 4 * UNIT * cut)
    inflated = 1 + (n + d + 16) * UNIT
    gap = (0.5 * apart**2 + float(complementary.sum()) + (d + 1) * TINY) * inflated
    if not math.isfinite(gap):
        return nothing
    ball = math.sqrt(2 * gap) * inflated
    kept = (along.abs() + along_error + column_lengths(X) * ball) * inflated >= cut
    objective = gap / n * y_unit * y_unit * inflated
    return DualityGap(max(objective, TINY), max(ball / math.sqrt(n) * y_unit, TINY), kept)
