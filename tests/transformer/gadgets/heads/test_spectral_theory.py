"""The spectral head on paper: whatever is measured stays below what is certified."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.transformer.gadgets.heads.spectral_theory import (
    HARD_SHARPNESS,
    gaussian_moments,
    grid_for_error,
    grid_violations,
    head_error,
    make_geometry,
    min_grid,
    paper_tokens_for,
)
from icgd.transformer.nn.attention import attention

RHO, MARGIN = 1.4, 8.25
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24}

dtypes = st.sampled_from([torch.float64, torch.float32])
temperatures = st.sampled_from(["spectral", "hard"])
radii = st.floats(-3, 6).map(lambda e: 10.0**e)
fractions = st.floats(-1, 1)


def read(g, s):
    """The literal head: softmax over the grid tokens of [s, 1] against [2 beta L, -beta L^2]."""
    level = torch.tensor(g.levels(), dtype=torch.float64)
    keys = torch.stack([2 * g.beta * level, -g.beta * level * level], dim=-1).to(s.dtype)
    query = torch.stack([s, torch.ones_like(s)], dim=-1)
    return attention(query, keys, level.to(s.dtype).unsqueeze(-1)).squeeze(-1)


def within(s, radius):
    """Queries in their own precision, none rounded out of the range."""
    while bool((s.double().abs() > radius).any()):
        s = torch.where(s.double().abs() > radius, torch.nextafter(s, torch.zeros_like(s)), s)
    return s


def queries(g, dtype, more=()):
    """A sweep of the range with both ends, zero, and in hard mode the ties between levels."""
    level = torch.tensor(sorted(g.levels()), dtype=torch.float64)
    inner = level[level.abs() <= g.radius]
    ties = (inner[1:] + inner[:-1]) / 2
    sweep = torch.linspace(-g.radius, g.radius, 201, dtype=torch.float64)
    own = torch.tensor([0.0, g.radius, -g.radius, *more], dtype=torch.float64)
    return within(torch.cat([sweep, inner, ties, own]).to(dtype), g.radius)


# -- measured <= certified ------------------------------------------------------------------------


@given(st.integers(28, 64), radii, temperatures, dtypes, st.lists(fractions, max_size=5))
@example(32, 1.0, "spectral", torch.float64, [])
@example(32, 1.0, "spectral", torch.float32, [])
@example(28, 1e6, "spectral", torch.float64, [1.0])
@example(64, 1e-3, "hard", torch.float32, [-1.0])
def test_the_pointwise_bound_holds_everywhere_and_at_the_edge(
    n_grid, radius, temperature, dtype, more
):
    g = make_geometry(n_grid, RHO, MARGIN, radius, temperature)
    s = queries(g, dtype, [radius * f for f in more])
    measured = (read(g, s).double() - s.double()).abs()
    certified = [head_error(g, float(x), UNIT[dtype]) for x in s]
    assert bool((measured <= torch.tensor(certified, dtype=torch.float64)).all())
    assert float(measured.max()) <= head_error(g, radius, UNIT[dtype])


@given(
    st.floats(0.5, 1.6),
    st.floats(3.0, 9.0),
    st.integers(0, 40),
    radii,
    dtypes,
    st.lists(fractions, max_size=5),
)
def test_the_bound_holds_for_any_kernel_width_and_margin(rho, margin, extra, radius, dtype, more):
    g = make_geometry(min_grid(rho, margin) + extra, rho, margin, radius, "spectral")
    s = queries(g, dtype, [radius * f for f in more])
    measured = (read(g, s).double() - s.double()).abs()
    bound = torch.tensor([head_error(g, float(x), UNIT[dtype]) for x in s], dtype=torch.float64)
    assert bool((measured <= bound).all())


@given(st.integers(2, 64), radii, st.lists(fractions, max_size=5))
def test_the_bound_of_a_coarse_hard_grid_holds(n_grid, radius, more):
    g = make_geometry(n_grid, RHO, MARGIN, radius, "hard")
    s = queries(g, torch.float64, [radius * f for f in more])
    assert float((read(g, s) - s).abs().max()) <= head_error(g, radius, UNIT[torch.float64])


@given(st.integers(1, 6), st.integers(28, 64), radii, dtypes, st.integers(0, 2**32), temperatures)
def test_the_dot_head_pays_for_its_terms(n_terms, n_grid, radius, dtype, seed, temperature):
    """Keys carry w, the query carries x; the certificate counts n_terms and sum |w_i x_i|."""
    g = make_geometry(n_grid, RHO, MARGIN, radius, temperature)
    generator = torch.Generator().manual_seed(seed)
    w, x = torch.randn(2, n_terms, generator=generator, dtype=torch.float64)
    share = 0.99 * float(torch.rand(1, generator=generator, dtype=torch.float64))
    w = (w * radius * share / (w * x).abs().sum()).to(dtype)
    x = x.to(dtype)
    level = torch.tensor(g.levels(), dtype=torch.float64)
    slope, rest = (2 * g.beta * level).to(dtype), (-g.beta * level * level).to(dtype)
    keys = torch.cat([slope[:, None] * w, rest[:, None]], dim=-1)
    query = torch.cat([x, torch.ones(1, dtype=dtype)])[None]
    got = attention(query, keys, level.to(dtype)[:, None]).double().item()
    size = float((w.double() * x.double()).abs().sum())
    assert abs(got - float(w.double() @ x.double())) <= head_error(g, size, UNIT[dtype], n_terms)


@given(radii)
@example(1.0)
def test_thirty_two_tokens_are_certified_to_machine_precision(radius):
    g = make_geometry(32, RHO, MARGIN, radius, "spectral")
    assert head_error(g, radius, UNIT[torch.float64]) <= 1e-13 * g.half_width


@given(st.integers(28, 64), temperatures, st.floats(-4, 4))
def test_the_bound_scales_with_the_radius(n_grid, temperature, exponent):
    """The head has no scale of its own: error / radius depends on the grid only."""
    scale = 2.0 ** round(exponent)
    one, other = (make_geometry(n_grid, RHO, MARGIN, r, temperature) for r in (1.0, scale))
    u = UNIT[torch.float64]
    assert math.isclose(head_error(other, scale, u), scale * head_error(one, 1.0, u), rel_tol=1e-12)


@given(st.integers(28, 64), radii, temperatures, fractions, fractions)
def test_the_bound_grows_with_the_query(n_grid, radius, temperature, a, b):
    g = make_geometry(n_grid, RHO, MARGIN, radius, temperature)
    small, large = sorted((abs(a) * radius, abs(b) * radius))
    u = UNIT[torch.float64]
    assert head_error(g, small, u) <= head_error(g, -large, u) <= head_error(g, radius, u)


@pytest.mark.parametrize("temperature", ["spectral", "hard"])
def test_nothing_is_promised_outside_the_range(temperature):
    g = make_geometry(32, RHO, MARGIN, 4.0, temperature)
    assert math.isinf(head_error(g, 4.0001, UNIT[torch.float64]))
    assert math.isinf(head_error(g, -5.0, UNIT[torch.float64]))
    assert math.isfinite(head_error(g, -4.0, UNIT[torch.float64]))


def test_the_bound_is_not_idle():
    """Where the kernel is too narrow the measured error comes within a factor of two of the bound."""
    g = make_geometry(40, 0.8, MARGIN, 1.0, "spectral")
    s = torch.linspace(-1, 1, 4001, dtype=torch.float64)
    measured = float((read(g, s) - s).abs().max())
    assert 1e-7 < measured <= head_error(g, 1.0, UNIT[torch.float64]) <= 2 * measured


# -- hard mode ------------------------------------------------------------------------------------


@given(st.integers(2, 64), radii)
def test_hard_mode_follows_half_a_spacing(n_grid, radius):
    """The certificate is half a spacing up to the leak at a tie, and a tie's neighbour reaches it."""
    g = make_geometry(n_grid, RHO, MARGIN, radius, "hard")
    half = g.spacing / 2
    certified = head_error(g, radius, UNIT[torch.float64])
    assert half <= certified <= 1.0001 * half
    tie = g.levels()[-1] + half  # between the outermost level and the next one
    s = torch.tensor([tie + 0.2 * half, tie - 0.2 * half], dtype=torch.float64)
    measured = (read(g, s) - s).abs()
    assert bool((measured >= 0.75 * half).all())
    assert bool((measured <= certified).all())


