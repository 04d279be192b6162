"""Exact least squares: Newton's iteration, gradient descent, and gradient descent on every prefix.

Plain matrix arithmetic in the precision of the data; nothing here knows of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def newton_schulz(X: Tensor, alpha: float) -> Iterator[Tensor]:
    """M_0 = alpha S, then M_{k+1} = 2 M_k - M_k S M_k for ever, S = X^T X; X is (n, d).

    Statement: [ALGO] Equation 4

    Differs from the paper: alpha = 2 / |S|^2 is allowed here only so that it can be seen to fail.
    """
    S = X.mT @ X
    M = alpha * S
    while True:
        yield M
        M = 2 * M - M @ S @ M


def newton_matrix(X: Tensor, alpha: float, steps: int) -> Tensor:
    """M_k after so many steps.

    >>> newton_matrix(torch.ones(1, 1, dtype=torch.float64), 1.0, 3).tolist()
    [[1.0]]
    """
    path = newton_schulz(X, alpha)
    for _ in range(steps):
        next(path)
    return next(path)


def newton_weights(X: Tensor, y: Tensor, alpha: float, steps: int) -> Tensor:
    """w_k = M_k X^T y: (d,) for y of shape (n,), (k, d) for (n, k)."""
    weights = newton_matrix(X, alpha, steps) @ (X.mT @ (y if y.dim() == 2 else y.unsqueeze(-1)))
    return weights.mT if y.dim() == 2 else weights[..., 0]


def newton_path(X: Tensor, y: Tensor, alpha: float, steps: int) -> list[Tensor]:
    """w_1 .. w_steps of Newton's iteration, each (d,) for y of shape (n,)."""
    path = newton_schulz(X, alpha)
    next(path)  # M_0
    return [next(path) @ (X.mT @ y) for _ in range(steps)]


def gd_path(X: Tensor, y: Tensor, lr: float, steps: int) -> list[Tensor]:
    """w_1 .. w_steps of gradient descent from 0 on 1/(2n) |X w - y|^2, y of shape (n,)."""
    w, path = X.new_zeros(X.shape[1]), []
    for _ in range(steps):
        w = w - lr * (X.mT @ (X @ w - y)) / X.shape[0]
        path.append(w)
    return path


def least_squares(X: Tensor, y: Tensor) -> Tensor:
    """The minimiser of |X w - y|^2 of smallest norm, where both iterations lead."""
    Y = y if y.dim() == 2 else y.unsqueeze(-1)
    weights = torch.linalg.lstsq(X, Y, driver="gelsd").solution
    return weights.mT if y.dim() == 2 else weights[..., 0]


def regression_gd(phi: Tensor, Y: Tensor, lr: float, steps: int, lam: float = 0.0) -> Tensor:
    """A after gradient descent from 0 on 1/(2N) sum_i |A phi_i - y_i|^2 + lam/2 |A|^2, (k, d).

    phi  (N, d)      Y  (N, k)
    """
    A = phi.new_zeros(Y.shape[1], phi.shape[1])
    for _ in range(steps):
        A = A - lr * ((phi @ A.mT - Y).mT @ phi / phi.shape[0] + lam * A)
    return A


def prefix_gd(X: Tensor, y: Tensor, lr: float, steps: int) -> Tensor:
    """w^i after gradient descent from 0 on the first i - 1 examples, for i = 1 .. n; (n, d) or (n, k, d).

    Statement: [ALGO] Equation 5

    Differs from the paper: w^1 = 0, where the mean over no examples is undefined.
    """
    Y = y if y.dim() == 2 else y.unsqueeze(-1)
    rows = [X.new_zeros(Y.shape[1], X.shape[1])]
    rows += [regression_gd(X[:i], Y[:i], lr, steps) for i in range(1, X.shape[0])]
    weights = torch.stack(rows)
    return weights if y.dim() == 2 else weights[:, 0]


def preconditioned_path(
    X: Tensor, y: Tensor, alpha: float, newton_steps: int, lr: float, steps: int
) -> list[Tensor]:
    """w after every step of w <- w - lr M X^T (X w - y), M after so many steps of Newton's iteration."""
    M, w, path = newton_matrix(X, alpha, newton_steps), torch.zeros_like(X[0]), []
    for _ in range(steps):
        w = w - lr * M @ (X.mT @ (X @ w - y))
        path.append(w)
    return path
