"""Bounds for (proximal) gradient descent on convex models, by a transformer that errs a little.

Symbols
    L      steps                             eps    error of one step (Euclidean)
    beta   smoothness of f                   alpha  strong convexity of f, kappa = beta / alpha
    B_w    twice a bound on |w*|             R      the same for the lasso
    C0     |grad f(0)|                       lam    weight of |w|_1,   d  features
All bounds start from w = 0 and hold at the step size eta = 1/beta. The paper prints eta <= 2/beta,
which is false (docs/errata.md).
"""

from __future__ import annotations

import math

from icgd.errors import AssumptionViolated, InvalidParameter


def gd_distance(steps: int, kappa: float, start: float) -> float:
    """|w_t - w*| <= exp(-t / (2 kappa)) |w_0 - w*| for gradient descent at eta = 1/beta.

    Statement: [COT] Lemma A.1

    Differs from the paper: no; the square root of its first line.

    >>> round(gd_distance(10, kappa=5.0, start=1.0), 4)
    0.3679
    """
    return math.exp(-steps / (2 * kappa)) * start


def gd_gap(steps: int, kappa: float, beta: float, start: float) -> float:
    """f(w_t) - f(w*) <= beta/2 exp(-t / kappa) |w_0 - w*|^2.

    Statement: [COT] Lemma A.1

    Differs from the paper: no.
    """
    return beta / 2 * math.exp(-steps / kappa) * start**2


def composed_error(steps: int, eps: float) -> float:
    """|w^_L - w_L| <= L eps: a step of a convex smooth f with eta <= 2/beta is non-expansive.

    Statement: [COT] Lemma A.2

    Differs from the paper: both sequences must start at the same point, which is not said.

    >>> composed_error(100, 1e-3)
    0.1
    """
    return steps * eps


def composed_norm(steps: int, eps: float, start: float, optimum: float) -> float:
    """|w^_L| <= |w*| + |w_0 - w*| + L eps for eta <= 2/beta.

    Statement: [COT] Lemma A.2

    Differs from the paper: R/2 + L eps with R = 2|w*| is false at eta > 1/beta; from w_0 = 0 this is
    2|w*| + L eps, so the printed conclusion |w| <= R needs R >= 4|w*|.

    >>> composed_norm(10, 0.0, start=1.0, optimum=1.0)
    2.0
    """
    return optimum + start + steps * eps


def pgd_gap(steps: int, beta: float, start: float) -> float:
    """F(w_t) - F(w*) <= beta / (2 t) |w_0 - w*|^2 for proximal gradient descent at eta = 1/beta.

    Statement: [COT] Lemma A.3

    Differs from the paper: it prints the gradient of F where that of the smooth part f is meant.
    """
    return beta / (2 * steps) * start**2


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
    if steps < 1:
        return math.inf
    drift = composed_error(steps, eps)
    slope = C0 + beta * R + lam * math.sqrt(d)
    return slope * drift + beta / 2 * drift**2 + beta * R**2 / (8 * steps)


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
    if B_w / 2 <= tolerance:
        return 0
    if eps > 0:
        # d/dL = eps - exp(-L / 2 kappa) B_w / (4 kappa) = 0
        best = max(0.0, 2 * kappa * math.log(max(1.0, B_w / (4 * kappa * eps))))
        reachable = min(
            strongly_convex_bound(n, eps, kappa, B_w) for n in (math.floor(best), math.ceil(best))
        )
        if reachable > tolerance:
            raise AssumptionViolated(
                f"No number of steps brings the bound below {reachable:.2g}, because every step adds "
                f"{eps:.2g}; the wanted tolerance is {tolerance:.2g}. Lower eps: more grid tokens, or "
                "temperature='spectral'."
            )
        high = math.ceil(best)
    else:
        high = math.ceil(2 * kappa * math.log(B_w / 2 / tolerance)) + 1
    return _first(0, high, lambda n: strongly_convex_bound(n, eps, kappa, B_w) <= tolerance)


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

    high = 1
    while bound(high) > tolerance:
        if bound(2 * high) > bound(high) or high > 2**60:
            # The bound turns upwards between high/2 and 2 high: look for its lowest point there.
            high = min(range(max(1, high // 2), min(2 * high, high // 2 + 10**6) + 1), key=bound)
            if bound(high) > tolerance:
                raise AssumptionViolated(
                    f"No number of steps brings the bound below {bound(high):.2g}, because every step adds "
                    f"{eps:.2g}; the wanted tolerance is {tolerance:.2g}. Lower eps."
                )
            break
        high *= 2
    return _first(1, high, lambda n: bound(n) <= tolerance)


def paper_step_error(L: int, *, C0: float, beta: float, R: float, lam: float, d: int) -> float:
    """eps <= R^2 / (8 C L^2), C = C0 + beta R + lam sqrt d: below it the last term dominates.

    Statement: [COT] Remark 3.3

    Differs from the paper: the last step of C.3 loses beta; R^2 beta / (8 C L^2) makes the two terms
    equal.
    """
    return beta * R**2 / (8 * (C0 + beta * R + lam * math.sqrt(d)) * L**2)


def paper_head_count(eps: float, d: int) -> tuple[float, float]:
    """(H, p) heads and grid tokens that C.3 asks for one step error: d H^{-1/2} = eps, p = H^{3/2}.

    Statement: [COT] Remark 3.3

    Differs from the paper: constants of its O(.) set to one.

    >>> H, p = paper_head_count(1e-3, d=1)
    >>> round(H), round(p)
    (1000000, 1000000000)
    """
    _positive("eps", eps)
    H = (d / eps) ** 2
    return H, H**1.5


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InvalidParameter(name, value, "be a finite number > 0")


def _first(low: int, high: int, holds: object) -> int:
    """The first n in low..high for which a property holds that stays true from there to high."""
    assert callable(holds)
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
