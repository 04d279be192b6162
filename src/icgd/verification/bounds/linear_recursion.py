"""Bounds for loops whose step is linear in what the tokens hold: descent with momentum, decay and kin.

Tokens of a regression hold s numbers each (residual, score, velocity, ..). With the Gram matrix K = X X^T / n
in its eigenbasis a step is one s x s matrix per eigenvalue, so that the norm of its powers, and with it what an
error of round j has become in round k, is known exactly, however non-normal the step is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from icgd.transformer.program import Program
from icgd.verification.bounds.exact import Exact, product_error

Step = Callable[[Tensor], Tensor]
"""Eigenvalues of K, (q,), to the matrices of the step, (q, s, s)."""


def power_norms(step: Tensor, n: int) -> list[float]:
    """Largest spectral norm of the k-th powers of matrices (q, s, s), k = 0 .. n - 1.

    >>> power_norms(torch.diag(torch.tensor([0.5, 0.25])).unsqueeze(0), 3)
    [1.0, 0.5, 0.25]
    """
    power, norms = torch.eye(step.shape[-1], dtype=step.dtype).expand_as(step), list[float]()
    for _ in range(n):
        norms.append(float(torch.linalg.matrix_norm(power, 2).max()))
        power = power @ step
    return norms


def residual_recursion(
    program: Program,
    X: Tensor,
    Y: Tensor,
    queries: Tensor,
    weights: Sequence[Tensor],
    *,
    step: Step,
    gain: float,
    sizes: Sequence[float],
) -> Exact:
    """Exact weights with what a program that holds residuals may be off by, round by round.

    weights  exact weights after every round, (outputs, features), started at 0
    step     the step in the eigenbasis of K
    gain     by how much an error of the gradient enters the numbers of a token (Euclidean norm)
    sizes    largest number a token holds before each round, for rounding
    """
    Y = Y if Y.dim() == 2 else Y.unsqueeze(-1)
    (n, d), u = X.shape, torch.finfo(program.dtype).eps / 2
    gram, keys = X @ X.T / n, X @ queries.T / n
    spectrum = torch.linalg.eigvalsh(gram).clamp(min=0.0)
    own, alone = (
        power_norms(step(values), len(weights))
        for values in (spectrum, torch.zeros(1, dtype=X.dtype))
    )
    rate, asked_rate = (
        product_error(program, d, n, float(part.abs().max())) for part in (gram, keys)
    )
    singular = torch.linalg.svdvals(X)
    used = singular[singular > singular[0] * max(n, d) * 2.0**-52]
    fresh, asked_fresh, bounds = list[float](), list[float](), list[float]()
    error, before = 0.0, torch.zeros_like(weights[0])
    for k, after in enumerate(weights):
        residuals = float((X @ before.T - Y).abs().sum(dim=0).max()) + n * error
        rounding = 16 * u * (sizes[k] + float(Y.abs().max()))
        passed_on = gain * float(keys.norm(dim=0).max()) * error
        fresh.append(math.sqrt(n) * (gain * rate * residuals + rounding))
        asked_fresh.append(gain * asked_rate * residuals + passed_on + rounding)
        error = sum(own[k - j] * fresh[j] for j in range(k + 1))
        # Reading w off the residuals is least squares, which rounds by its condition number; |Y| / |X| has the
        # units of a weight.
        unit = float(Y.norm() / singular[0])
        reading = 8 * u * d * float(singular[0] / used[-1]) * (unit + float(after.abs().max()))
        bounds.append(error / float(used[-1]) + reading)
        before = after
    answers = queries @ weights[-1].T
    last = len(weights) - 1
    off = sum(alone[last - j] * asked_fresh[j] for j in range(last + 1))
    return Exact(
        [w[0] if w.shape[0] == 1 else w for w in weights],
        [part / float(used[-1]) for part in fresh],
        bounds,
        answers,
        off + 16 * u * float(answers.abs().max()),
    )
