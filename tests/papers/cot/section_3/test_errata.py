"""docs/errata.md, Section 3 and Lemmas A.1 to A.4: the printed form is run and fails, ours holds.

Iterations and minimisers of one-dimensional and quadratic examples are written out here; everything
else that counts as "right" is autograd's or scikit-learn's.
"""

from __future__ import annotations

import math
from itertools import islice, pairwise

import pytest
import torch

import icgd
from icgd.mechanisms.cot_linear.layer import block_layout
from icgd.oracle import minimiser
from icgd.papers.cot.section_3 import printed as printed
from icgd.papers.cot.section_3.cases import case as shared_case
from icgd.papers.cot.section_3.lemmas import overshooting
from icgd.papers.measuring import gap
from icgd.transformer.gadgets.gates.soft_threshold import SoftThreshold
from icgd.transformer.gadgets.heads.spectral_theory import (
    grid_for_error,
    make_geometry,
    paper_tokens_for,
)
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.feedforward import FeedForward
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
    strongly_convex_bound,
)

F64 = torch.float64
ONE = torch.ones(1, 1, dtype=F64)
seeds = pytest.mark.parametrize("seed", range(3))


def random_data(seed, n=12, d=3):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=generator, dtype=F64)
    y = X @ torch.linspace(1, -1, d, dtype=F64)
    return X, y + 0.3 * torch.randn(n, generator=generator, dtype=F64)


def compiled(problem, lr, **options):
    return icgd.compile(problem, icgd.GD(lr=lr), **{"radius": 16.0, **options})


def path(problem, lr, X, y, steps, **options):
    return compiled(problem, lr, **options).run(X, y, steps=steps, record="weights").history


def eps_of(problem, lr, X, y, steps):
    """The certified error of a step, and whether every bound was kept."""
    check = icgd.verify(compiled(problem, lr), X, y, steps=steps, probe_sets=0)
    assert check.passed
    return check.round_bound


# -- Definition 3.1 and Lemma 3.1 ----------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5])
def test_prompt_has_one_row_less(d):
    assert printed.prompt_rows(d) == printed.declared_rows(d) - 1
    problem = icgd.Ridge(d, lam=0.1)
    layout = block_layout(problem.spec)
    assert layout.width == printed.prompt_rows(d)
    assert [slot.size for slot in layout] == [d, 1, d, 1]
    # And it is enough: the literal matrices run on tokens of that height.
    X, y = random_data(d, d=d)
    check = icgd.verify(compiled(problem, 0.1), X, y, steps=3, executor="dense", probe_sets=0)
    assert check.passed


def one_step(problem, X, y, w, **options):
    return icgd.verify(compiled(problem, 0.5, **options), X, y, init=w, steps=1, probe_sets=0)


@seeds
def test_a_layer_has_one_error_for_all_eps(seed):
    generator = torch.Generator().manual_seed(seed)
    X, y = (torch.rand(*s, generator=generator, dtype=F64) for s in ((5, 2), (5,)))
    w = torch.rand(2, generator=generator, dtype=F64)
    layers = [
        one_step(icgd.Ridge(2), X, y, w, radius=4.0, temperature="hard", n_grid=64),
        one_step(icgd.Ridge(2), X, y, w, radius=4.0, n_grid=12, rho=0.8, margin=5.0),
        # C^1 and no more: a softmax is smooth, the slope of this loss has a corner.
        one_step(icgd.LinearModel(2, loss="huber"), X, y, w, radius=4.0, n_grid=64),
    ]
    assert all(check.max_round_error > 1e-9 for check in layers)
    # No grid helps beyond its own range: what a head returns is bounded by its largest level.
    far, one = torch.full((1, 1), 100.0, dtype=F64), torch.ones(1, dtype=F64)
    layer = compiled(icgd.Ridge(1), 1.0, radius=1.0)
    run = layer.run(far, 0 * one, init=one, steps=1, watch=False, executor="dense")
    moved = 1 - float(run.weights)
    assert moved < 5 * 100 < 100 * 100
    # Ours: a layer for every eps.
    for eps in (1e-3, 1e-6, 1e-9, 1e-12):
        g = grid_for_error(eps, 4.0)
        grid = {"n_grid": g.n_grid, "rho": g.rho, "margin": g.margin}
        check = one_step(icgd.Ridge(2), X, y, w, radius=4.0, **grid)
        assert check.passed
        assert check.max_round_error <= check.round_bound <= eps


