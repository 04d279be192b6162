"""docs/errata_deep.md, D9 to D19: signals, the last layer, norms, whole runs, proofs, and scores."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from deep_oracle import (
    F64,
    activated,
    apart,
    compiled,
    gradient,
    norm_of,
    outputs,
    pairs,
    random_network,
    seeds,
)

from icgd.papers.deep.appendix_h import scores as deep_scores
from icgd.papers.deep.appendix_h import statements as deep_applications
from icgd.papers.deep.statements import paths as deep_paths
from icgd.papers.deep.statements import theorems as deep_theorems
from icgd.papers.deep.statements.bounds import (
    FitErrors,
    Setting,
    accumulated_error,
    column_bound,
    convergence_bound,
    gradient_error,
    printed_accumulated_error,
    printed_gradient_error,
    printed_signal_bounds,
    signal_bounds,
)
from icgd.papers.deep.statements.cases import Case, fits, make_case, packed, recursion, walk
from icgd.papers.deep.statements.norms import (
    forward_norm,
    loss_norm,
    printed_forward_norm,
    printed_loss_norm,
    printed_slope_norm,
    relu_units,
    relu_weight,
    slope_norm,
    wave_weight,
)
from icgd.transformer.gadgets.fits.relu_sum import fit_relu_sum

# -- D9: rows and columns -------------------------------------------------------------------------


@pytest.mark.parametrize("K", [4, 16, 25])
def test_signals_take_columns(K):
    last = torch.zeros(K, K, dtype=F64)
    last[:, 0] = 1.0
    V, x = [torch.eye(K, dtype=F64), last], torch.full((1, K), K**-0.5, dtype=F64)
    y = torch.full((1, K), -1.0, dtype=F64)
    # dl/dz_1 by autograd: a linear network, z_1 = V_1 x.
    z = (x @ V[0].T).requires_grad_(True)
    ((z @ V[1].T - y) ** 2).sum().backward()
    B_l = float((2 * (x @ V[0].T @ V[1].T - y)).abs().max())
    s = Setting(2, K, K, 1.0, 1.0, 1.0, 0.0, 2.0, 1.0, 1.0, B_l)
    assert float(z.grad.abs().max()) == pytest.approx(K * B_l)
    assert float(z.grad.abs().max()) > 1.9 * printed_signal_bounds(s).B_s
    assert float(z.grad.abs().max()) <= signal_bounds(s, column_bound(s)).B_s * (1 + 1e-12)


@seeds
@pytest.mark.parametrize("widths", [(4, 4, 4), (3, 5, 5, 5)])
def test_rows_give_another_gradient(seed, widths):
    V, X, Y = random_network(widths, seed)
    exact = gradient(V, X, Y, torch.tanh)
    made = [
        recursion(V, X, Y, torch.tanh, lambda z: 1 / torch.cosh(z) ** 2, rows=rows).gradient
        for rows in (False, True)
    ]
    assert apart(made[0], exact) < 1e-14
    assert apart(made[1], exact) > 1e-2


# -- D10, D11: the last layer, and norms ----------------------------------------------------------


@pytest.mark.parametrize("widths", [(2, 3, 2), (3, 4, 4, 3)])
def test_clearing_is_needed(widths):
    its = make_case(widths)
    assert deep_theorems.without_clearing(its, 2) > 0.05
    good = its.program(n_relu=129).run(its.X, its.Y, init=its.init, steps=2)
    assert apart([W for W, _ in good.weights], [W for W, _ in its.exact(2)[-1]]) < 1e-2


@pytest.mark.parametrize("hidden", [8, 64, 512])
def test_a_ball_is_not_piecewise_linear(hidden):
    # On the circle of radius 2 the projection on the unit disc is w/2: its curvature is the circle's,
    # and a layer of H units has at most 2H breaks on it, so some arc of pi/H has none.
    arc = math.pi / hidden
    chord_middle, arc_middle = math.cos(arc / 2), 1.0
    assert arc_middle - chord_middle > 0.9 * arc**2 / 8
    # Boxes are projected on exactly, with two units a weight.
    w = torch.linspace(-3, 3, 1001, dtype=F64)
    assert torch.equal(w - torch.relu(w - 1.5) + torch.relu(-w - 1.5), w.clamp(-1.5, 1.5))


@pytest.mark.parametrize(("K", "d"), [(2, 5), (1, 4)])
def test_norms_count_the_output_layer(K, d):
    its = make_case((2, K, d), box=0.01, scale=0.005, lr=1e-9)
    program = its.program(n_relu=17, radius=1.0, knots="uniform")
    norms = deep_theorems.layer_norms(program)
    value, slope = fits("tanh", 1.0, 17)
    assert norms["forward2"] > printed_forward_norm(K, value.C)
    assert norms["forward2"] <= forward_norm(d, value.C) * (1 + 1e-12)
    assert norms["slopes"] > printed_slope_norm(2, K, slope.C)
    assert norms["slopes"] <= slope_norm(2, K, d, slope.C) * (1 + 1e-12)
    gate = program.config["options"]["gate"]
    assert norms["loss"] > printed_loss_norm(gate, 8 * d)
    assert norms["loss"] <= loss_norm(2 * d, gate, 4.0)
    # O(eta) + C_w + 1 with eta = 1e-9.
    assert max(norms["forward2"], norms["slopes"]) > norms["end"] + 1 + 1e-6


@pytest.mark.parametrize(("K", "d"), [(2, 5), (2, 8), (3, 6)])
def test_norms_by_another_scale(K, d):
    """Lemmas 2 and 3 say that layers of such a norm exist: the same heads, scaled, are such layers."""
    its = make_case((2, K, d), box=0.01, scale=0.005)
    program = its.program(n_relu=17, radius=1.0, knots="uniform")
    value, slope = fits("tanh", 1.0, 17)
    scaled = [deep_theorems.layer_norms(program, scale) for scale in (1.0, 2.0, 4.0)]
    assert min(norms["forward2"] for norms in scaled) <= printed_forward_norm(K, value.C)
    assert min(norms["slopes"] for norms in scaled) <= printed_slope_norm(2, K, slope.C)
    # Scaling by powers of two changes no bit of what a layer computes.
    layer = dict(program.step.each())["slopes"]
    tokens = packed(program, its)
    for family in layer.each():
        Q, V_key, V = family.matrices(range(family.n_heads), tokens.shape[-1])
        plain = torch.relu((tokens @ Q.mT) @ (tokens @ V_key.mT).mT) @ (tokens @ V.mT)
        again = torch.relu((tokens @ (4 * Q).mT) @ (tokens @ (4 * V_key).mT).mT) @ (
            tokens @ (V / 16).mT
        )
        assert torch.equal(plain, again)


def test_prediction_takes_layers_of_its_own():
    program = compiled(activated((3, 4, 4, 3)), n_relu=9)
    assert program.step.n_layers == 10
    assert program.readout.n_layers == 3


# -- D12, D18: whole runs -------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "lr"), [(1, 4.0), (2, 10.0)])
def test_accumulation_depends_on_the_step_size(n, lr):
    # f = -w^2/2: errors grow by 1 + eta a step, whatever the number of examples.
    eps, w, exact = 1e-3, 0.0, 0.0
    for step in range(1, 6):
        w, exact = w + lr * (w + eps), exact + lr * exact
        assert abs(w - exact) > printed_accumulated_error(step, eps, n, 1.0)
        assert abs(w - exact) <= accumulated_error(step, eps, lr, 1.0) * (1 + 1e-12)


@seeds
def test_one_step_is_off_by_eta_eps(seed):
    V, X, Y = random_network((2, 2, 1), seed, n=1)
    lr = 20.0
    run = compiled(activated((2, 2, 1)), lr, 1e3, n_relu=33).run(X, Y, init=pairs(V), steps=1)
    exact = [W - lr * g for W, g in zip(V, gradient(V, X, Y, torch.tanh), strict=True)]
    off = norm_of([W for W, _ in run.weights], exact)
    # The Hessian at one point bounds L_f from below, and the printed (1/L_f + 1) eps from above.
    its = Case(activated((2, 2, 1)), X, Y, pairs(V), lr, 1e3)
    eps, L_f = off / lr, deep_paths.hessian_norm(its, V)
    assert off > printed_accumulated_error(1, eps, 1, L_f)
    assert off <= accumulated_error(1, eps, lr, L_f) * (1 + 1e-12)


def test_one_weight_is_refuted_by_its_own_constants():
    """A secant of the path (0.10) would not refute the printed bound; sup |f'| and sup |f''| do."""
    its = make_case((1, 1), n=1, lr=10.0, box=100.0)
    steep, bend = deep_paths.one_weight_slopes(its)
    w = torch.linspace(-8, 8, 401, dtype=F64)
    x, y, t = its.X[0, 0], its.Y[0, 0], torch.tanh(w * its.X[0, 0])
    slope = x * (t - y) * (1 - t**2)
    second = x**2 * (1 - t**2) * (1 + 2 * y * t - 3 * t**2)
    assert steep == pytest.approx(float(slope.abs().max()), rel=1e-3)
    assert bend == pytest.approx(float(second.abs().max()), rel=1e-3)
    done = walk(its, its.program(n_relu=65, knots="uniform"), 1)
    eps = deep_paths.gradient_errors(its, done)[0]
    for L in (steep, bend):
        assert 10 * eps > 2 * printed_accumulated_error(1, eps, 1, L)
    assert 10 * eps < printed_accumulated_error(1, eps, 1, deep_paths.lipschitz_along(its, done))


