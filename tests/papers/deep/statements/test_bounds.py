"""Bounds of [DEEP] as plain numbers: against sums written out, against each other, and as limits."""

from __future__ import annotations

import math

import pytest

from icgd.papers.deep.statements.bounds import (
    FitErrors,
    Setting,
    accumulated_error,
    column_bound,
    convergence_bound,
    forward_error,
    forward_radius,
    forward_ranges,
    gradient_error,
    loss_error,
    loss_radius,
    printed_accumulated_error,
    printed_fit_errors,
    printed_forward_radius,
    printed_gradient_error,
    printed_loss_radius,
    printed_output_bounds,
    printed_signal_bounds,
    printed_slope_radius,
    signal_bounds,
    slope_error,
)
from icgd.papers.deep.statements.norms import (
    forward_norm,
    loss_norm,
    n_activations,
    printed_forward_norm,
    printed_loss_norm,
    printed_relu_units,
    printed_slope_norm,
    printed_smoothness,
    printed_stack_norm,
    printed_update_norm,
    relu_units,
    relu_weight,
    slope_norm,
    smoothness,
    update_norm,
    wave_weight,
)


def setting(**changes):
    given = {
        "n_layers": 3,
        "width": 4,
        "d": 3,
        "B_v": 1.5,
        "B_x": 2.0,
        "L_r": 1.0,
        "L_slope": 0.77,
        "L_loss": 2.0,
        "B_r": 1.0,
        "B_slope": 1.0,
        "B_loss": 3.0,
    }
    return Setting(**{**given, **changes})


def identity(z):
    return z


# -- ranges ---------------------------------------------------------------------------------------


def test_ranges_of_a_linear_network():
    # |z_j| grows by B_v sqrt(K) a layer; the printed recursion by B_v.
    ranges, bounds = forward_ranges(3, 9, 2.0, 1.0, identity)
    assert ranges == bounds == [2.0, 12.0, 72.0]
    assert printed_output_bounds(3, 2.0, 1.0, identity) == [1.0, 2.0, 4.0, 8.0]
    assert printed_forward_radius(3, 2.0, 1.0, identity) == 16.0
    assert forward_radius(3, 9, 2.0, 1.0, identity) == 72.0


@pytest.mark.parametrize("size", [math.tanh, identity, lambda z: z + math.log1p(math.exp(-z))])
@pytest.mark.parametrize("B_v", [0.3, 1.0, 2.5])
def test_width_one_needs_no_factor(size, B_v):
    ours = forward_radius(3, 1, B_v, 2.0, size)
    assert ours <= printed_forward_radius(3, B_v, 2.0, size)
    assert forward_radius(3, 4, B_v, 2.0, size) >= ours


def test_errors_of_fits_widen_the_range():
    plain = forward_ranges(3, 4, 1.5, 2.0, math.tanh)[0]
    wider = forward_ranges(3, 4, 1.5, 2.0, math.tanh, 0.1)[0]
    assert wider[0] == plain[0]
    assert all(b - a >= 0.1 * 1.5 * 2 for a, b in zip(plain[1:], wider[1:], strict=True))


def test_radii_are_never_below_one():
    assert forward_radius(2, 2, 0.01, 0.01, math.tanh) == 1.0
    assert printed_slope_radius(2, 0.01, 0.01, math.tanh) == 1.0
    assert loss_radius(0.2, 0.3) == printed_loss_radius(0.1, 0.2, 0.3) == 1.0
    assert loss_radius(5.0, 2.0) == 5.0 > printed_loss_radius(0.5, 5.0, 2.0)


# -- errors ---------------------------------------------------------------------------------------


def test_forward_error_is_its_recursion():
    s, entry, growth = setting(), 0.0, 0.0
    for j in (1, 2, 3):
        entry = 1.0 + s.L_r * s.B_v * growth  # of an entry, in units of eps_r
        growth = entry * math.sqrt(s.width)
        expected = entry * math.sqrt(s.d if j == 3 else s.width)
        assert forward_error(s, j) == pytest.approx(expected, rel=1e-14)
    assert s.E_r == max(forward_error(s, j) for j in (1, 2, 3))


def test_slope_and_loss_errors():
    s, eps = setting(), FitErrors(0.01, 0.02, 0.03)
    assert slope_error(s, eps) == pytest.approx(0.02 + 0.77 * 1.5 * s.E_r * 0.01)
    assert loss_error(s, eps) == pytest.approx(0.03 + 2 * s.E_r * 0.01)
    assert slope_error(s, FitErrors()) == loss_error(s, FitErrors()) == 0.0