def test_hard_mode_reads_the_nearest_level():
    g = make_geometry(16, RHO, MARGIN, 8.0, "hard")
    level = torch.tensor(g.levels(), dtype=torch.float64)
    s = torch.linspace(-8, 8, 1001, dtype=torch.float64)
    gaps = (s[:, None] - level).abs().sort(dim=-1)
    clear = gaps.values[:, 1] - gaps.values[:, 0] > 0.9 * g.spacing
    nearest = level[gaps.indices[:, 0]]
    leak = g.spacing * math.exp(-0.85 * HARD_SHARPNESS)
    assert int(clear.sum()) > 50
    assert float((read(g, s) - nearest)[clear].abs().max()) <= leak


def test_hard_mode_needs_the_papers_number_of_tokens():
    for n_grid in (16, 64, 1024):
        g = make_geometry(n_grid, RHO, MARGIN, 1.0, "hard")
        assert math.isclose(paper_tokens_for(g.spacing / 2, 1.0), n_grid, rel_tol=1e-9)


# -- geometry -------------------------------------------------------------------------------------


@given(st.integers(2, 200), radii, temperatures)
def test_levels_are_symmetric_to_the_bit_in_pairs_from_the_inside_out(n_grid, radius, temperature):
    assume(temperature == "hard" or n_grid >= min_grid(RHO, MARGIN))
    g = make_geometry(n_grid, RHO, MARGIN, radius, temperature)
    levels = g.levels()
    assert len(levels) == n_grid
    if n_grid % 2:
        assert levels.pop(0) == 0.0
    plus, minus = levels[::2], levels[1::2]
    assert plus == [-x for x in minus]
    assert all(x > 0 for x in plus)
    assert plus == sorted(plus)
    gaps = [b - a for a, b in zip(sorted(g.levels()), sorted(g.levels())[1:], strict=False)]
    assert max(abs(gap - g.spacing) for gap in gaps) <= 4 * UNIT[torch.float64] * g.half_width
    assert math.isclose(plus[-1], g.half_width, rel_tol=1e-14)