# -- L_f: from above, by autograd and by differences ----------------------------------------------


@seeds
def test_hessian_norm_is_the_largest_second_difference(seed):
    its = make_case((2, 3, 2), seed=seed)
    norm = deep_paths.hessian_norm(its, its.matrices)
    g, h, seen = torch.Generator().manual_seed(seed), 1e-4, []
    for _ in range(300):
        u = [torch.randn(W.shape, generator=g, dtype=F64) for W in its.matrices]
        size = math.sqrt(sum(float(p.square().sum()) for p in u))
        moves = [h * p / size for p in u]
        up, down = (
            gradient(
                [W + s * m for W, m in zip(its.matrices, moves, strict=True)],
                its.X,
                its.Y,
                torch.tanh,
            )
            for s in (1, -1)
        )
        seen.append(norm_of(up, down) / (2 * h))
    assert 0.3 * norm < max(seen) <= norm * (1 + 1e-5)


@seeds
@pytest.mark.parametrize("widths", [(3, 3), (5, 2), (1, 1)])
def test_the_lipschitz_constant_of_one_layer_holds_everywhere(seed, widths):
    its = make_case(widths, seed=seed)
    L_f, g = deep_paths.one_layer_lipschitz(its), torch.Generator().manual_seed(seed)
    norms = [
        deep_paths.hessian_norm(
            its, [size * torch.randn(*reversed(widths), generator=g, dtype=F64)]
        )
        for size in (0.0, 0.1, 0.5, 1.0, 3.0)
        for _ in range(10)
    ]
    assert max(norms) <= L_f
    assert L_f < 5 * max(norms)


