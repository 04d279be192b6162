"""Bounds for (proximal) gradient descent on convex models, by a transformer that errs a little.

Symbols
    L      steps                             eps    error of one step (Euclidean)
    beta   smoothness of f                   alpha  strong convexity of f, kappa = beta / alpha
    B_w    twice a bound on |w*|             R      the same for the lasso
    C0     |grad f(0)|                       lam    weight of |w|_1,   d  features
All bounds start from w = 0 and hold at the step size eta = 1/beta. The paper prints eta <= 2/beta,
which is false (docs/errata.md); `step_sizes` has the whole range in which Theorems 3.1 and 3.2 hold.
docs/statistics.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from icgd.errors import AssumptionViolated, InvalidParameter


def gd_distance(steps: int, kappa: float, start: float) -> float:
    """|w_t - w*| <= exp(-t / (2 kappa)) |w_0 - w*| for gradient descent at eta = 1/beta.

    Statement: [COT] Lemma A.1

    Differs from the paper: no; the square root of its first line.

    >>> round(gd_distance(10, kappa=5.0, start=1.0), 4)
    0.3679
    """
    _check(steps=steps, start=start)
    _positive("kappa", kappa, finite=False)
    return math.exp(-steps / (2 * kappa)) * start


def gd_gap(steps: int, kappa: float, beta: float, start: float) -> float:
    """f(w_t) - f(w*) <= beta/2 exp(-t / kappa) |w_0 - w*|^2.

    Statement: [COT] Lemma A.1

    Differs from the paper: no.

    >>> gd_gap(0, kappa=5.0, beta=2.0, start=3.0)
    9.0
    """
    _check(beta=beta)
    return beta / 2 * gd_distance(steps, kappa, start) ** 2


def step_sizes(alpha: float, beta: float) -> tuple[float, float]:
    """The step sizes (lowest, highest) at which |w_t - w*| <= exp(-t / (2 kappa)) |w_0 - w*| holds.

    Statement: [COT] Theorem 3.1

    A step multiplies the distance by at most max(|1 - eta alpha|, |1 - eta beta|), and for a quadratic
    by exactly that in the worst direction. So eta alpha >= 1 - q and eta beta <= 1 + q are needed and
    enough, q = exp(-alpha / (2 beta)); eta = 1/(2 beta) is always above the lowest.

    Differs from the paper: it prints eta <= 2/beta, which is neither enough nor close to it.

    >>> [round(eta, 3) for eta in step_sizes(1.0, 1.0)]
    [0.393, 1.607]
    """
    _positive("alpha", alpha)
    if not (math.isfinite(beta) and beta >= alpha):
        raise InvalidParameter("beta", beta, f"be a finite number >= alpha = {alpha}")
    half = alpha / (2 * beta)
    return -math.expm1(-half) / alpha, (1 + math.exp(-half)) / beta


def composed_error(steps: int, eps: float) -> float:
    """|w^_L - w_L| <= L eps: a step of a convex smooth f with eta <= 2/beta is non-expansive.

    Statement: [COT] Lemma A.2

    Differs from the paper: both sequences must start at the same point, which is not said; and f must
    be smooth wherever the two go, a ball of radius `composed_norm`, not R.

    >>> composed_error(100, 1e-3)
    0.1
    """
    _check(steps=steps, eps=eps)
    return steps * eps


def composed_norm(steps: int, eps: float, start: float, optimum: float) -> float:
    """|w^_L| <= |w*| + |w_0 - w*| + L eps for eta <= 2/beta.

    Statement: [COT] Lemma A.2

    Differs from the paper: R/2 + L eps with R = 2|w*| is false, for the lasso even at eta = 1/beta; from
    w_0 = 0 this is 2|w*| + L eps, so the printed conclusion |w| <= R needs R >= 4|w*|.

    >>> composed_norm(10, 0.0, start=1.0, optimum=1.0)
    2.0
    """
    _check(start=start, optimum=optimum)
    return optimum + start + composed_error(steps, eps)


def pgd_gap(steps: int, beta: float, start: float) -> float:
    """F(w_t) - F(w*) <= beta / (2 t) |w_0 - w*|^2 for proximal gradient descent at eta = 1/beta.

    Statement: [COT] Lemma A.3

    Differs from the paper: it prints the gradient of F where that of the smooth part f is meant.

    >>> pgd_gap(4, beta=2.0, start=2.0), pgd_gap(0, beta=2.0, start=2.0)
    (1.0, inf)
    """
    _check(steps=steps, beta=beta, start=start)
    return beta / (2 * steps) * start**2 if steps else math.inf


def strongly_convex_bound(steps: int, eps: float, kappa: float, B_w: float) -> float:
    """|w^_L - w*| <= L eps + exp(-L / (2 kappa)) B_w / 2 for GLM and ridge.

    Statement: [COT] Theorem 3.1

    Differs from the paper: eta = 1/beta, not eta <= 2/beta; Theorem 3.2 is the same bound.

    >>> strongly_convex_bound(0, 1e-3, 2.0, 4.0)
    2.0
    """
    return composed_error(steps, eps) + gd_distance(steps, kappa, B_w / 2)


def lasso_bound(
    steps: int, eps: float, *, C0: float, beta: float, R: float, lam: float, d: int
) -> float:
    """F(w^_L) - F(w*) <= (C0 + beta R + lam sqrt d) L eps + beta/2 (L eps)^2 + beta R^2 / (8 L).

    Statement: [COT] Theorem 3.3

    Differs from the paper: eta = 1/beta, not eta <= 2/beta; R >= 2|w*| as there.

    >>> lasso_bound(10, 0.0, C0=1.0, beta=2.0, R=2.0, lam=0.1, d=4)
    0.1
    """
    drift = composed_error(steps, eps)
    return _slope(C0, beta, R, lam, d) * drift + beta / 2 * drift**2 + pgd_gap(steps, beta, R / 2)


def _slope(C0: float, beta: float, R: float, lam: float, d: int) -> float:
    """C = C0 + beta R + lam sqrt d: how steep the lasso's objective can be within R."""
    _check(C0=C0, beta=beta, R=R, lam=lam, d=d)
    return C0 + beta * R + lam * math.sqrt(d)


