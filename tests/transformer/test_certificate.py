"""The arithmetic of promises: composing certificates composes errors as maps compose."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icgd.transformer.certificate import Certificate

# Nothing that underflows when three of them are multiplied.
sizes = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))


@st.composite
def certificates(draw):
    return Certificate(
        name=draw(st.sampled_from("fgh")),
        domain=draw(st.floats(1e-3, 1e6)),
        sup_error=draw(sizes),
        lipschitz=draw(sizes),
        weight_norm=draw(sizes),
        n_tokens=draw(st.integers(0, 512)),
        rigorous=draw(st.booleans()),
    )


@given(certificates(), certificates())
def test_the_error_of_a_composition(outer, inner):
    both = outer.compose(inner)
    assert both.sup_error == outer.sup_error + outer.lipschitz * inner.sup_error
    assert both.lipschitz == outer.lipschitz * inner.lipschitz
    assert both.domain == inner.domain
    assert both.weight_norm == max(outer.weight_norm, inner.weight_norm)
    assert both.n_tokens == max(outer.n_tokens, inner.n_tokens)
    assert both.rigorous == (outer.rigorous and inner.rigorous)


@given(certificates(), certificates(), certificates())
def test_composition_is_associative(f, g, h):
    left, right = f.compose(g).compose(h), f.compose(g.compose(h))
    assert math.isclose(left.sup_error, right.sup_error, rel_tol=1e-12)
    assert math.isclose(left.lipschitz, right.lipschitz, rel_tol=1e-12)
    assert (left.domain, left.rigorous) == (right.domain, right.rigorous)


@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(-1, 1), st.floats(-1, 1), st.floats(-3, 3))
def test_the_promise_holds_for_two_perturbed_linear_maps(a, b, slip_f, slip_g, x):
    """f(x) = a x and g(x) = b x, computed with errors: |f~(g~(x)) - f(g(x))| is what was promised."""
    f = Certificate("f", 100.0, abs(slip_f), abs(a), 1.0)
    g = Certificate("g", 3.0, abs(slip_g), abs(b), 1.0)
    computed = a * (b * x + slip_g) + slip_f
    promised = f.compose(g).sup_error
    assert abs(computed - a * (b * x)) <= promised + 1e-14 * (1 + abs(a * b * x) + promised)


@given(certificates(), st.floats(-1e3, 1e3))
def test_scaling_scales_error_and_slope_by_the_size_of_the_factor(c, factor):
    scaled = c.scaled(factor)
    assert scaled.sup_error == abs(factor) * c.sup_error
    assert scaled.lipschitz == abs(factor) * c.lipschitz
    assert (scaled.domain, scaled.n_tokens) == (c.domain, c.n_tokens)


@pytest.mark.parametrize("error", [-1e-300, -1.0, math.nan])
def test_an_error_that_is_no_error_is_refused(error):
    with pytest.raises(ValueError, match="must be >= 0"):
        Certificate("f", 1.0, error, 1.0, 1.0)