@pytest.mark.parametrize(("seed", "box"), [(4, 1.5), (5, 1.5), (6, 0.1), (7, 0.05)])
def test_convergence_of_stacks_inside_the_hypothesis(seed, box):
    """eta = 1/L_f with an L_f that no point of W exceeds, where the secants of a path prove nothing."""
    its = make_case((3, 3), seed=seed, box=box)
    its = replace(its, lr=1 / deep_paths.one_layer_lipschitz(its))
    mean, bound, path = deep_paths.convergence(its, 30, n_relu=65, knots="uniform", radius=8.0)
    assert mean <= bound
    assert its.lr * deep_paths.bend_along(its, path) <= 1
    # A rate ten times as large is outside the hypothesis.
    assert 10 * its.lr * deep_paths.one_layer_lipschitz(its) > 1


def test_secants_are_no_lipschitz_constant():
    """The path of the old row: eta L = 0.96 by secants, above 1 by the Hessian at its own points."""
    its = make_case((3, 4, 4, 3), box=100.0, lr=0.25)
    done = walk(its, its.program(n_relu=65, knots="uniform", radius=8.0), 40)
    assert its.lr * deep_paths.lipschitz_along(its, done) < 1
    assert its.lr * deep_paths.hessian_norm(its, [W for W, _ in done.weights[-1]]) > 1.2


