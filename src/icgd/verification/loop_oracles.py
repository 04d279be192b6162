"""Exact algorithms of loops beside what a program may be off by: weights after every loop, and answers.

Bounds are recursions of Euclidean norms, from what one product promises (`certificate`: error per unit of
sum |v|) and rounding. Gradient descent with lr lambda_max <= 2 brings no two points apart, so errors add
up; Schulz' iteration passes an error on by at most |I - U X^T| + |I - X^T U|, at the iterates themselves.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.mechanisms.loops.newton.codec import NewtonCodec
from icgd.oracle.least_squares import newton_schulz
from icgd.problems.regression import RepresentationRegression
from icgd.transformer.gadgets.heads.bilinear import bilinear_certificate
from icgd.transformer.program import Program
from icgd.verification.bounds.exact import Exact, product_error


def chain(program: Program, X: Tensor, Y: Tensor, queries: Tensor, steps: int) -> Exact:
    """Gradient descent by exact products; the chain holds w itself, and answers x.w."""
    u = torch.finfo(program.dtype).eps / 2
    exact = descent(program, X, Y, queries, steps, promised=0.0)
    length, w = float(queries.norm(dim=1).max()), exact.weights[-1]
    answer_error = length * (exact.bounds[-1] + 2 * u * (X.shape[1] + 4) * float(w.norm()))
    answer_error += 16 * u * float(exact.answers.abs().max())
    return replace(exact, answer_bound=answer_error)


def descent(
    program: Program,
    phi: Tensor,
    Y: Tensor,
    queries: Tensor,
    steps: int,
    promised: float | None = None,
) -> Exact:
    """Gradient descent on residuals: weights are read off them, at the cost of 1 / the least singular value.

    The token that asks holds A phi(x) the way examples hold their residuals, and descends with them.
    """
    Y = Y if Y.dim() == 2 else Y.unsqueeze(-1)
    n, width = phi.shape
    problem, lr = program.problem, program.optimizer.lr
    lam = getattr(problem, "lam", 0.0)
    if isinstance(problem, RepresentationRegression):
        phi, queries = problem.phi(phi), problem.phi(queries)
        width = phi.shape[1]
    singular = torch.linalg.svdvals(phi)
    if lr * (float(singular[0]) ** 2 / n + lam) > 2:
        raise AssumptionViolated(
            f"lr * lambda_max = {lr * (float(singular[0]) ** 2 / n + lam):.3g} is above 2: exact gradient "
            "descent diverges, and so does every bound. Lower lr."
        )
    used = singular[singular > singular[0] * max(n, width) * 2.0**-52]
    u = torch.finfo(program.dtype).eps / 2
    reach = float((phi @ phi.T).abs().max()) / n
    rate = lr * product_error(program, width, n, reach, promised)
    keys = phi @ queries.T / n
    asked_rate = lr * product_error(program, width, n, float(keys.abs().max()), promised)
    A = phi.new_zeros(Y.shape[1], width)
    path, fresh, bounds, error, asked_error = [], [], [], 0.0, 0.0
    for _ in range(steps):
        r = phi @ A.T - Y
        size = float(r.abs().sum(dim=0).max()) + n * error
        passed_on = lr * float(keys.norm(dim=0).max()) * error
        size_there = float((queries @ A.T).abs().max()) + asked_error
        asked_error += asked_rate * size + passed_on + 8 * u * (size_there + float(Y.abs().max()))
        largest = float(r.abs().max()) + error
        one = rate * size + 8 * u * (largest + float(Y.abs().max()))
        A = A - lr * (r.T @ phi / n + lam * A)
        error += math.sqrt(n) * one
        one_output = getattr(problem, "n_outputs", Y.shape[1]) == 1 and A.shape[0] == 1
        path.append(A[0] if one_output else A)
        # Reading w off the residuals is least squares, which rounds by its condition number.
        reading = 8 * u * width * float(singular[0] / used[-1]) * (1 + float(A.abs().max()))
        fresh.append(math.sqrt(n) * one / float(used[-1]))
        bounds.append(error / float(used[-1]) + reading)
    answers = queries @ A.T
    # The read-out copies a number with softmax weights that are exactly 0 and 1.
    return Exact(path, fresh, bounds, answers, asked_error + 16 * u * float(answers.abs().max()))


def prefixes(program: Program, X: Tensor, y: Tensor, queries: Tensor, steps: int) -> Exact:
    """One weight vector per prefix; the bound is the worst of all prefixes."""
    Y = y if y.dim() == 2 else y.unsqueeze(-1)
    lr, (n, d) = program.optimizer.lr, X.shape
    u = torch.finfo(program.dtype).eps / 2
    weights = X.new_zeros(n, Y.shape[1], d)
    path, fresh, bounds, error = [], [], [], torch.zeros(n, dtype=torch.float64)
    size = X.abs().cumsum(dim=0).max(dim=1).values  # sum_j |x_j| up to each example
    for _ in range(steps):
        new, one = weights.clone(), torch.zeros(n, dtype=torch.float64)
        for i in range(1, n):
            part, labels = X[:i], Y[:i]
            r = part @ weights[i].T - labels
            new[i] = weights[i] - lr * r.T @ part / i
            reach = (
                float(r.abs().max())
                + float(labels.abs().max())
                + float(error[i]) * float(part.norm(dim=1).max())
            )
            scale = lr * float(size[i - 1]) / i
            one[i] = math.sqrt(d) * scale * product_error(
                program, d, n, 1.0 + reach
            ) + 16 * u * float(new[i].abs().max())
            curve = float(torch.linalg.eigvalsh(part.T @ part / i)[-1])
            error[i] = max(1.0, abs(1 - lr * curve)) * error[i] + one[i]
        weights = new
        path.append(weights[:, 0] if Y.shape[1] == 1 else weights)
        fresh.append(float(one.max()))
        bounds.append(float(error.max()) + 1e-300)
    # Every x_i is asked: <w^i, x_i> is a sum over 2i products, all but one of which cancel in pairs.
    answers = torch.einsum("nkd,nd->nk", weights, X)
    product = float((weights.norm(dim=-1).max() + error.max()) * X.norm(dim=1).max())
    reading = 2 * n * product_error(program, d, n, 1.0 + product)
    lengths = X.norm(dim=1)
    return Exact(path, fresh, bounds, answers, float((lengths * error).max()) + reading)


def newton(program: Program, X: Tensor, y: Tensor, queries: Tensor, steps: int) -> Exact:
    """Schulz' iteration on U = X M, the rows M x_i that the tokens hold; w = U^T y."""
    Y = y if y.dim() == 2 else y.unsqueeze(-1)
    n, d = X.shape
    u = torch.finfo(program.dtype).eps / 2
    iterates = newton_schulz(X, program.optimizer.alpha)
    M = next(iterates)
    error, path, fresh, bounds = 0.0, [], [], []
    rate = product_error(program, d, n, 1.0)
    largest = float(X.abs().sum(dim=0).max())
    # The first product, alpha sum_s x_s <x_s, x_i>, has numbers as large as |x|^2.
    start = rate * program.optimizer.alpha * largest * float(X.square().sum(dim=1).max())
    error = math.sqrt(n * d) * start
    for _ in range(steps):
        U = X @ M
        left = float(torch.linalg.matrix_norm(torch.eye(n, dtype=X.dtype) - U @ X.T, 2))
        right = float(torch.linalg.matrix_norm(torch.eye(d, dtype=X.dtype) - X.T @ U, 2))
        column = float(U.abs().sum(dim=0).max()) + n * error
        one = math.sqrt(n * d) * (rate * column + 16 * u * (float(U.abs().max()) + error))
        # Beyond this the quadratic term takes over, and no bound holds any more.
        hopeless = not error * float(X.norm()) < 1.0
        error = math.inf if hopeless else (left + right) * error + error**2 * float(X.norm()) + one
        M = next(iterates)
        w = (X @ M).T @ Y
        path.append(w[:, 0] if y.dim() == 1 or Y.shape[1] == 1 else w.T)
        reading = 8 * u * n * float((X @ M).abs().max()) * float(Y.abs().sum())
        fresh.append(one * float(Y.norm()))
        bounds.append(error * float(Y.norm()) + reading)
    answers = queries @ (X @ M).T @ Y
    length = float(queries.norm(dim=1).max())
    off = length * error * float(Y.norm())
    off += _answering_rate(program, d, n) * float(Y.abs().sum(dim=0).max())
    return Exact(path, fresh, bounds, answers, off)


def _answering_rate(program: Program, width: int, n: int) -> float:
    """Error per unit of sum |y| of the product that answers, which has a range of its own."""
    codec = program.codec
    assert isinstance(codec, NewtonCodec)
    o = codec.options
    promised = bilinear_certificate(o.scaled, o.leverage, 2 * n + 3).sup_error
    u = torch.finfo(program.dtype).eps / 2
    return promised + u * (2 * width + 2 * n + 16) * o.leverage
