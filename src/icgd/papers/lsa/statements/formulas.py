"""Linear regression on Gaussian prompts: what one step of gradient descent leaves, and what k steps do.

Prompts: x ~ N(0, I), w* ~ N(0, I), y = x.w*, n examples of d features, S = 1/n sum x x^T. k steps from 0 leave
w_k - w* = -(I - lr S)^k w*, so that the mean loss 1/2 E|w_k - w*|^2 is 1/2 E tr (I - lr S)^{2k}.
"""

from __future__ import annotations

import math
from fractions import Fraction

from icgd.errors import InvalidParameter


def _sizes(d: int, n: int) -> None:
    for name, value in (("d", d), ("n", n)):
        if value < 1:
            raise InvalidParameter(name, value, "be an integer >= 1")


def best_step(d: int, n: int) -> float:
    """The step size n / (n + d + 1) at which one step leaves least.

    Statement: [LSA] Theorem 3.1

    Differs from the paper: no, as far as reviews of it tell.

    >>> round(best_step(10, 20), 4)
    0.6452
    """
    _sizes(d, n)
    return n / (n + d + 1)


def one_step_floor(d: int, n: int) -> float:
    """What the best single step leaves: d (d+1) / (2 (n+d+1)).

    Statement: [LSA] Corollary 3.1

    Differs from the paper: exact, where it has the order d^2/n; that order needs n >= d, and for fewer
    examples the floor is of order d.

    >>> round(one_step_floor(10, 20), 4)
    1.7742
    """
    _sizes(d, n)
    return d * (d + 1) / (2 * (n + d + 1))


def linear_map_loss(trace: float, square: float, d: int, n: int) -> float:
    """Mean loss of w = M (1/n sum y x) for a matrix M with this trace and sum of squared entries.

    It is one_step_floor + (n+d+1)/(2n) |M - best_step I|^2: no other matrix is as good.

    >>> M = best_step(10, 20)
    >>> math.isclose(linear_map_loss(10 * M, 10 * M**2, 10, 20), one_step_floor(10, 20))
    True
    """
    _sizes(d, n)
    return (d - 2 * trace + square * (n + d + 1) / n) / 2


def one_feature_loss(lr: float, n: int, k: int) -> float:
    """Mean loss of k steps with one feature, exactly: 1/2 E (1 - lr s)^{2k}, n s chi-squared of n degrees.

    E s^j = n (n+2) .. (n+2j-2) / n^j grows like j!, so that for every lr > 0 and n the mean falls first and
    then grows beyond all bounds: prompts with lr s > 2 are rare, and they decide. d features leave at
    least d times as much, because tr M^{2k} >= sum_a (M_aa)^{2k}.

    >>> one_feature_loss(0.5, 20, 1)
    0.1375
    """
    _sizes(1, n)
    # Terms cancel almost entirely: whole numbers over the common denominator (q n)^{2k}, lr = p/q.
    p, q = Fraction(lr).as_integer_ratio()
    whole = (q * n) ** (2 * k)
    total, term = 0, whole
    for j in range(2 * k + 1):
        total += term
        term = -term * (2 * k - j) * p * (n + 2 * j) // ((j + 1) * q * n)
    try:
        return total / (2 * whole)
    except OverflowError:
        return math.inf


def turning_point(lr: float, n: int, most: int = 400) -> int:
    """The number of steps after which the mean loss with one feature only grows.

    >>> 1 < turning_point(0.5, 20) < 60
    True
    """
    last = one_feature_loss(lr, n, 0)
    for k in range(1, most + 1):
        now = one_feature_loss(lr, n, k)
        if now >= last:
            return k - 1
        last = now
    return most
