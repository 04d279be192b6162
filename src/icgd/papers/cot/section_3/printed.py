"""Section 3 of [COT], its proofs and Lemmas A.2 to A.4 as printed, executable.

As in cot_printed.py, every function does what the page says and nothing better. Iterations are exact
(no transformer), so that what goes wrong is the statement and not an approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from icgd.transformer.gadgets.heads.spectral_theory import GridGeometry
from icgd.verification.bounds.linear_model_theory import composed_error


def declared_rows(d: int) -> int:
    """2d + 3, the height printed beside Z_l."""
    return 2 * d + 3


def prompt_rows(d: int) -> int:
    """The height that the printed pieces x, y, w, 1 of Z_l add up to.

    Statement: [COT] Definition 3.1

    Differs from the paper: no; C.2 and C.3 put a counter l in between, the definition does not.

    >>> prompt_rows(3), declared_rows(3)
    (8, 9)
    """
    return d + 1 + d + 1


def printed_norm(steps: int, eps: float, optimum: float) -> float:
    """R/2 + L eps with the smallest R allowed, R = 2|w*|.

    Statement: [COT] Lemma A.2

    Differs from the paper: no.
    """
    return optimum + composed_error(steps, eps)


def printed_step_error(L: int, slope: float, R: float) -> float:
    """R^2 / (8 C L^2), the eps from which C.3 lets the last term of (16) dominate.

    Statement: [COT] Remark 3.3

    Differs from the paper: no; the last term of (16) is beta R^2 / (8 L), and beta is lost here.
    """
    return R**2 / (8 * slope * L**2)


def printed_slope(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """(w.x - y) x, which Remark 3.3 prints as the derivative of 1/2 (s - y)^2 by s = w.x.

    Statement: [COT] Remark 3.3

    Differs from the paper: no; it is the derivative by w, and that by s has no x.
    """
    return (w @ x - y) * x


def outside_the_span(X: Tensor, pull: Tensor) -> float:
    """How far a gradient is from those of all losses of (w.x_i, y_i), which are sums of multiples of x_i.

    Statement: [COT] Theorem C.2

    Differs from the paper: which gets the step of a penalty from Lemma 3.1, a lemma on such losses.
    """
    nearest = torch.linalg.lstsq(X.T, pull[:, None], driver="gelsd").solution
    return float((X.T @ nearest - pull[:, None]).norm())


# -- iterations -----------------------------------------------------------------------------------


def soft(w: Tensor, cut: float) -> Tensor:
    """The proximal map of cut |w|_1."""
    return torch.sign(w) * (w.abs() - cut).relu()


def penalised_descent(X: Tensor, y: Tensor, lam: float, eta: float) -> Iterator[Tensor]:
    """prox(w - eta grad F(w)) from w = 0, with F = f + lam |w|_1.

    Statement: [COT] Lemma A.3

    Differs from the paper: where F has no gradient, autograd's choice 0 is taken for that of |w_j|.
    """
    w = torch.zeros(X.shape[1], dtype=X.dtype)
    while True:
        point = w.clone().requires_grad_(True)
        with torch.enable_grad():
            F = 0.5 * (X @ point - y).square().mean() + lam * point.abs().sum()
            (grad,) = torch.autograd.grad(F, point)
        w = soft(w - eta * grad, eta * lam)
        yield w


def unhalved_descent(X: Tensor, y: Tensor, lam: float) -> Iterator[Tensor]:
    """Proximal descent as (10) has it, on 1/n sum (w.x - y)^2 without the 1/2, at eta = 1/beta of that.

    Statement: [COT] Theorem C.3

    Differs from the paper: no; the minimiser it should find is that of 1/(2n).
    """
    H = 2 * X.T @ X / X.shape[0]
    eta = 1 / float(torch.linalg.eigvalsh(H)[-1])
    w = torch.zeros(X.shape[1], dtype=X.dtype)
    while True:
        w = soft(w - eta * 2 * X.T @ (X @ w - y) / X.shape[0], eta * lam)
        yield w


def smoothed_descent(X: Tensor, y: Tensor, lam: float, width: float) -> Iterator[Tensor]:
    """Exact descent at eta = 1/beta on a smooth convex f: the lasso with |w_j| rounded off near 0."""
    beta = float(torch.linalg.eigvalsh(X.T @ X / X.shape[0])[-1]) + lam / width
    w = torch.zeros(X.shape[1], dtype=X.dtype)
    while True:
        w = w - (X.T @ (X @ w - y) / X.shape[0] + lam * (w / width).clamp(-1, 1)) / beta
        yield w


def bent_gradient(w: float, beta: float, R: float, beyond: float) -> float:
    """f' of beta/2 (w - R/2)^2 for |w| <= R, continued with curvature `beyond` for w > R.

    Convex, continuously differentiable and beta-smooth on the ball of radius R = 2|w*|, as Lemma A.2
    asks; outside of it the lemma asks for nothing.
    """
    return beta * (min(w, R) - R / 2) + beyond * max(w - R, 0.0)


def perturbed_descent(
    gradient: Callable[[float], float], eta: float, pushes: list[float], start: float = 0.0
) -> tuple[list[float], list[float]]:
    """Lemma A.2's two sequences in one dimension: exact from 0, and with these errors from `start`."""
    exact, off = [0.0], [start]
    for push in pushes:
        exact.append(exact[-1] - eta * gradient(exact[-1]))
        off.append(off[-1] - eta * gradient(off[-1]) + push)
    return exact, off


