"""The orders of Theorems 3 and 4 against each other, against counts, and where depth begins to pay."""

from __future__ import annotations

import math

import pytest

import icgd
from icgd.papers.bridge.statements.counts import reverse_matrices
from icgd.papers.bridge.statements.orders import (
    Orders,
    ball_orders,
    crossover,
    deep_ball_width,
    exponent,
    fixed_depth_units,
    printed_size,
    shallow_ball_width,
    smooth_condition,
    smooth_orders,
    smooth_units,
)


def test_theorem_3_in_its_five_forms() -> None:
    """eps^-1 is printed, and counted for the stack; the proof gives eps^-2, or eps^-3 if d grows."""
    found = {
        form: exponent(lambda e, form=form: ball_orders(e, form).deep, 1e-8)
        for form in ("printed", "stack", "proof", "growing", "forward_mode")
    }
    expected = {"printed": 1, "stack": 1, "proof": 2, "growing": 3, "forward_mode": 3.25}
    assert found == pytest.approx(expected, abs=0.02)
    assert ball_orders(1e-3, "printed").shallow == pytest.approx(shallow_ball_width(1e-3) ** 2)
    assert printed_size(3, 10.0) == 900
    assert printed_size(3, 10.0, layer_order=2) == 2700
    starts = [
        crossover(lambda e, f=f: ball_orders(e, f), low=1e-9)
        for f in ("proof", "growing", "forward_mode")
    ]
    assert starts == sorted(starts, reverse=True)
    for form, start in zip(("proof", "growing", "forward_mode"), starts, strict=True):
        assert ball_orders(start * 0.99, form).deep_is_cheaper
        assert not ball_orders(start * 1.01, form).deep_is_cheaper
    # Beyond all numbers is not an error.
    assert ball_orders(1e-13, "printed") == Orders(math.inf, pytest.approx(1e13))


@pytest.mark.parametrize("d", [2, 6, 20])
def test_theorem_3_at_a_fixed_dimension(d: int) -> None:
    """Read for one d: widths exp(eps^-1/4) and 8 d^2/eps, and matrices as printed for both networks."""
    for eps in (1e-1, 1e-2, 1e-3):
        wide, narrow = round(shallow_ball_width(eps)), round(deep_ball_width(eps, d))
        two, three = (reverse_matrices(w) for w in ((d, wide, 1), (d, narrow, narrow, 1)))
        # One constant for every eps: 3 (2 M + 4) matrices a unit, two wide layers, and a few more.
        assert two <= 700 * shallow_ball_width(eps) ** 2
        assert three <= 2 * 700 * 8 * d * d / eps
    deep = exponent(lambda e: float(reverse_matrices((d, *[round(8 * d * d / e)] * 2, 1))), 1e-6)
    assert deep == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("d", "n", "depth"), [(1, 3, 2), (1, 8, 4), (2, 9, 3), (1, 5, 3)])
def test_theorem_4_for_small_eps(d: int, n: int, depth: int) -> None:
    """With 2 (L-1) d < n the deep network costs less from some eps on, as printed and as counted."""
    assert 2 * (depth - 1) * d < n
    for form in ("printed", "stack"):
        start = crossover(lambda e, form=form: smooth_orders(e, d, n, depth, form))
        assert start > 0
        for part in (0.9, 1e-3, 1e-20):
            assert smooth_orders(start * part, d, n, depth, form).deep_is_cheaper
    stack, said = (
        crossover(lambda e, form=form: smooth_orders(e, d, n, depth, form))
        for form in ("stack", "printed")
    )
    assert stack > said  # one logarithm and single powers: it pays off sooner


def test_theorem_4_needs_a_small_eps() -> None:
    """With constants one, which no O(..) promises; counted heads say so at a larger eps."""
    counted = smooth_orders(1e-12, 1, 3, 2, "stack")
    assert counted.deep == pytest.approx(5.7e7, rel=0.01)
    assert counted.shallow == pytest.approx(2.0e8, rel=0.03)
    assert not smooth_orders(1e-4, 1, 3, 2, "stack").deep_is_cheaper
    assert 1e-8 < crossover(lambda e: smooth_orders(e, 1, 3, 2, "stack")) < 1e-7
    said = smooth_orders(1e-12, 1, 3, 2, "printed")
    assert said.deep == pytest.approx(2.1e12, rel=0.01)
    assert said.shallow == pytest.approx(1e12)
    assert smooth_condition(1, 3, 2, "printed")
    assert not said.deep_is_cheaper
    assert smooth_orders(1e-24, 1, 3, 2, "printed").deep_is_cheaper
    assert crossover(lambda e: smooth_orders(e, 1, 3, 2, "printed")) == pytest.approx(
        3.93e-14, rel=0.01
    )


@pytest.mark.parametrize("form", ["printed", "stack", "forward_mode"])
@pytest.mark.parametrize(("d", "depth"), [(1, 2), (1, 3), (1, 4), (2, 4)])
def test_the_condition_of_theorem_4_is_the_comparison_of_exponents(
    form: str, d: int, depth: int
) -> None:
    """Far down, where the logarithms have been paid off."""
    for n in range(2 * d, 25):
        slopes = [
            exponent(
                lambda e, n=n, k=k: getattr(smooth_orders(e, d, n, depth, form), k), 1e-200, 1e-60
            )
            for k in ("deep", "shallow")
        ]
        # ln^3 adds 3/ln(1/eps) to an exponent; leave the borderline out.
        if abs(slopes[0] - slopes[1]) > 0.03:
            assert smooth_condition(d, n, depth, form) == (slopes[0] < slopes[1]), n


def test_forward_mode_asks_for_more_smoothness() -> None:
    """Of two-layer and three-layer networks; the stack asks for what is printed."""
    assert smooth_condition(1, 4, 2, "stack")
    assert smooth_condition(1, 4, 2, "printed")
    assert not smooth_condition(1, 4, 2, "forward_mode")
    assert smooth_condition(1, 7, 2, "forward_mode")
    assert smooth_condition(1, 7, 4, "printed") == smooth_condition(1, 7, 4, "forward_mode") is True
    assert crossover(lambda e: smooth_orders(e, 1, 4, 2, "forward_mode")) == 0.0


def test_widths_and_units() -> None:
    assert deep_ball_width(0.01, 20) == 320_000
    assert smooth_units(1e-6, 1, 3) == pytest.approx(100 * (math.log(1e6) + 1))
    # One hidden layer: s = U + 1 pieces err 1/(8 s^2).
    assert fixed_depth_units(1 / (8 * 100), 2) == pytest.approx(9)
    assert fixed_depth_units(1.0, 3) == 0.0
    assert exponent(lambda e: fixed_depth_units(e, 3), 1e-30) == pytest.approx(0.25, abs=1e-3)


def test_bad_input() -> None:
    with pytest.raises(icgd.InvalidParameter, match="`form` must be one of"):
        ball_orders(0.1, "wished")
