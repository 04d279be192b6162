"""The error law of linearised softmax heads, against the heads themselves in high precision."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from icgd.errors import InvalidParameter
from icgd.transformer.gadgets.heads.product_theory import (
    MODES,
    SINK,
    best_z,
    check_mode,
    curvature_error,
    error_law,
    last_place,
    linearised,
    rounding_error,
)

ORDER = {"printed": 1, "sym": 2, "four": 4}


def read(mode, z):
    """What the mode's heads make of s = z (c = 1), by power series in exact arithmetic."""
    heads = linearised(mode, 1.0, C=31.9, c=1.0).heads
    total = Fraction(0)
    for factor, height in heads:
        x, term, power = Fraction(factor) * Fraction(z), Fraction(0), Fraction(1)
        for j in range(30):
            term += power
            power = power * x / (j + 1)
        # Heights are thirds and twelfths: what is written down is their nearest double.
        total += Fraction(height).limit_denominator(12) * term
    return total


@pytest.mark.parametrize("mode", MODES)
def test_curvature_is_the_leading_term(mode):
    for z in (0.1, 0.03, 0.01):
        off = abs(float(read(mode, z) / Fraction(z) - 1))
        assert off == pytest.approx(curvature_error(mode, z), rel=0.1)


@pytest.mark.parametrize("mode", MODES)
def test_the_order_of_the_curvature(mode):
    errors = [abs(float(read(mode, z) / Fraction(z) - 1)) for z in (0.02, 0.01)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(ORDER[mode], abs=0.05)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("C", [15.9, 31.9, 63.0])
def test_the_best_scale_is_the_best(mode, C):
    """No other scale on a fine grid has a smaller error by the law."""
    best = best_z(mode, C)
    least = error_law(mode, n_tokens=0, C=C, z=best)
    for factor in np.logspace(-3, 3, 601):
        assert error_law(mode, n_tokens=0, C=C, z=best * float(factor)) >= least * (1 - 1e-12)


def test_scales_of_the_modes_are_where_they_were_measured():
    """Orders of magnitude that were tried by hand before the law was written down."""
    assert 2e-8 < best_z("printed", 31.9) < 3e-7
    assert 1e-5 < best_z("sym", 31.9) < 1e-4
    assert 5e-4 < best_z("four", 31.9) < 5e-3


@pytest.mark.parametrize(("eps", "number"), [(2.0**-52, np.float64), (2.0**-23, np.float32)])
@pytest.mark.parametrize("C", [0.3, 1.0, 15.9, 16.0, 31.9, 32.0, 100.0])
def test_the_last_place_is_that_of_the_format(eps, number, C):
    assert last_place(C, eps) == float(np.spacing(number(C)))


@pytest.mark.parametrize("u", SINK)
def test_the_sink_stands_just_below_a_power_of_two(u):
    """A little more would double what scores are rounded to."""
    C = SINK[u]
    assert last_place(math.ceil(C + 0.05), 2 * u) == 2 * last_place(C, 2 * u)


def test_too_small_a_sink_takes_part_in_the_sum():
    assert error_law("sym", n_tokens=82, C=10.0, z=3e-5) > 3e-3
    assert error_law("sym", n_tokens=82, C=31.9, z=3e-5) < 1e-9


def test_rounding_in_a_coarser_format():
    coarse = last_place(15.9, 2.0**-23)
    ratio = rounding_error("sym", 1e-2, 15.9, coarse) / rounding_error("sym", 1e-2, 15.9)
    assert ratio == 2.0**29


@pytest.mark.parametrize("mode", MODES)
def test_heads_cancel_where_they_should(mode):
    """Weights sum to 0, so that scores of 0 give nothing; and the slope is 1."""
    made = linearised(mode, 2.0, C=31.9)
    assert abs(sum(Fraction(h) for _, h in made.heads)) == 0
    slope = sum(factor * height for factor, height in made.heads)
    assert slope == pytest.approx(1.0, rel=1e-15)
    assert made.c == best_z(mode, 31.9) / 2.0
    assert len(made.heads) == (4 if mode == "four" else 2)


def test_wrong_arguments():
    with pytest.raises(InvalidParameter, match="mode"):
        check_mode("spectral")
    with pytest.raises(InvalidParameter, match="mode"):
        best_z("cubic", 31.9)
    for bound in (0.0, math.nan, math.inf, -2.0):
        with pytest.raises(InvalidParameter, match="bound"):
            linearised("sym", bound, C=31.9)