@pytest.mark.parametrize("steps", [50, 1000])
def test_convergence_needs_a_small_step(steps):
    mean, told = deep_paths.alternating(steps)
    assert mean > 1.5 * told


@seeds
@pytest.mark.parametrize("eps", [0.0, 1e-2, 0.3])
def test_convergence_with_its_constants(seed, eps):
    """Projected descent with errors of size eta eps on a bent function; the mean takes l = 0..L-1."""
    g = torch.Generator().manual_seed(seed)
    A = torch.randn(4, 4, generator=g, dtype=F64)
    H = A @ A.T - 0.5 * torch.eye(4, dtype=F64)  # not convex
    L_f = float(torch.linalg.eigvalsh(H).abs().max())
    lr, w, b = (
        1 / L_f,
        torch.randn(4, generator=g, dtype=F64).clamp(-1, 1),
        torch.ones(4, dtype=F64),
    )
    grid = torch.cartesian_prod(*[torch.linspace(-1, 1, 21, dtype=F64)] * 4)

    def f(v):
        return 0.5 * ((v @ H) * v).sum(-1) - v @ b

    # No point of the box is farther than 0.1 from the grid, where |grad f| <= 2 L_f + 2.
    lowest = float(f(grid).min()) - 0.1 * (2 * L_f + 2)
    start, squares = float(f(w)), []
    for step in range(1, 60):
        slope = H @ w - b
        squares.append(float((((w - (w - lr * slope).clamp(-1, 1)) / lr) ** 2).sum()))
        noise = torch.randn(4, generator=g, dtype=F64)
        w = (w - lr * slope + lr * eps * noise / noise.norm()).clamp(-1, 1)
        assert sum(squares) / step <= convergence_bound(step, lr, eps, start - lowest)


@pytest.mark.parametrize("L", [2, 10, 1000])
def test_a_mean_of_fewer_terms(L):
    """f(w) = w: |G| = 1 at every step, and L - 1 ones divided by L are below their minimum."""
    squares, w = [], 0.0
    for _ in range(L):
        new = w - 0.1
        squares.append(((w - new) / 0.1) ** 2)
        w = new
    assert min(squares[1:]) > sum(squares[1:]) / L * (1 + 1e-6)
    assert min(squares) <= sum(squares) / L * (1 + 1e-9)


# -- D14 to D17: definitions and proofs -----------------------------------------------------------


@seeds
def test_matrix_form_of_attention_exchanges_the_roles(seed):
    g = torch.Generator().manual_seed(seed)
    H, Q, K, V = (torch.randn(4, n, generator=g, dtype=F64) for n in (6, 4, 4, 4))
    matrix = (V @ H) @ torch.relu((Q @ H).T @ (K @ H))
    vector = torch.stack(
        [
            sum(torch.relu((Q @ H[:, i]) @ (K @ H[:, s])) * (V @ H[:, s]) for s in range(6))
            for i in range(6)
        ],
        dim=1,
    )
    swapped = (V @ H) @ torch.relu((K @ H).T @ (Q @ H))
    assert float((matrix - vector).abs().max()) > 0.1
    assert float((swapped - vector).abs().max()) < 1e-12