@pytest.mark.parametrize("n_layers", [1, 2, 3, 5])
@pytest.mark.parametrize("column", [0.2, 1.5, 3.0])
def test_signal_bounds_are_their_recursion(n_layers, column):
    s, eps = setting(n_layers=n_layers), FitErrors(0.01, 0.02, 0.03)
    slope, loss = slope_error(s, eps), loss_error(s, eps)
    bounds = signal_bounds(s, column)
    sizes, error = [s.B_slope * s.B_loss], slope * s.B_loss + s.B_slope * loss
    errors = [error]
    for _ in range(n_layers - 1):
        sizes.append(s.B_slope * column * s.P * sizes[-1])
        error = slope * column * s.P * bounds.B_s + s.B_slope * column * s.P * error
        errors.append(error)
    assert bounds.B_s == pytest.approx(max(sizes), rel=1e-13)
    # The lemma takes the largest coefficient of each error on its own.
    assert bounds.error(eps) >= max(errors) * (1 - 1e-13)
    only = FitErrors(loss=0.03)
    last = s.B_slope * 0.03 * max(1, (s.B_slope * column * s.P) ** (n_layers - 1))
    assert bounds.error(only) == pytest.approx(last, rel=1e-13)


def test_printed_signals_take_rows_for_columns():
    s = setting(n_layers=2, width=16, d=16)
    ours, told = signal_bounds(s, column_bound(s)), printed_signal_bounds(s)
    assert column_bound(s) == 4 * s.B_v
    assert ours.B_s == pytest.approx(4 * told.B_s)
    assert ours.loss == pytest.approx(4 * told.loss)
    # One layer has no V^T s.
    one = setting(n_layers=1)
    assert signal_bounds(one, column_bound(one)) == printed_signal_bounds(one)


def test_gradient_errors():
    eps = FitErrors(loss=1e-3)
    s = setting(n_layers=2, width=64, d=64, B_v=0.01, B_x=0.5)
    told, ours = printed_gradient_error(s, eps), gradient_error(s, eps, s.B_v)
    assert ours / told == pytest.approx(math.sqrt(8) / math.sqrt(2))
    assert gradient_error(s, eps) == ours  # signals of the last layer are the largest here
    # |x| counts where it is larger than P B_r.
    far = setting(n_layers=1, width=1, d=1, B_x=100.0)
    assert gradient_error(far, eps) == pytest.approx(0.5 * 100 * far.B_slope * 1e-3)


@pytest.mark.parametrize("eps", [1.0, 1e-3])
def test_printed_choice_of_fits_meets_the_printed_bound(eps):
    s = setting()
    picked = printed_fit_errors(s, eps)
    assert printed_gradient_error(s, picked) == pytest.approx(eps, rel=1e-12)
    assert gradient_error(s, picked) > eps


# -- runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lr", [0.01, 0.5, 4.0])
def test_accumulated_error_is_its_recursion(lr):
    error, L_f, eps = 0.0, 1.7, 1e-4
    for step in range(1, 12):
        error = (1 + lr * L_f) * error + lr * eps
        assert accumulated_error(step, eps, lr, L_f) == pytest.approx(error, rel=1e-12)
    assert accumulated_error(0, eps, lr, L_f) == 0.0


def test_printed_accumulation_is_above_only_for_many_examples():
    for lr, n, below in ((0.5, 20, True), (10.0, 1, False)):
        ours, told = accumulated_error(3, 1e-3, lr, 1.0), printed_accumulated_error(3, 1e-3, n, 1.0)
        assert (ours <= told) == below


def test_convergence_bound():
    assert convergence_bound(10, 0.5, 0.1, 2.0) == pytest.approx(8 * 2 / 5 + 0.1)
    assert convergence_bound(10**9, 0.5, 0.0, 2.0) < 1e-7


# -- norms and units ------------------------------------------------------------------------------


def test_norms():
    assert forward_norm(3, 2.0) == printed_forward_norm(3, 2.0) == 7.0
    assert n_activations(3, 4, 3) == 11
    assert slope_norm(3, 4, 3, 2.0) == 23.0 > printed_slope_norm(3, 4, 2.0) == 17.0
    assert printed_loss_norm(4.0, 7.0) == 7.0
    assert loss_norm(6, 4.0, 2.0) == 32.0
    assert update_norm(0.5, 11, 1.1) == pytest.approx(1 + 0.5 * 12.1)
    assert update_norm(0.5, n_activations(3, 4, 3), 2.0) <= printed_update_norm(0.5, 3, 4)
    assert update_norm(0.5, n_activations(2, 1, 5), 2.0) > printed_update_norm(0.5, 2, 1)
    assert printed_stack_norm(3.0) == 4.0


def test_smoothness_is_what_the_lemmas_speak_of():
    assert [smoothness(k) for k in (1, 2, 3, 4)] == [2, 3, 3, 4]
    assert all(smoothness(k) == printed_smoothness(k) + 1 for k in range(1, 9))


def test_units():
    assert relu_units(1e-2, 2.0) == 11
    assert [relu_units(10.0**-e, 2.0) - 1 for e in (2, 4, 6)] == [10, 100, 1000]
    assert printed_relu_units(1e-2, 2.0) > 1e5 * 2
    assert relu_weight(2.0) == 14.0


@pytest.mark.parametrize("frequency", [1.0, 10.0, 31.4, 500.0])
def test_wave_weight_counts_extremes(frequency):
    extremes = sum(abs((math.pi / 2 + m * math.pi) / frequency) <= 1 for m in range(-1000, 1000))
    assert wave_weight(frequency) == pytest.approx(max(0, extremes - 2) * 2 / math.pi)
