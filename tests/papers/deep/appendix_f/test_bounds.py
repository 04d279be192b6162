"""Formulas of the look-up block: against arithmetic done another way, and their limits."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from icgd.errors import InvalidParameter
from icgd.papers.deep.appendix_f.bounds import (
    cell_error,
    log10_grid_separation,
    log10_separation,
    n_entries,
    n_sequences,
    printed_bound,
    ramp_share,
    rms_bound,
    rms_of_rounding,
    sup_norm_floor,
)


def test_separation_is_the_printed_formula():
    # Small enough that delta itself is a float.
    n, d, V, low, high, eps = 3, 1, 1, 1.0, 1.5, 3.0
    log = math.log(n)
    crowd = (V + 1) ** 4 * (2 * log + 3) * math.pi * d
    delta = 2 * log**2 * eps**2 * low / (high**2 * crowd)
    delta *= math.exp(-crowd * high**2 / (4 * eps * low))
    found = log10_separation(n, d, V, r_min=low, r_max=high, eps=eps)
    assert found == pytest.approx(math.log10(delta), rel=1e-12)


@pytest.mark.parametrize(("n_levels", "power"), [(2, -4.7e6), (4, -9.9e11)])
def test_separation_of_the_smallest_grids(n_levels, power):
    found = log10_grid_separation(3, 4, n_levels)
    assert found == pytest.approx(power, rel=0.02)
    # Not a float: the least positive one is 5e-324.
    assert found < -324


def test_separation_shrinks_like_the_vocabulary_to_the_fourth():
    known = {"r_min": 1.0, "r_max": 2.0, "eps": 0.5}
    small, large = (log10_separation(3, 4, V, **known) for V in (999, 1999))
    assert large / small == pytest.approx(16, rel=1e-3)


def test_entries():
    assert [n_sequences(D, 6) for D in (2, 3, 4, 5, 6)] == [64, 729, 4096, 15625, 46656]
    assert [n_entries(D, 6, 3) for D in (2, 3, 4, 5, 6)] == [192, 2187, 12288, 46875, 139968]


@pytest.mark.parametrize("D", [1, 8, 32, 256])
def test_printed_bound_and_cells(D):
    assert printed_bound(2.0, 4, 9, D) == pytest.approx(float(2 * Fraction(8 * 6 + 3, 2 * D)))
    assert printed_bound(1.0, 1, 2, D) == pytest.approx(4.5 * math.sqrt(2) / D)
    assert cell_error(1.0, 2, D) == pytest.approx(printed_bound(1.0, 1, 2, D) / 9)
    assert printed_bound(1.0, 1, 2, D, side=3.0) == pytest.approx(3 * printed_bound(1.0, 1, 2, D))


def test_mean_square_goes_to_zero_with_ramps_and_cells():
    assert ramp_share(6, 5, 1e-3) == pytest.approx(0.03)
    assert ramp_share(6, 5, 0.15) == 1.0
    wide, narrow = (rms_bound(1.0, 2, 64, r, spread=1.0) for r in (1e-3, 1e-12))
    assert wide > 0.3
    assert narrow == pytest.approx(cell_error(1.0, 2, 64), rel=1e-5)
    falls = [rms_bound(1.0, 2, D, 2.0**-40, spread=1.0) for D in (8, 16, 32)]
    assert falls[0] / falls[1] == pytest.approx(2, rel=1e-6)
    assert falls[1] / falls[2] == pytest.approx(2, rel=1e-6)


def test_rounding_to_levels():
    assert rms_of_rounding(4, width=2.0) == pytest.approx(0.5 / math.sqrt(12))
    assert 10 * rms_of_rounding(10) == pytest.approx(rms_of_rounding(1))


def test_floor_is_above_the_printed_bound():
    assert sup_norm_floor(2.0) == 0.25
    assert printed_bound(4.0, 1, 3, 1000) < sup_norm_floor()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: log10_separation(1, 1, 1, r_min=1.0, r_max=1.0, eps=1.0), "n"),
        (lambda: log10_separation(3, 1, 1, r_min=0.0, r_max=1.0, eps=1.0), "r_min"),
        (lambda: printed_bound(math.nan, 1, 1, 1), "lipschitz"),
        (lambda: n_entries(2, 0, 1), "n_free"),
        (lambda: rms_bound(1.0, 1, 1, 0.1, spread=-1.0), "spread"),
    ],
)
def test_bad_numbers(call, name):
    with pytest.raises(InvalidParameter, match=f"`{name}` must be"):
        call()