@pytest.mark.parametrize("frequency", [50.0, 200.0, 400.0])
def test_one_derivative_is_not_enough(frequency):
    """sin(wt)/w has C_l = 1 for s = 1; the weight any fit needs grows with w, and ours obeys it."""
    assert wave_weight(frequency) > 0.35 * frequency
    fit = fit_relu_sum(
        lambda t: torch.sin(frequency * t) / frequency,
        1.0,
        int(4 * frequency),
        second=frequency,
        third=frequency**2,
    )
    assert fit.certificate.sup_error < 0.5 / frequency
    assert fit.C >= wave_weight(frequency) > 7 * 1.0
    assert relu_weight(frequency) >= fit.C  # with s = 2 the constant is C_l = w


@pytest.mark.parametrize("eps", [1e-2, 1e-4, 1e-6])
def test_units_by_the_square_root(eps):
    for f, bounds in ((torch.tanh, (1.0, 0.77)), (torch.sigmoid, (0.25, 0.0963))):
        R = 4.0
        C_l = max(1.0, R * bounds[0], R * R * bounds[1])
        fit = fit_relu_sum(f, R, relu_units(eps, C_l) - 1, second=bounds[1], third=2.0)
        t = torch.linspace(-R, R, 9001, dtype=F64)
        assert float((fit(t) - f(t)).abs().max()) <= eps
        assert relu_weight(C_l) >= fit.C


@seeds
def test_slips_of_proofs(seed):
    V, X, _ = random_network((4, 4, 4, 4), seed)
    p = outputs(V, X, torch.tanh)
    assert apart([torch.tanh(p[-3] @ V[-1].T)], [p[-1]]) > 0.1  # D.1: p(N-2)
    # (D.3): I_K has K rows, V_N has d.
    wide = random_network((3, 4, 4, 2), seed)[0]
    assert torch.kron(torch.eye(4), torch.ones(1, 4)).shape[0] != len(wide[-1])
    # D.5: a ReLU around V^T s loses what is negative.
    s = torch.randn(10, 4, generator=torch.Generator().manual_seed(seed), dtype=F64)
    assert apart([torch.relu(s @ V[-1])], [s @ V[-1]]) > 0.1


@pytest.mark.parametrize("K", [25, 64, 144])
def test_gradient_error_needs_the_whole_norm(K):
    made, told, ours = deep_theorems.constant_case(K)
    assert told < made <= ours
    # The same by an oracle of our own: r = 1 + t/100, targets moved by half the shift.
    c, shift = 0.01, 2.0**-10
    V = [torch.full((K, K), 0.5 / math.sqrt(K), dtype=F64) for _ in range(2)]
    x = torch.full((1, K), 1 / math.sqrt(K), dtype=F64)
    r = lambda t: 1 + c * t  # noqa: E731
    exact = gradient(V, x, 0 * x, r)
    moved = gradient(V, x, 0 * x - shift / 2, r)
    assert norm_of(exact, moved) == pytest.approx(made, rel=1e-9)
    p = outputs(V, x, r)[1]
    B_r = float(p.abs().max())
    assert float(p.norm()) == pytest.approx(math.sqrt(K) * B_r)
    assert float(p.norm()) > 2 * K**0.25 * B_r  # sqrt(P) B_r
    s = Setting(2, K, K, 0.5, 1.0, c, 0.0, 2.0, 1.02, c, 2.05)
    eps = FitErrors(loss=shift)
    assert printed_gradient_error(s, eps) < made <= gradient_error(s, eps)


# -- D19: scores ----------------------------------------------------------------------------------


