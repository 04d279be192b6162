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