@pytest.mark.parametrize("n", [2, 3])
@seeds
def test_samples_need_heads_or_tokens(n, seed):
    generator = torch.Generator().manual_seed(seed)
    X, y = (torch.rand(*s, generator=generator, dtype=F64) for s in ((n, 2), (n,)))
    w = 1 + torch.rand(2, generator=generator, dtype=F64)
    g = make_geometry(28, 1.4, 8.25, 4.0, "spectral")
    exact = (X @ w - y) @ X
    assert gap(printed.pooled_head(X, y, w, g), exact) > 1e-4
    # One head is enough if it may have p^n tokens ...
    assert gap(printed.product_head(X, y, w, g), exact) < 1e-13
    assert printed.product_tokens(28, n) == 28**n
    # ... and n heads of p tokens are, as compiled: w - lr/n times the sum.
    run = compiled(icgd.Ridge(2), 1.0, radius=4.0, n_grid=28).run(X, y, init=w, steps=1)
    assert gap(n * (w - run.weights), exact) < 1e-13


# -- Theorems 3.1 and 3.2 ------------------------------------------------------------------------

SCALAR = [(icgd.GLM(1, "identity"), 1.0, 1.0), (icgd.Ridge(1, lam=1.0), 2.0, 0.5)]


@pytest.mark.parametrize(("problem", "beta", "best"), SCALAR)
@pytest.mark.parametrize("eta", [2.0, 1.9, 0.3, 0.01])
def test_step_size_of_glm_and_ridge(problem, beta, best, eta):
    # x = y = 1, kappa = 1, B_w = 2 w*: allowed by eta <= 2/beta, and above the bound.
    steps = 10
    eps = eps_of(problem, eta / beta, ONE, ONE[0], steps)
    w = path(problem, eta / beta, ONE, ONE[0], steps)[-1]
    assert abs(float(w) - best) > strongly_convex_bound(steps, eps, 1.0, 2 * best)
    # Ours: at 1/beta, and between the two ends of the range, every step is below.
    low, high = step_sizes(1.0, 1.0)
    for good in (1.0, 1.001 * low, 0.999 * high):
        eps = eps_of(problem, good / beta, ONE, ONE[0], steps)
        for t, w in enumerate(path(problem, good / beta, ONE, ONE[0], steps), 1):
            assert abs(float(w) - best) <= strongly_convex_bound(t, eps, 1.0, 2 * best)