def steps_for_distance(tolerance: float, eps: float, kappa: float, B_w: float) -> int:
    """The fewest steps whose `strongly_convex_bound` is at most the tolerance: its inverse.

    Statement: [COT] Theorem 3.1

    Differs from the paper: new. Every step costs eps, so there is a best number of steps, and a
    tolerance below the bound at that number is out of reach.

    >>> L = steps_for_distance(1e-6, 1e-14, kappa=10.0, B_w=2.0)
    >>> strongly_convex_bound(L, 1e-14, 10.0, 2.0) <= 1e-6 < strongly_convex_bound(L - 1, 1e-14, 10.0, 2.0)
    True
    """
    _positive("tolerance", tolerance)
    _finite(eps=eps, B_w=B_w)
    _positive("kappa", kappa, finite=False)
    if B_w / 2 <= tolerance:
        return 0
    if math.isinf(kappa):
        raise AssumptionViolated(
            "kappa is infinite (collinear features without a penalty): the bound never falls, and no number "
            "of steps is enough. Use lam > 0 or remove collinear features."
        )

    def bound(n: int) -> float:
        return strongly_convex_bound(n, eps, kappa, B_w)

    return _inverse(bound, 0, tolerance, eps)


def steps_for_gap(
    tolerance: float, eps: float, *, C0: float, beta: float, R: float, lam: float, d: int
) -> int:
    """The fewest steps whose `lasso_bound` is at most the tolerance.

    Statement: [COT] Theorem 3.3

    Differs from the paper: new.

    >>> steps_for_gap(0.01, 0.0, C0=1.0, beta=2.0, R=2.0, lam=0.1, d=4)
    100
    """
    _positive("tolerance", tolerance)

    def bound(n: int) -> float:
        return lasso_bound(n, eps, C0=C0, beta=beta, R=R, lam=lam, d=d)

    _finite(eps=eps, C0=C0, beta=beta, R=R, lam=lam, d=d)
    return _inverse(bound, 1, tolerance, eps)


def paper_step_error(L: int, *, C0: float, beta: float, R: float, lam: float, d: int) -> float:
    """The eps at which errors cost as much as stopping after L steps: C L eps = beta R^2 / (8 L).

    Statement: [COT] Remark 3.3

    eps = beta R^2 / (8 C L^2), C = C0 + beta R + lam sqrt d

    Differs from the paper: the last step of C.3 loses beta and prints R^2 / (8 C L^2).

    >>> eps = paper_step_error(10, C0=1.0, beta=2.0, R=2.0, lam=0.0, d=4)
    >>> 0.2 <= lasso_bound(10, eps, C0=1.0, beta=2.0, R=2.0, lam=0.0, d=4) < 0.21
    True
    """
    _positive("L", L)
    slope = _slope(C0, beta, R, lam, d)
    _positive("C0 + beta R + lam sqrt d", slope)
    return beta * R**2 / (8 * slope * L**2)


def paper_head_count(eps: float, d: int) -> tuple[float, float]:
    """(H, p) heads and grid tokens that C.3 asks for one step error: d H^{-1/2} = eps, p = H^{3/2}.

    Statement: [COT] Remark 3.3

    Differs from the paper: constants of its O(.) set to one.

    >>> H, p = paper_head_count(1e-3, d=1)
    >>> round(H), round(p)
    (1000000, 1000000000)
    """
    _positive("eps", eps)
    _positive("d", d)
    H = (d / eps) ** 2
    return H, H**1.5


def _positive(name: str, value: float, *, finite: bool = True) -> None:
    if not value > 0 or (finite and math.isinf(value)):
        raise InvalidParameter(name, value, "be a finite number > 0" if finite else "be > 0")


def _check(**values: float) -> None:
    """Sizes, counts and errors are not negative; an infinite one gives an infinite bound."""
    for name, value in values.items():
        if not value >= 0:
            raise InvalidParameter(name, value, "be a number >= 0")


def _finite(**values: float) -> None:
    """No number of steps mends an infinite error."""
    for name, value in values.items():
        if not (math.isfinite(value) and value >= 0):
            raise InvalidParameter(name, value, "be a finite number >= 0")


def _inverse(bound: Callable[[int], float], low: int, tolerance: float, eps: float) -> int:
    """The first n >= low whose bound is at most the tolerance, for a bound that falls, then rises."""

    def rises(n: int) -> bool:
        # Far out a single step changes less than rounding; a 2^-24th of n is plain to see, and near
        # the lowest point costs nothing that is.
        return bound(n + max(1, n >> 24)) >= bound(n)

    high = low + 1
    while bound(high) > tolerance and not rises(high):
        high *= 2
    # Up to its lowest point the bound falls, so that halving finds the first n that is good enough.
    lowest = _first(low, high, rises)
    if bound(lowest) > tolerance:
        raise AssumptionViolated(
            f"No number of steps brings the bound below {bound(lowest):.2g}, because every step adds "
            f"{eps:.2g}; the wanted tolerance is {tolerance:.2g}. Lower eps: more grid tokens, or "
            "temperature='spectral'."
        )
    return _first(low, lowest, lambda n: bound(n) <= tolerance)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first n in low..high for which a property holds that stays true from there on; or high."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
