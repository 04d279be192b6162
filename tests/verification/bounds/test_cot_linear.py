"""Theorems 3.1 to 3.3 on random data: measured <= bound at every step, and bounds that mean something.

The exact descent and the distances are this file's own closed forms. From the package come the
programs, the certified eps of their steps, the bounds, and the minimisers, whose optimality is checked.
`pytest -s` shows the ratios bound / measured.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch

import icgd
from icgd.oracle import minimiser
from icgd.verification.bounds.linear_model_theory import (
    composed_error,
    composed_norm,
    lasso_bound,
    pgd_gap,
    strongly_convex_bound,
)

F64 = torch.float64
INSTANCES = 20
STEPS = 30
GRIDS = [16, 32, 64, 128, 256]
MODELS = {
    "identity": "Theorem 3.1",
    "logistic": "Theorem 3.1",
    "poisson": "Theorem 3.1",
    "ridge": "Theorem 3.2",
    "lasso": "Theorem 3.3",
}
INVERSE_LINK = {"logistic": torch.sigmoid, "poisson": torch.exp}
models = pytest.mark.parametrize("model", MODELS)
temperatures = pytest.mark.parametrize("temperature", ["spectral", "hard"])


@dataclass(frozen=True)
class Instance:
    """A random problem; alpha and beta hold while |w - w*| <= |w*|."""

    model: str
    problem: icgd.LinearModel
    X: torch.Tensor
    y: torch.Tensor
    best: torch.Tensor
    reach: float
    alpha: float
    beta: float

    def gradient(self, w):
        s = self.X @ w
        mean = INVERSE_LINK.get(self.model, lambda t: t)(s)
        ridge = self.problem.spec.lam * w if self.model == "ridge" else 0.0
        return self.X.T @ (mean - self.y) / len(self.y) + ridge

    def step(self, w, lr):
        moved = w - lr * self.gradient(w)
        if self.model != "lasso":
            return moved
        return torch.sign(moved) * (moved.abs() - lr * self.problem.spec.lam).relu()

    def objective(self, w):
        loss = 0.5 * (self.X @ w - self.y).square().mean()
        return float(loss + self.problem.spec.lam * w.abs().sum())

    def program(self, temperature, n_grid=1024, lr=None):
        y = max(1.0, float(self.y.abs().max()))
        link = self.problem.spec.loss.form == "link"
        options = {"radius": max(4.0, self.reach + y)}
        if temperature == "hard":
            # Room for the errors themselves, too.
            radius = 1.1 * self.reach + (0.0 if link else y)
            options = {"temperature": "hard", "n_grid": n_grid, "radius": radius}
        if link:
            options["target_radius"] = y
        return icgd.compile(self.problem, icgd.GD(lr=lr or 1 / self.beta), **options)


@cache
def instance(model, seed):
    generator = torch.Generator().manual_seed(seed)
    d = 2 + seed % 4
    n = 5 * d + int(torch.randint(0, 10, (1,), generator=generator))
    X = torch.randn(n, d, generator=generator, dtype=F64)
    truth = torch.randn(d, generator=generator, dtype=F64) / d**0.5
    noise = torch.randn(n, generator=generator, dtype=F64)
    size = float(torch.rand(1, generator=generator, dtype=F64))
    y = X @ truth + 0.3 * noise
    if model == "logistic":
        # Labels of both kinds for the same example, or the classes could be separable.
        X = torch.cat([X, X])
        y = torch.cat([(y > 0).double(), (noise > 0).double()])
    elif model == "poisson":
        y = torch.poisson(torch.exp(0.2 * X @ truth), generator=generator)
    lam = 10 ** (-2 * size)
    if model == "lasso":
        # A share of the penalty that would set all weights to zero.
        lam *= 0.6 * float((X.T @ y / n).abs().max())
    problem = {"ridge": icgd.Ridge, "lasso": icgd.Lasso}.get(model)
    problem = problem(d, lam=lam) if problem else icgd.GLM(d, model)
    best = minimiser(problem, X, y)
    reach = 2 * float(best.norm() * X.norm(dim=1).max())
    made = Instance(model, problem, X, y, best, reach, *problem.constants_on(X, reach))
    # Optimal means: one exact step does not move it.
    assert float((made.step(best, 1 / made.beta) - best).norm()) < 1e-12
    return made


def measure(case, temperature, steps=STEPS):
    """A run's own distances beside the certified eps: [(error, size, distance or gap)], eps of each step."""
    program = case.program(temperature)
    check = icgd.verify(program, case.X, case.y, steps=steps, probe_sets=0)
    # A hard grid may be coarser than the steps of a Poisson model: within its bounds, showing nothing.
    assert check.passed or (temperature == "hard" and check.verdict == "inconclusive")
    history = program.run(case.X, case.y, steps=steps, record="weights").history
    rows, exact = [], torch.zeros_like(case.best)
    for w in history:
        exact = case.step(exact, 1 / case.beta)
        far = float((w - case.best).norm())
        if case.model == "lasso":
            far = case.objective(w) - case.objective(case.best)
        rows.append((float((w - exact).norm()), float(w.norm()), far))
    return rows, [r.step_bound for r in check.rounds]