@pytest.mark.parametrize("eps", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("eta", [2.0, 0.01])
def test_no_layer_keeps_the_bound_at_that_step_size(eta, eps):
    # The theorems say "there is a layer": errors as kind as eps allows do not save the bound either.
    w, lasso, lam, steps = 0.0, 0.0, 0.1, 10
    known = {"C0": 1.0, "beta": 1.0, "R": 2 * (1 - lam), "lam": lam, "d": 1}
    for _ in range(steps):
        w -= eta * (w - 1)
        w += max(-eps, min(eps, 1 - w))
        moved = lasso - eta * (lasso - 1)
        lasso = max(moved - eta * lam, 0.0) + min(moved + eta * lam, 0.0)
        lasso += max(-eps, min(eps, 1 - lam - lasso))
    assert steps <= 1 / eps
    assert abs(w - 1) > strongly_convex_bound(steps, eps, 1.0, 2.0)
    if eps < 1e-2:
        assert scalar_gap(lasso, lam) > lasso_bound(steps, eps, **known)


@seeds
def test_step_size_on_data(seed):
    X, y = random_data(seed)
    problem = icgd.Ridge(3, lam=0.2)
    best = minimiser(problem, X, y)
    alpha, beta = problem.constants_on(X, 1.0)
    size, steps = float(best.norm()), 60

    def excess(eta):
        eps = eps_of(problem, eta, X, y, steps)
        bounds = [
            strongly_convex_bound(t, eps, beta / alpha, 2 * size) for t in range(1, steps + 1)
        ]
        far = [float((w - best).norm()) for w in path(problem, eta, X, y, steps)]
        return max(f - b for f, b in zip(far, bounds, strict=True))

    assert excess(2.0 / beta) > 1e-3
    assert excess(0.01 / beta) > 1e-3
    assert excess(1.0 / beta) <= 0
    low, high = step_sizes(alpha, beta)
    assert excess(low) <= 1e-12
    assert excess(high) <= 1e-12


@pytest.mark.parametrize("beta", [3.0, 4.0, 10.0])
def test_step_size_of_c1(beta):
    # |w - w*| is multiplied by |1 - beta^2 / 2| at eta = beta/2.
    x = torch.full((1, 1), beta**0.5, dtype=F64)
    problem = icgd.GLM(1, "identity")
    far = [abs(float(w) - 1) for w in path(problem, beta / 2, x, x[0], 3, radius=2.0**18)]
    for before, after in pairwise([1.0, *far]):
        assert after / before == pytest.approx(abs(1 - beta**2 / 2))
        assert after > before
    assert far[-1] > strongly_convex_bound(3, 1e-3, 1.0, 2.0)
    ours = [abs(float(w) - 1) for w in path(problem, 1 / beta, x, x[0], 3)]
    assert max(ours) < 1e-12


# -- Theorem 3.3 and C.3 -------------------------------------------------------------------------


def scalar_gap(w, lam):
    """F(w) - F(w*) for x = y = 1, w* = 1 - lam."""
    return 0.5 * (w - 1) ** 2 + lam * abs(w) - (0.5 * lam**2 + lam * (1 - lam))


@pytest.mark.parametrize("lam", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("eta", [2.0, 0.01])
def test_step_size_of_the_lasso(lam, eta):
    problem, steps = icgd.Lasso(1, lam=lam), 10

    def bound(t, eps):
        return lasso_bound(t, eps, C0=1.0, beta=1.0, R=2 * (1 - lam), lam=lam, d=1)

    eps = eps_of(problem, eta, ONE, ONE[0], steps)
    w = path(problem, eta, ONE, ONE[0], steps)[-1]
    assert scalar_gap(float(w), lam) > bound(steps, eps)
    eps = eps_of(problem, 1.0, ONE, ONE[0], steps)
    for t, w in enumerate(path(problem, 1.0, ONE, ONE[0], steps), 1):
        assert scalar_gap(float(w), lam) <= bound(t, eps)


@pytest.mark.parametrize("d", [1, 3])
@seeds
def test_bias_free_network_is_no_soft_threshold(d, seed):
    cut, generator = 0.2, torch.Generator().manual_seed(seed)
    w = torch.randn(64, d, generator=generator, dtype=F64)
    # Whatever its 4d units are, doubling the input doubles the output; a soft-threshold does not.
    W_1 = torch.randn(4 * d, d, generator=generator, dtype=F64)
    W_2 = torch.randn(d, 4 * d, generator=generator, dtype=F64)
    once, twice = (torch.relu(v @ W_1.T) @ W_2.T for v in (w, 2 * w))
    assert gap(twice, 2 * once) < 1e-12
    edge = torch.full((1, d), cut, dtype=F64)
    assert gap(printed.soft(2 * edge, cut), 2 * printed.soft(edge, cut)) == pytest.approx(cut)
    for reach in (2.0, 3.0, 10.0):
        best, formula = printed.best_bias_free(cut, reach * cut)
        assert best == pytest.approx(formula, rel=2e-3)
        assert best >= cut / 3 - 1e-12
    # Ours: 2d units with a bias, exact.
    layout = Layout([Slot("in", (d,)), Slot("out", (d,))])
    unit = SoftThreshold(d, source="in", target="out", cut=cut, dtype=F64)
    network = FeedForward(layout, layout, {"prox": unit}, []).dense()
    tokens = torch.cat([w, torch.zeros_like(w)], dim=1)
    assert gap(network(tokens)[:, d:], printed.soft(w, cut)) <= 2.0**-52
    assert sum(math.prod(group.shape) for group in unit.units()) == 2 * d


@pytest.mark.parametrize("lam", [0.05, 0.2, 0.5])
def test_one_over_n_finds_another_minimum(lam):
    steps = 2000
    *_, w = islice(printed.unhalved_descent(ONE, ONE[0], lam), steps)
    assert float(w) == pytest.approx(1 - lam / 2)
    told = lasso_bound(steps, 0.0, C0=1.0, beta=1.0, R=2 * (1 - lam), lam=lam, d=1)
    assert scalar_gap(float(w), lam) > told
    ours = path(icgd.Lasso(1, lam=lam), 1.0, ONE, ONE[0], 5)[-1]
    assert float(ours) == pytest.approx(1 - lam, abs=1e-13)


@pytest.mark.parametrize("scale", [1 / 4, 1 / 16])
def test_last_step_loses_beta(scale):
    X, y = random_data(0)
    X, problem = X * scale, icgd.Lasso(3, lam=0.1 * scale)
    best = minimiser(problem, X, y)
    _, beta = problem.constants_on(X, 1.0)
    C0 = float((X.T @ y / len(y)).norm())
    known = {"C0": C0, "beta": beta, "R": 2 * float(best.norm()), "lam": 0.1 * scale, "d": 3}
    slope, L = C0 + beta * known["R"] + known["lam"] * 3**0.5, 20
    last = pgd_gap(L, beta, known["R"] / 2)
    wrong, right = printed.printed_step_error(L, slope, known["R"]), paper_step_error(L, **known)
    assert slope * L * wrong == pytest.approx(last / beta)
    assert slope * L * wrong > 2 * last
    assert slope * L * right == pytest.approx(last)
    assert lasso_bound(L, right, **known) < 3 * last < lasso_bound(L, wrong, **known)


# -- Lemmas A.2 and A.4 --------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [1.1, 1.5, 1.9, 2.0])
def test_norm_exceeds_half_the_radius(eta):
    for problem, best in ((icgd.GLM(1, "identity"), 1.0), (icgd.Lasso(1, lam=0.02), 0.98)):
        check = icgd.verify(compiled(problem, eta), ONE, ONE[0], steps=6, probe_sets=0)
        sizes = [abs(float(w)) for w in path(problem, eta, ONE, ONE[0], 6)]
        eps = check.round_bound
        assert sizes[0] > printed.printed_norm(1, eps, best)
        # Ours; and L eps itself is right for eta <= 2/beta.
        assert all(r.error <= composed_error(r.step, eps) for r in check.rounds)
        assert all(s <= composed_norm(t, eps, best, best) for t, s in enumerate(sizes, 1))


def test_norm_exceeds_it_at_one_over_beta_too():
    its = overshooting()
    exact = torch.tensor([-0.75, 0.0, 1.5], dtype=F64)
    # w* is what it is said to be: at the corner the slope is inside [-lam, lam], elsewhere at its end.
    slope = its.X.T @ (its.X @ exact - its.y) / 3
    assert slope[0] == 0.5
    assert slope[2] == -0.5
    assert abs(slope[1]) < 0.5
    assert gap(its.best, exact) < 1e-12
    steps = 150
    run = path(its.problem, 1 / its.beta, its.X, its.y, steps)
    eps = eps_of(its.problem, 1 / its.beta, its.X, its.y, steps)
    size = float(exact.norm())
    over = [float(w.norm()) - printed.printed_norm(t, eps, size) for t, w in enumerate(run, 1)]
    assert max(over) > 0.01 * size
    # A smooth convex function does it as well: the lasso with its corners rounded off.
    path_ = list(islice(printed.smoothed_descent(its.X, its.y, 0.5, 0.05), 4000))
    assert gap(path_[-1], path_[-2]) < 1e-14
    assert max(float(w.norm()) for w in path_) > 1.005 * float(path_[-1].norm())
    # A quadratic does not, and nothing exceeds ours.
    quadratic = icgd.Ridge(3, lam=0.1)
    best = minimiser(quadratic, its.X, its.y)
    _, beta = quadratic.constants_on(its.X, 1.0)
    sizes = [float(w.norm()) for w in path(quadratic, 1 / beta, its.X, its.y, steps)]
    assert max(sizes) <= float(best.norm()) * (1 + 1e-12)
    assert all(float(w.norm()) <= composed_norm(t, eps, size, size) for t, w in enumerate(run, 1))


@pytest.mark.parametrize("eps", [1e-2, 1e-4])
@pytest.mark.parametrize("beyond", [3.0, 10.0])
def test_errors_grow_where_f_is_not_smooth(eps, beyond):
    exact, off = printed.perturbed_descent(
        lambda w: printed.bent_gradient(w, 1.0, 2.0, beyond), 2.0, [eps, -eps]
    )
    assert exact == [0.0, 2.0, 0.0]
    assert off[1] > 2.0
    assert abs(off[2] - exact[2]) > composed_error(2, eps) * 1.5
    # Ours: smooth as far as the sequences go.
    exact, off = printed.perturbed_descent(
        lambda w: printed.bent_gradient(w, 1.0, 2.0, 1.0), 2.0, [eps, -eps]
    )
    assert abs(off[2] - exact[2]) <= composed_error(2, eps) * (1 + 1e-9)


def test_sequences_must_start_together():
    X, y = random_data(1)
    problem = icgd.Ridge(3, lam=0.1)
    _, beta = problem.constants_on(X, 1.0)
    there = torch.ones(3, dtype=F64)
    program = compiled(problem, 0.1 / beta)
    runs = [program.run(X, y, init=w, steps=5).weights for w in (None, there)]
    eps = eps_of(problem, 0.1 / beta, X, y, 5)
    assert float((runs[0] - runs[1]).norm()) > 1e6 * composed_error(5, eps)
    check = icgd.verify(program, X, y, init=there, steps=5, probe_sets=0)
    assert check.max_error <= composed_error(5, check.round_bound)


# -- Lemma A.3 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.2, 0.4])
def test_proximal_step_needs_the_gradient_of_f(lam):
    # At w = 0, where descent starts, F has no gradient.
    h = 2.0**-20
    left, right = ((scalar_gap(s * h, lam) - scalar_gap(0.0, lam)) / (s * h) for s in (-1, 1))
    assert right - left == pytest.approx(2 * lam, rel=1e-4)
    # With autograd's choice there the minimiser is no fixed point: the penalty is paid twice.
    wrong = [float(w) for w in islice(printed.penalised_descent(ONE, ONE[0], lam, 1.0), 200)]
    assert any(scalar_gap(b, lam) > scalar_gap(a, lam) + 1e-3 for a, b in pairwise(wrong))
    assert max(scalar_gap(w, lam) for w in wrong[-2:]) > pgd_gap(200, 1.0, 1 - lam)
    ours = [float(w) for w in path(icgd.Lasso(1, lam=lam), 1.0, ONE, ONE[0], 20)]
    for t, w in enumerate(ours, 1):
        assert scalar_gap(w, lam) <= pgd_gap(t, 1.0, 1 - lam) + 1e-14


@seeds
def test_proximal_descent_with_the_gradient_of_f(seed):
    X, y = random_data(seed)
    problem = icgd.Lasso(3, lam=0.3)
    best = minimiser(problem, X, y)
    _, beta = problem.constants_on(X, 1.0)
    lowest = float(problem.objective(best, X, y))
    weights = [torch.zeros_like(best), *path(problem, 1 / beta, X, y, 40)]
    values = [float(problem.objective(w, X, y)) - lowest for w in weights]
    far = [float((w - best).norm()) for w in weights]
    for t in range(40):
        assert values[t + 1] <= values[t] + 1e-14
        assert values[t + 1] <= beta / 2 * (far[t] ** 2 - far[t + 1] ** 2) + 1e-14
        assert all(values[t + k] <= pgd_gap(k, beta, far[t]) + 1e-14 for k in range(1, 41 - t))


# -- what holds as printed -----------------------------------------------------------------------


@seeds
def test_descent_lemma_holds(seed):
    X, y = random_data(seed)
    for problem in (icgd.Ridge(3, lam=0.5), icgd.GLM(3, "logistic", lam=0.1)):
        target = y if problem.spec.loss.name == "squared" else (y > 0).double()
        best = minimiser(problem, X, target)
        size = float(best.norm())
        alpha, beta = problem.constants_on(X, 2 * size * float(X.norm(dim=1).max()))
        lowest = float(problem.objective(best, X, target))
        for t, w in enumerate(path(problem, 1 / beta, X, target, 60), 1):
            assert float((w - best).norm()) <= gd_distance(t, beta / alpha, size) + 1e-13
            excess = float(problem.objective(w, X, target)) - lowest
            assert excess <= gd_gap(t, beta / alpha, beta, size) + 1e-13


def test_rate_of_remark_33_holds():
    its = shared_case("lasso")
    C0 = float((its.X.T @ its.y / len(its.y)).norm())
    known = {
        "C0": C0,
        "beta": its.beta,
        "R": 2 * float(its.best.norm()),
        "lam": its.problem.spec.lam,
        "d": 3,
    }
    for L in (10, 100, 1000, 10_000):
        eps = paper_step_error(L, **known)
        # eps = O(1/L^2) leaves O(1/L), and heads grow like L^4.
        assert lasso_bound(L, eps, **known) <= 3 * pgd_gap(L, its.beta, known["R"] / 2)
        H, p = paper_head_count(eps, 3)
        assert p == pytest.approx(H**1.5)
        assert paper_head_count(paper_step_error(2 * L, **known), 3)[0] == pytest.approx(16 * H)
        # What the two heads of this package need: 1/eps, and log(1/eps).
        assert paper_tokens_for(eps, 4.0) > L**2
        assert grid_for_error(eps, 4.0).n_grid <= 8 + 4 * math.log10(L)