@given(st.floats(0.4, 2.0), st.floats(0.0, 10.0), st.integers(0, 50), radii)
def test_the_grid_leaves_the_asked_margin(rho, margin, extra, radius):
    g = make_geometry(min_grid(rho, margin) + extra, rho, margin, radius, "spectral")
    assert math.isclose(g.sigma, rho * g.spacing, rel_tol=1e-12)
    assert math.isclose(
        g.half_width - margin * g.sigma, radius, rel_tol=1e-9 * g.half_width / radius
    )
    assert g.half_width >= radius


@given(st.floats(0.4, 2.0), st.floats(0.5, 10.0))
def test_one_token_below_the_minimum_is_refused_with_the_number_needed(rho, margin):
    needed = min_grid(rho, margin)
    make_geometry(needed, rho, margin, 1.0, "spectral")
    assume(needed > 2)
    with pytest.raises(AssumptionViolated, match=f"must be >= {needed} ") as caught:
        make_geometry(needed - 1, rho, margin, 1.0, "spectral")
    assert f"Got {needed - 1}" in str(caught.value)
    assert "Raise n_grid" in str(caught.value)


def test_twenty_four_tokens_do_not_do_for_the_default_kernel():
    with pytest.raises(AssumptionViolated, match=r"must be >= 25 for rho=1\.4, margin=8\.25"):
        make_geometry(24, RHO, MARGIN, 1.0, "spectral")
    assert make_geometry(24, RHO, MARGIN, 1.0, "hard").n_grid == 24


