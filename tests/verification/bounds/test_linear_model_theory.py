"""The bounds of Section 3 on paper: laws, inverses, and exact descent simulated below them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.verification.bounds.linear_model_theory import (
    composed_error,
    composed_norm,
    gd_distance,
    gd_gap,
    lasso_bound,
    paper_head_count,
    paper_step_error,
    pgd_gap,
    step_sizes,
    steps_for_distance,
    steps_for_gap,
    strongly_convex_bound,
)

F64 = torch.float64
ROUNDING = 1 + 1e-9

sizes = st.floats(1e-3, 1e3)
kappas = st.floats(0, 5).map(lambda e: 10.0**e)
errors = st.one_of(st.just(0.0), st.floats(-14, -1).map(lambda e: 10.0**e))
tolerances = st.floats(-9, 1).map(lambda e: 10.0**e)
counts = st.integers(0, 10_000)
lassos = st.fixed_dictionaries(
    {
        "C0": st.floats(0, 100),
        "beta": sizes,
        "R": sizes,
        "lam": st.floats(0, 10),
        "d": st.integers(1, 500),
    }
)


# -- laws -----------------------------------------------------------------------------------------


@given(counts, kappas, sizes, sizes)
def test_exact_descent_bounds(steps, kappa, beta, start):
    here = gd_distance(steps, kappa, start)
    assert gd_distance(0, kappa, start) == start
    assert gd_distance(steps + 1, kappa, start) <= here <= start
    assert gd_distance(steps, 2 * kappa, start) >= here
    assert gd_distance(steps, math.inf, start) == start
    # The gap is beta/2 times the squared distance: one bound, two readings.
    assert gd_gap(steps, kappa, beta, start) == pytest.approx(beta / 2 * here**2)
    assert pgd_gap(steps + 1, beta, start) <= pgd_gap(steps, beta, start)
    assert pgd_gap(1, beta, start) == gd_gap(0, kappa, beta, start)


@given(counts, errors, sizes, sizes)
def test_composition(steps, eps, start, optimum):
    assert composed_error(0, eps) == 0.0
    assert composed_error(steps + 1, eps) == pytest.approx(composed_error(steps, eps) + eps)
    assert composed_norm(steps, eps, start, optimum) >= optimum + composed_error(steps, eps)
    # From zero |w_0 - w*| = |w*|: within R for every L <= R / (2 eps) exactly when R >= 4 |w*|.
    if eps > 0:
        R = 4 * optimum
        L = math.floor(R / (2 * eps))
        assert composed_norm(L, eps, optimum, optimum) <= R * ROUNDING


@given(counts, errors, kappas, sizes)
def test_theorems_are_made_of_their_lemmas(steps, eps, kappa, B_w):
    whole = strongly_convex_bound(steps, eps, kappa, B_w)
    assert whole == composed_error(steps, eps) + gd_distance(steps, kappa, B_w / 2)
    assert strongly_convex_bound(steps, 2 * eps, kappa, B_w) >= whole
    assert strongly_convex_bound(steps, eps, 2 * kappa, B_w) >= whole
    assert strongly_convex_bound(steps, eps, kappa, 2 * B_w) >= whole


@given(st.integers(1, 10_000), errors, lassos)
def test_lasso_bound(steps, eps, case):
    whole = lasso_bound(steps, eps, **case)
    assert lasso_bound(steps, 0.0, **case) == pgd_gap(steps, case["beta"], case["R"] / 2)
    assert lasso_bound(0, eps, **case) == math.inf
    for name in case:
        assert lasso_bound(steps, eps, **{**case, name: 2 * case[name]}) >= whole
    assert lasso_bound(steps, 2 * eps, **case) >= whole


# -- inverses -------------------------------------------------------------------------------------


@given(tolerances, errors, kappas, sizes)
@example(0.1, 0.0, 1.0, 1.0)
@example(1e-9, 1e-12, 1e5, 1e3)
def test_steps_for_distance_inverts(tolerance, eps, kappa, B_w):
    def bound(n):
        return strongly_convex_bound(n, eps, kappa, B_w)

    try:
        L = steps_for_distance(tolerance, eps, kappa, B_w)
    except AssumptionViolated:
        # Then no number of steps does it: not the best one, and none on a long list.
        best = 2 * kappa * math.log(max(1.0, B_w / (4 * kappa * eps)))
        tried = {0, 1, 2, math.floor(best), math.ceil(best), *(2**k for k in range(40))}
        assert min(map(bound, tried)) > tolerance
        return
    assert bound(L) <= tolerance
    assert L == 0 or bound(L - 1) > tolerance


@given(tolerances, errors, lassos)
@example(0.01, 1e-9, {"C0": 1.0, "beta": 1e3, "R": 1e3, "lam": 1.0, "d": 10})
@example(1e-3, 0.0, {"C0": 0.0, "beta": 1.0, "R": 0.001, "lam": 0.0, "d": 1})
@example(1e-9, 0.0, {"C0": 0.0, "beta": 314.0, "R": 444.0, "lam": 0.0, "d": 1})
def test_steps_for_gap_inverts(tolerance, eps, case):
    def bound(n):
        return lasso_bound(n, eps, **case)

    try:
        L = steps_for_gap(tolerance, eps, **case)
    except AssumptionViolated:
        slope = case["C0"] + case["beta"] * case["R"] + case["lam"] * math.sqrt(case["d"])
        best = math.sqrt(case["beta"] * case["R"] ** 2 / 8 / (slope * eps))
        near = range(max(1, math.floor(best) - 200), math.ceil(best) + 2)
        assert min(map(bound, [*near, *(2**k for k in range(40))])) > tolerance
        return
    assert bound(L) <= tolerance
    assert L == 1 or bound(L - 1) > tolerance


@pytest.mark.parametrize("factor", [1.0000001, 1.01, 2.0])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_gap_just_above_the_lowest_is_found(scale, factor):
    # The lowest point of the bound lies at about 3e5 * scale steps: it must be found by
    # reasoning, not by trying numbers.
    case = {"C0": 1.0, "beta": 1.0, "R": 2.0, "lam": 0.0, "d": 1}
    eps = 0.5 / 3 / (3e5 * scale) ** 2
    lowest = min(lasso_bound(round(3e5 * scale) + k, eps, **case) for k in range(-50, 51))
    L = steps_for_gap(factor * lowest, eps, **case)
    assert lasso_bound(L, eps, **case) <= factor * lowest < lasso_bound(L - 1, eps, **case)
    with pytest.raises(AssumptionViolated, match=r"every step adds .*; the wanted tolerance"):
        steps_for_gap(0.999999 * lowest, eps, **case)


def test_distance_at_the_lowest_point_is_found():
    # Lowest between two whole numbers: the better neighbour counts, whichever it is.
    for eps in (1e-3, 3.3e-4, 1e-5):
        for kappa in (1.0, 2.7, 40.0):
            bounds = [strongly_convex_bound(n, eps, kappa, 2.0) for n in range(2000)]
            L = steps_for_distance(min(bounds), eps, kappa, 2.0)
            assert bounds[L] == min(bounds)


def test_nothing_to_do():
    assert steps_for_distance(1.0, 0.1, kappa=3.0, B_w=2.0) == 0
    assert steps_for_distance(1.0, 0.1, kappa=math.inf, B_w=2.0) == 0
    assert steps_for_gap(1e9, 0.0, C0=1.0, beta=1.0, R=1.0, lam=0.0, d=1) == 1
    assert steps_for_gap(1e-3, 0.0, C0=1.0, beta=1.0, R=0.0, lam=0.0, d=1) == 1


@given(st.integers(1, 1000), lassos)
def test_step_error_balances_the_terms(L, case):
    eps = paper_step_error(L, **case)
    stop = pgd_gap(L, case["beta"], case["R"] / 2)
    drift = composed_error(L, eps)
    rest = lasso_bound(L, eps, **case) - case["beta"] / 2 * drift**2
    assert rest == pytest.approx(2 * stop)
    # eps ~ 1 / L^2, as the remark says.
    assert paper_step_error(2 * L, **case) == pytest.approx(eps / 4)


@given(st.floats(1e-9, 1.0), st.integers(1, 100))
def test_head_count(eps, d):
    H, p = paper_head_count(eps, d)
    assert d * (H / p + H**-0.5) == pytest.approx(2 * eps)
    more, _ = paper_head_count(eps / 4, d)
    assert more == pytest.approx(16 * H)


# -- against exact descent ------------------------------------------------------------------------


def quadratic(seed, d, kappa):
    """A Hessian with the wanted condition number, beta = 1..3, and a minimiser."""
    generator = torch.Generator().manual_seed(seed)
    Q, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=F64))
    beta = 1 + 2 * float(torch.rand(1, generator=generator, dtype=F64))
    size = (
        torch.logspace(0, -math.log10(kappa), d, dtype=F64) if d > 1 else torch.ones(1, dtype=F64)
    )
    return beta * (Q * size) @ Q.T, torch.randn(d, generator=generator, dtype=F64), beta


@pytest.mark.parametrize("kappa", [1.0, 2.0, 50.0, 1e4])
@pytest.mark.parametrize("seed", range(5))
def test_gradient_descent_stays_below(seed, kappa):
    d = 4
    H, best, beta = quadratic(seed, d, kappa)
    w, start = torch.zeros(d, dtype=F64), float(best.norm())
    for t in range(1, 200):
        w = w - (H @ (w - best)) / beta
        error = w - best
        assert float(error.norm()) <= gd_distance(t, kappa, start) * ROUNDING + 1e-15
        # The lemma gives half of the exponent away.
        assert float(error.norm()) <= gd_distance(2 * t, kappa, start) * ROUNDING + 1e-15
        gap = float(0.5 * error @ H @ error)
        assert gap <= gd_gap(t, kappa, beta, start) * ROUNDING + 1e-30
        # A quadratic from zero does not overshoot at eta = 1/beta; that is special to quadratics.
        assert float(w.norm()) <= start * ROUNDING


@pytest.mark.parametrize("kappa", [1.0, 3.0, 1e3])
@pytest.mark.parametrize("seed", range(5))
def test_errors_add_up_at_most(seed, kappa):
    # Adversarial errors: along the gap between the two sequences, so that they do not cancel.
    d, eps = 4, 1e-3
    H, best, beta = quadratic(seed, d, kappa)
    for eta in (0.1 / beta, 1 / beta, 2 / beta):
        w = torch.zeros(d, dtype=F64)
        off, start = w.clone(), float(best.norm())
        for t in range(1, 150):
            w = w - eta * (H @ (w - best))
            off = off - eta * (H @ (off - best))
            gap = off - w
            push = gap if float(gap.norm()) > 0 else best
            off = off + eps * push / push.norm()
            assert float((off - w).norm()) <= composed_error(t, eps) * ROUNDING
            assert float(off.norm()) <= composed_norm(t, eps, start, start) * ROUNDING
            if eta * beta == 1.0:
                bound = strongly_convex_bound(t, eps, kappa, 2 * start)
                assert float((off - best).norm()) <= bound * ROUNDING
        # Where nothing contracts, the bound is met: it cannot be improved.
        if eta * beta == 2.0 and kappa == 1.0:
            assert float((off - w).norm()) == pytest.approx(composed_error(149, eps))


@pytest.mark.parametrize("kappa", [1.0, 20.0, 1e3])
@pytest.mark.parametrize("seed", range(5))
def test_proximal_descent_stays_below(seed, kappa):
    d, lam, eps = 4, 0.2, 1e-4
    H, centre, beta = quadratic(seed, d, kappa)

    def objective(w):
        return float(0.5 * (w - centre) @ H @ (w - centre) + lam * w.abs().sum())

    def step(w):
        v = w - (H @ (w - centre)) / beta
        return torch.sign(v) * (v.abs() - lam / beta).relu()

    best = torch.zeros(d, dtype=F64)
    for _ in range(20_000 if kappa > 100 else 1000):
        best = step(best)
    R, lowest = 2 * float(best.norm()), objective(best)
    C0 = float((H @ centre).norm())
    generator = torch.Generator().manual_seed(seed)
    w = off = torch.zeros(d, dtype=F64)
    for t in range(1, 150):
        w, off = step(w), step(off)
        noise = torch.randn(d, generator=generator, dtype=F64)
        off = off + eps * noise / noise.norm()
        assert objective(w) - lowest <= pgd_gap(t, beta, R / 2) * ROUNDING + 1e-14
        bound = lasso_bound(t, eps, C0=C0, beta=beta, R=R, lam=lam, d=d)
        assert objective(off) - lowest <= bound * ROUNDING
        assert float((off - w).norm()) <= composed_error(t, eps) * ROUNDING


@given(st.floats(1e-3, 1.0), st.floats(1.0, 1e3))
def test_step_sizes(alpha, kappa):
    beta = alpha * kappa
    low, high = step_sizes(alpha, beta)
    rate = gd_distance(1, kappa, 1.0)

    def contraction(eta):
        return max(abs(1 - eta * alpha), abs(1 - eta * beta))

    assert low <= 1 / (2 * beta) * ROUNDING
    assert 1 / beta <= high <= 2 / beta
    for eta in (low * ROUNDING, 1 / (2 * beta), 1 / beta, high / ROUNDING):
        assert contraction(eta) <= rate * ROUNDING
    # And no further: a quadratic breaks the bound just outside.
    assert contraction(0.99 * low) > rate
    assert contraction(1.01 * high) > rate


# -- bad arguments --------------------------------------------------------------------------------

LASSO = {"C0": 1.0, "beta": 1.0, "R": 1.0, "lam": 1.0, "d": 1}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: gd_distance(-1, 1.0, 1.0), "steps"),
        (lambda: gd_distance(1, 0.0, 1.0), "kappa"),
        (lambda: gd_distance(1, math.nan, 1.0), "kappa"),
        (lambda: gd_distance(1, 1.0, -1.0), "start"),
        (lambda: gd_gap(1, 1.0, -1.0, 1.0), "beta"),
        (lambda: composed_error(1, -1e-3), "eps"),
        (lambda: composed_error(1, math.nan), "eps"),
        (lambda: composed_norm(1, 0.0, -1.0, 1.0), "start"),
        (lambda: composed_norm(1, 0.0, 1.0, -1.0), "optimum"),
        (lambda: pgd_gap(-1, 1.0, 1.0), "steps"),
        (lambda: strongly_convex_bound(1, -1.0, 1.0, 1.0), "eps"),
        *((lambda n=n: lasso_bound(1, 0.0, **{**LASSO, n: -1}), n) for n in LASSO),
        *((lambda n=n: steps_for_gap(1.0, 0.0, **{**LASSO, n: math.inf}), n) for n in LASSO),
        (lambda: steps_for_gap(0.0, 0.0, **LASSO), "tolerance"),
        (lambda: steps_for_gap(1.0, math.inf, **LASSO), "eps"),
        (lambda: steps_for_distance(-1.0, 0.0, 1.0, 1.0), "tolerance"),
        (lambda: steps_for_distance(math.inf, 0.0, 1.0, 1.0), "tolerance"),
        (lambda: steps_for_distance(1e-3, math.inf, 1.0, 1.0), "eps"),
        (lambda: steps_for_distance(1e-3, 0.0, -1.0, 1.0), "kappa"),
        (lambda: steps_for_distance(1e-3, 0.0, 1.0, math.nan), "B_w"),
        (lambda: paper_step_error(0, **LASSO), "L"),
        (lambda: paper_head_count(0.0, 1), "eps"),
        (lambda: paper_head_count(1e-3, 0), "d"),
        (lambda: step_sizes(0.0, 1.0), "alpha"),
        (lambda: step_sizes(2.0, 1.0), "beta"),
    ],
)
def test_bad_arguments(call, name):
    with pytest.raises(InvalidParameter, match=rf"^`{name}` must be"):
        call()


def test_infinite_condition_number_is_named():
    with pytest.raises(AssumptionViolated, match=r"kappa is infinite .* Use lam > 0"):
        steps_for_distance(1e-3, 0.0, math.inf, 2.0)


@given(tolerances, kappas, sizes)
def test_more_time_never_hurts_without_errors(tolerance, kappa, B_w):
    assume(B_w / 2 > tolerance)
    L = steps_for_distance(tolerance, 0.0, kappa, B_w)
    assert math.ceil(2 * kappa * math.log(B_w / 2 / tolerance)) + 1 >= L
    assert strongly_convex_bound(10 * L + 1, 0.0, kappa, B_w) <= tolerance