# -- networks -------------------------------------------------------------------------------------


def best_bias_free(cut: float, reach: float, n: int = 4001) -> tuple[float, float]:
    """(smallest, by formula) largest error on |w| <= reach of any bias-free network at a soft-threshold.

    Statement: [COT] equation (11)

    On a ray such a network is a w for one slope a, however many units it has. The error of slope a is
    largest at the corner w = cut (a cut) or at the end (reach - cut - a reach): best when they are
    equal, cut (reach - cut) / (reach + cut).

    Differs from the paper: which says that the error is zero.

    >>> best_bias_free(1.0, 3.0)
    (0.5, 0.5)
    """
    w = torch.linspace(0, reach, n, dtype=torch.float64)
    w = torch.cat([w, torch.tensor([cut], dtype=torch.float64)])
    slopes = torch.linspace(0, 1, n, dtype=torch.float64)
    errors = (slopes[:, None] * w - soft(w, cut)).abs().amax(dim=1)
    return float(errors.min()), cut * (reach - cut) / (reach + cut)


def pooled_head(X: Tensor, y: Tensor, w: Tensor, g: GridGeometry) -> Tensor:
    """One head over the grids of all samples at once, n p tokens, n times its output.

    For the gradient sum_i (w.x_i - y_i) x_i every sample would have to weigh 1/n; a softmax over all
    tokens gives most weight to the samples with the largest residuals.

    Statement: [COT] Lemma 3.1

    Differs from the paper: it does not say how heads and tokens are divided among samples.
    """
    level = torch.tensor(g.levels(), dtype=X.dtype)
    score = g.beta * (2 * (X @ w - y)[:, None] * level - level**2)
    weight = torch.softmax(score.reshape(-1), dim=0).reshape(score.shape)
    return X.shape[0] * (weight @ level) @ X


def product_head(X: Tensor, y: Tensor, w: Tensor, g: GridGeometry) -> Tensor:
    """One head over all combinations of levels, p^n tokens: sum_i (w.x_i - y_i) x_i.

    Statement: [COT] Lemma 3.1

    Token (k_1, ..., k_n) is the sum of L_{k_i} [x_i, -y_i], a right linear map of the prompt; its score
    splits into one term per sample, so the weights are those of n separate heads multiplied together.

    Differs from the paper: new. It shows that one head is enough if nobody counts tokens.
    """
    n = X.shape[0]
    level = torch.tensor(g.levels(), dtype=X.dtype)
    levels = torch.cartesian_prod(*[level] * n).reshape(-1, n)
    tokens = levels @ torch.cat([X, -y[:, None]], dim=1)
    query = torch.cat([w, torch.ones(1, dtype=X.dtype)])
    score = 2 * g.beta * tokens @ query - g.beta * levels.square().sum(dim=1)
    return torch.softmax(score, dim=0) @ tokens[:, :-1]


def product_tokens(n_grid: int, n: int) -> float:
    """p^n, as a float."""
    return math.pow(n_grid, n)