def theorem(case, t, eps):
    B_w = 2 * float(case.best.norm())
    if case.model != "lasso":
        return strongly_convex_bound(t, eps, case.beta / case.alpha, B_w)
    C0 = float(case.gradient(torch.zeros_like(case.best)).norm())
    return lasso_bound(
        t, eps, C0=C0, beta=case.beta, R=B_w, lam=case.problem.spec.lam, d=len(case.best)
    )


@models
@temperatures
def test_measured_is_below_the_bound_at_every_step(model, temperature, record_property):
    tight, drifts, shares = [], [], []
    for seed in range(INSTANCES):
        case = instance(model, seed)
        size, ratios = float(case.best.norm()), []
        rows, steps = measure(case, temperature)
        for t, (error, norm, far) in enumerate(rows, 1):
            eps = max(steps[:t])
            assert error <= sum(steps[:t]) <= composed_error(t, eps) * (1 + 1e-12), (seed, t)
            assert norm <= composed_norm(t, eps, size, size), (seed, t)
            bound = theorem(case, t, eps)
            assert far <= bound, (seed, t)
            if far > 1e-10 * size:
                ratios.append(bound / far)
        tight.append(min(ratios))
        drifts.append(composed_error(STEPS, max(steps)) / size)
        start = case.objective(0 * case.best) - case.objective(case.best)
        shares.append(theorem(case, STEPS, eps) / (start if model == "lasso" else size))
    assert min(tight) >= 1.0
    # Not vacuous: the drift is small beside |w*|, the bound has fallen below where descent started, and
    # it is within reach of what happens.
    if temperature == "spectral":
        assert max(drifts) < 1e-8
        assert max(shares) < 1.0
    else:
        assert statistics.median(drifts) < 1.0
    assert statistics.median(tight) < (50 if model == "lasso" else 4)
    line = (
        f"{MODELS[model]} ({model}), {temperature}: bound/measured at best {min(tight):.3g}, median "
        f"{statistics.median(tight):.3g}; L eps at most {max(drifts):.1e} |w*|"
    )
    record_property("ratio", line)
    print(line)


@models
def test_spectral_follows_exact_descent_to_rounding(model):
    for seed in range(INSTANCES):
        case = instance(model, seed)
        rows, _ = measure(case, "spectral", steps=10)
        assert max(error for error, *_ in rows) < 1e-13


def slope(x, y):
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def largest_error(case, temperature, n_grid, steps=30):
    program = case.program(temperature, n_grid)
    exact, worst = torch.zeros_like(case.best), 0.0
    for w in program.run(case.X, case.y, steps=steps, record="weights").history:
        exact = case.step(exact, 1 / case.beta)
        worst = max(worst, float((w - exact).norm()))
    return worst


@pytest.mark.parametrize("model", ["identity", "ridge", "lasso", "logistic"])
def test_hard_error_falls_like_one_over_the_grid(model):
    errors = [
        statistics.fmean(
            largest_error(instance(model, seed), "hard", n) for seed in range(INSTANCES)
        )
        for n in GRIDS
    ]
    assert slope(GRIDS, errors) == pytest.approx(-1, abs=0.25)