def test_all_bad_numbers_are_reported_at_once():
    found = grid_violations(1, -1.0, math.nan, math.inf, "warm")
    named = ("`n_grid`", "`rho`", "`margin`", "`radius`", "`temperature`")
    assert len(found) == len(named)
    assert all(any(name in text for text in found) for name in named)
    with pytest.raises(AssumptionViolated) as caught:
        make_geometry(1, -1.0, math.nan, math.inf, "spectral")
    assert len(caught.value.violations) == 4


@pytest.mark.parametrize("n_grid", [True, 32.0, "32", 0, -4])
def test_a_number_of_tokens_is_an_integer(n_grid):
    assert any("`n_grid`" in text for text in grid_violations(n_grid, 1.0, 1.0, 1.0, "hard"))


# -- moments --------------------------------------------------------------------------------------


@given(st.floats(0.5, 2.0), st.floats(3.0, 9.0), fractions, st.integers(0, 30))
def test_moments_bound_those_of_the_discretised_gaussian(rho, margin, fraction, extra):
    g = make_geometry(min_grid(rho, margin) + extra, rho, margin, 1.0, "spectral")
    level = torch.tensor(g.levels(), dtype=torch.float64)
    t = (level - fraction) / g.sigma
    w = torch.softmax(-t * t / 2, dim=0)
    bound = gaussian_moments(rho, margin)
    slack = 1 + 1e-12
    assert abs(float(w @ t)) <= bound.mean_error * slack + 1e-13
    for power, limit in ((1, bound.first), (2, bound.second), (3, bound.third), (4, bound.fourth)):
        assert float(w @ t.abs() ** power) <= limit * slack


def test_a_kernel_too_narrow_for_any_promise_promises_nothing():
    assert math.isinf(gaussian_moments(0.05, 8.0).mean_error)
    assert math.isinf(gaussian_moments(1.4, 0.0).mean_error)


# -- the inverse ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relative", "radius", "dtype"),
    [
        (0.1, 0.01, torch.float64),
        (3e-4, 1e3, torch.float64),
        (1e-8, 1.0, torch.float64),
        (1e-11, 100.0, torch.float64),
        (1e-13, 1.0, torch.float64),
        (0.05, 1.0, torch.float32),
        (1e-5, 128.0, torch.float32),
    ],
)
def test_grid_for_error_is_an_inverse_of_head_error(relative, radius, dtype):
    error, u = relative * radius, UNIT[dtype]
    g = grid_for_error(error, radius, u)
    assert head_error(g, radius, u) <= error
    s = queries(g, dtype)
    assert float((read(g, s).double() - s.double()).abs().max()) <= error
    fewer = g.n_grid - 1
    if fewer >= min_grid(g.rho, g.margin):
        less = make_geometry(fewer, g.rho, g.margin, radius, "spectral")
        assert head_error(less, radius, u) > error


def test_digits_cost_tokens_slowly():
    """Twice the digits for at most twice the tokens and a few; the paper's reading squares them."""
    counts = [grid_for_error(10.0**-d, 1.0).n_grid for d in (3, 6, 12)]
    assert counts == sorted(counts)
    assert counts[2] <= 2 * counts[1] <= 4 * counts[0]
    assert paper_tokens_for(1e-12, 1.0) > 1e10 * counts[2]


@pytest.mark.parametrize("error", [0.0, -1.0, math.nan, math.inf])
def test_an_error_to_reach_must_be_a_positive_number(error):
    with pytest.raises(InvalidParameter, match="`error` must be a finite number > 0"):
        grid_for_error(error, 1.0)


@pytest.mark.parametrize(
    ("error", "dtype"), [(1e-20, torch.float64), (1e-15, torch.float64), (1e-8, torch.float32)]
)
def test_an_unreachable_error_names_the_smallest_one(error, dtype):
    with pytest.raises(AssumptionViolated, match="the smallest certified error found is") as caught:
        grid_for_error(error, 1.0, UNIT[dtype])
    assert "Ask for a larger error" in str(caught.value)
