"""Minimisers in rational or 60-digit arithmetic: oracles that rounding cannot excuse."""

from __future__ import annotations

import warnings
from fractions import Fraction

import mpmath
import numpy as np
from sklearn.linear_model import Lasso


def rational(values):
    return [[Fraction(float(v)) for v in row] for row in np.atleast_2d(values)]


def solve(matrix, right):
    """Gaussian elimination in fractions; None for a singular matrix."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    n = len(rows)
    for i in range(n):
        pivot = next((k for k in range(i, n) if rows[k][i] != 0), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            if rows[k][i] != 0:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    answer = [Fraction(0)] * n
    for i in reversed(range(n)):
        known = sum(rows[i][k] * answer[k] for k in range(i + 1, n))
        answer[i] = (rows[i][n] - known) / rows[i][i]
    return answer


def dot(left, right):
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))


def exact_ridge(X, y, lam):
    """The minimiser of 1/(2n) |X w - y|^2 + lam/2 |w|^2, of least norm; None if X X^T is singular as well."""
    rows, (targets,), n = rational(X), rational(y), len(y)
    columns = list(zip(*rows, strict=True))
    penalty = n * Fraction(float(lam))
    used = [j for j, c in enumerate(columns) if any(c)]
    gram = [[dot(columns[i], columns[j]) + (penalty if i == j else 0) for j in used] for i in used]
    found = solve(gram, [dot(columns[j], targets) for j in used])
    if found is None:
        outer = [[dot(a, b) for b in rows] for a in rows]
        mix = solve(outer, targets)
        return None if mix is None else [dot(c, mix) for c in columns]
    answer = [Fraction(0)] * len(columns)
    for j, value in zip(used, found, strict=True):
        answer[j] = value
    return answer


def exact_lasso(X, y, lam):
    """The minimiser of 1/(2n) |X w - y|^2 + lam |w|_1, checked by its optimality conditions.

    scikit-learn proposes which features matter and with which sign; the rest is exact. None if no
    proposal passes, or if dependent features leave more than one minimiser.
    """
    rows, (targets,), n = rational(X), rational(y), len(y)
    columns, cut = list(zip(*rows, strict=True)), n * Fraction(float(lam))
    unit, size = np.abs(X).max(), np.abs(y).max()
    scaled = X / unit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proposal = Lasso(
            alpha=lam / unit / size, fit_intercept=False, tol=1e-14, max_iter=200_000
        ).fit(scaled, y / size)
    for least in (0.0, 1e-13, 1e-10, 1e-7, 1e-4):
        support = [j for j, v in enumerate(proposal.coef_) if abs(v) > least]
        signs = [int(np.sign(proposal.coef_[j])) for j in support]
        gram = [[dot(columns[i], columns[j]) for j in support] for i in support]
        right = [dot(columns[j], targets) - s * cut for j, s in zip(support, signs, strict=True)]
        found = solve(gram, right) if support else []
        if found is None or any(v * s < 0 for v, s in zip(found, signs, strict=True)):
            continue
        answer = [Fraction(0)] * len(columns)
        for j, value in zip(support, found, strict=True):
            answer[j] = value
        left = [t - dot(row, answer) for t, row in zip(targets, rows, strict=True)]
        others = [j for j in range(len(columns)) if j not in support]
        if all(abs(dot(columns[j], left)) < cut for j in others):
            return answer
    return None


def exact_glm(X, y, lam, link, start):
    """The minimiser of a generalised linear model by Newton's method in 60 digits.

    With an intercept if `start` has one more entry than X has columns.
    """
    mpmath.mp.dps = 60
    one = [mpmath.mpf(1)] * (len(start) - X.shape[1])
    rows = [[*map(mpmath.mpf, map(float, row)), *one] for row in X]
    targets, n, d = [mpmath.mpf(float(v)) for v in y], len(y), X.shape[1]
    penalty = mpmath.diag([mpmath.mpf(float(lam))] * d + [0 * v for v in one])
    A, w = mpmath.matrix(rows), mpmath.matrix([mpmath.mpf(float(v)) for v in start])
    for _ in range(60):
        s = A * w
        if link == "logistic":
            mean = [1 / (1 + mpmath.exp(-v)) for v in s]
            bend = [m * (1 - m) for m in mean]
        else:
            mean = bend = [mpmath.exp(v) for v in s]
        slope = mpmath.matrix([(m - t) / n for m, t in zip(mean, targets, strict=True)])
        gradient = A.T * slope + penalty * w
        hessian = A.T * mpmath.diag([b / n for b in bend]) * A + penalty
        move = mpmath.lu_solve(hessian, gradient)
        w -= move
        if mpmath.norm(move) < mpmath.mpf(10) ** -50 * (1 + mpmath.norm(w)):
            return [Fraction(int(v * mpmath.mpf(2) ** 200), 2**200) for v in w]
    raise AssertionError("Newton's method did not converge")


def exact_lasso_objective(X, y, lam, w):
    rows, (targets,) = rational(X), rational(y)
    residuals = [t - dot(row, w) for t, row in zip(targets, rows, strict=True)]
    penalty = sum((abs(v) for v in w), Fraction(0)) * Fraction(float(lam))
    return dot(residuals, residuals) / (2 * len(targets)) + penalty


def within(w, best, bound):
    """Whether |w - best| <= bound, in exact arithmetic."""
    away = [Fraction(float(a)) - b for a, b in zip(w, best, strict=True)]
    return bound == float("inf") or dot(away, away) <= Fraction(bound) ** 2