def test_the_score_is_the_gradient_of_the_log_density():
    centres = torch.tensor(deep_applications.CENTRES, dtype=F64)
    g = torch.Generator().manual_seed(0)
    x = torch.randn(20, 2, generator=g, dtype=F64).requires_grad_(True)
    for t in (0.15, 0.7, 1.5):
        a = math.exp(-t / 2)
        var = a * a * deep_applications.SPREAD**2 + 1 - a * a
        log_p = torch.logsumexp(-((x.unsqueeze(1) - a * centres) ** 2).sum(-1) / (2 * var), dim=1)
        (exact,) = torch.autograd.grad(log_p.sum(), x)
        made = deep_applications.mixture_score(x.detach(), torch.full((20,), t, dtype=F64), centres)
        assert apart([made], [exact]) < 1e-12


@pytest.mark.parametrize("width", [4, 8])
def test_scores_need_a_linear_output(width):
    its = deep_applications.score_case(24, width)
    assert bool((its.Y < 0).any())
    assert float(4 * its.Y.abs().max()) > 1
    run = its.program(n_relu=129, radius=8.0).run(its.X, its.Y, init=its.init, steps=10)
    V = its.matrices

    def network(leaves, X):
        for W in leaves[:-1]:
            X = torch.tanh(X @ W.T)
        return X @ leaves[-1].T

    for _ in range(10):
        leaves = [W.clone().requires_grad_(True) for W in V]
        loss = ((network(leaves, its.X) - its.Y) ** 2).sum() / (2 * len(its.X))
        V = [W - its.lr * g for W, g in zip(V, torch.autograd.grad(loss, leaves), strict=True)]
    assert apart([W for W, _ in run.weights], V) < 1e-3


@pytest.mark.parametrize("D", [1, 2, 3])
def test_hats_are_a_partition_of_unity(D):
    points = torch.rand(200, D, generator=torch.Generator().manual_seed(1), dtype=F64)
    nodes = [torch.tensor(node, dtype=F64) for node in product(range(-1, 3), repeat=D)]
    total = sum(deep_scores.hat(points - node) for node in nodes)
    assert apart([total], [torch.ones(200, dtype=F64)]) < 1e-14
    slope = torch.tensor([2.0, -3.0, 0.5][:D], dtype=F64)
    linear = sum((node @ slope) * deep_scores.hat(points - node) for node in nodes)
    assert apart([linear], [points @ slope]) < 1e-14
    # The cell's own nodes are enough.
    made = deep_scores.interpolant(
        lambda p: (p @ slope).unsqueeze(1), points, [0.25] * D, [1.0] * D
    )
    assert apart([made.squeeze(1)], [points @ slope]) < 1e-14


@seeds
@pytest.mark.parametrize("d", [1, 2])
def test_networks_for_scores_of_random_mixtures(seed, d):
    """The error falls with eps, and the number of hats grows by 4^(d+1) for a quarter of it at most."""
    coarse, fine = (deep_applications.score_network_error(d, 10 + seed, eps) for eps in (0.2, 0.05))
    assert fine[0] < coarse[0] <= 0.2
    assert fine[0] <= 0.05
    assert fine[1] == pytest.approx(coarse[1] * 4 ** ((d + 1) / 2))


def test_interpolation_within_its_rule():
    """1/2 sum h_i h_j |f_ij| bounds the error for a function whose second derivatives are known."""
    H = torch.tensor([[3.0, -1.0, 0.5], [-1.0, 2.0, 1.0], [0.5, 1.0, 4.0]], dtype=F64)

    def f(p):
        return ((p @ H) * p).sum(-1, keepdim=True) / 2

    points = 2 * torch.rand(5000, 3, generator=torch.Generator().manual_seed(0), dtype=F64) - 1
    bends = deep_scores.second_derivatives(f, points)
    assert apart([bends], [H.abs()]) < 1e-12
    steps = deep_scores.steps_for(0.1, bends, 1)
    error = float((deep_scores.interpolant(f, points, steps, [1.0] * 3) - f(points)).abs().max())
    assert 0.01 < error <= 0.1