@pytest.mark.parametrize("n_grid", [28, 29, 32, 40, 64, 128])
def test_spectral_error_is_flat_from_28_tokens(n_grid):
    for seed in range(5):
        case = instance("ridge", seed)
        program = icgd.compile(case.problem, icgd.GD(lr=1 / case.beta), n_grid=n_grid, radius=16.0)
        exact = torch.zeros_like(case.best)
        for w in program.run(case.X, case.y, steps=100, record="weights").history:
            exact = case.step(exact, 1 / case.beta)
            assert float((w - exact).norm()) < 2e-14


@pytest.mark.parametrize("n_grid", [16, 64, 256])
def test_errors_add_up_one_by_one(n_grid):
    # At a small step size the head is asked nearly the same number at every step, so its errors point
    # one way: L eps is what happens, not only what cannot be exceeded.
    lengths = [8, 16, 32, 64, 128]
    radius, lr = 2.0, 1e-6
    spacing = 2 * radius / (n_grid - 1)
    program = icgd.compile(
        icgd.Ridge(1), icgd.GD(lr=lr), temperature="hard", n_grid=n_grid, radius=radius
    )
    x = torch.ones(1, 1, dtype=F64)
    for share in (0.1, 0.3, 0.4):
        # Levels lie at odd multiples of half a spacing; go `share` of a spacing beyond one of them.
        y = torch.tensor([-spacing * (0.5 + share)], dtype=F64)
        check = icgd.verify(program, x, y, steps=max(lengths), probe_sets=0)
        errors = [check.rounds[n - 1].error for n in lengths]
        assert slope(lengths, errors) == pytest.approx(1, abs=0.02)
        met = errors[-1] / composed_error(lengths[-1], check.round_bound)
        assert met == pytest.approx(2 * share, rel=0.05)


def test_errors_stop_adding_up_where_descent_contracts():
    # With strong convexity old errors are forgotten: after a few kappa steps nothing is added.
    for seed in range(3):
        case = instance("ridge", seed)
        rows, steps = measure(case, "hard", steps=80)
        late = max(error for error, *_ in rows[40:])
        assert late <= max(steps) * case.beta / case.alpha
        assert late < composed_error(40, max(steps)) / 4


def test_the_paper_sums_and_the_package_takes_the_mean():
    # n f with eta / n is the same descent: the paper's sum form as an adapter.
    case = instance("logistic", 0)
    n, lr = len(case.y), 1 / case.beta
    w = torch.zeros_like(case.best)
    for step in case.program("spectral").run(case.X, case.y, steps=5, record="weights").history:
        summed = case.X.T @ (torch.sigmoid(case.X @ w) - case.y)
        w = w - icgd.GD(lr=lr).paper_lr(n) * summed
        assert float((w - step).norm()) < 1e-14
    # beta and alpha of the sum are n times those of the mean, so kappa and all bounds are the same.
    assert strongly_convex_bound(5, 0.0, (n * case.beta) / (n * case.alpha), 2.0) == pytest.approx(
        strongly_convex_bound(5, 0.0, case.beta / case.alpha, 2.0)
    )


def test_lasso_rate_is_met_up_to_a_constant():
    # One feature in two is nearly free: descent is slow, and the bound 1/L close to what happens.
    X = torch.tensor([[1.0, 0.0], [0.0, 0.1]], dtype=F64)
    y = torch.tensor([1.0, 1.0], dtype=F64)
    problem = icgd.Lasso(2, lam=1e-4)
    best = minimiser(problem, X, y)
    _, beta = problem.constants_on(X, 1.0)
    program = icgd.compile(problem, icgd.GD(lr=1 / beta), radius=4.0)
    check = icgd.verify(program, X, y, steps=100, probe_sets=0)
    ratios = [pgd_gap(r.step, beta, float(best.norm())) / r.distance for r in check.rounds]
    assert check.passed
    assert 1.0 <= min(ratios) < 10
    assert math.isclose(check.constants.beta, beta)
