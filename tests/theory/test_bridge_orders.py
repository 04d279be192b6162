"""Counts of layers, heads and tokens against figures worked out by hand, and the orders against each other."""

from __future__ import annotations

import itertools
import math

import pytest

import icgd
from icgd.gadgets.feature_fit import fit_function
from icgd.gadgets.slope_product import fit_slope_product
from icgd.nn.stack import AttentionSublayer
from icgd.problems.activations import ACTIVATIONS
from icgd.theory.bridge_orders import (
    Orders,
    Units,
    ball_orders,
    counted_size,
    crossover,
    deep_ball_width,
    depth_at_equal_heads,
    exponent,
    fixed_depth_units,
    heads,
    layers,
    matrices,
    printed_layers,
    printed_size,
    shallow_ball_width,
    smooth_condition,
    smooth_orders,
    smooth_units,
    token_size,
)


def test_layers() -> None:
    assert [printed_layers(n) for n in (3, 4, 5, 6)] == [6, 11, 17, 24]
    assert [layers(n) for n in (2, 3, 9)] == [2, 3, 9]
    # a_n = O(n^2): second differences of the recursion are one.
    counts = [printed_layers(n) for n in range(2, 12)]
    first = [b - a for a, b in itertools.pairwise(counts)]
    assert {b - a for a, b in itertools.pairwise(first)} == {1}


@pytest.mark.parametrize("widths", [(3, 4, 4, 1), (2, 3, 3, 3, 1), (5, 2, 7, 3, 1)])
def test_heads_by_counting_one_by_one(widths: tuple[int, ...]) -> None:
    """A head per row and unit for r; a head per row, stored gradient of that row and unit for the product."""
    n, m = len(widths) - 1, Units(7, 11, 3)
    counted = []
    for p in range(1, n):
        below = [
            (i, k, j) for i in range(1, p) for k in range(widths[i]) for j in range(widths[i - 1])
        ]
        own = widths[p - 1]
        counted.append(sum(m.r + m.product * (len(below) + own) for _ in range(widths[p])))
    assert heads(widths, m) == [*counted, m.identity]
    assert matrices(widths, m) == 3 * sum(heads(widths, m)) + 2 * n


@pytest.mark.parametrize(
    ("widths", "activation", "attention"),
    [
        ((3, 4, 4, 1), "softplus", "tanh"), ((2, 3, 3, 3, 1), "gelu", "sigmoid"),
        ((3, 4, 1), "softplus", "relu"), ((5, 2, 7, 3, 1), "relu", "relu"),
    ],
)  # fmt: skip
def test_the_counts_are_those_of_the_compiled_stack(
    widths: tuple[int, ...], activation: str, attention: str
) -> None:
    program = icgd.compile(
        icgd.Network(widths, activation=activation, output="linear", bias=False), icgd.GD(lr=0.1),
        method="forward_mode", attention=attention, n_relu=20,
    )  # fmt: skip
    families = [layer for layer in program.step.modules() if isinstance(layer, AttentionSublayer)]
    counted = [sum(family.n_heads for family in layer.each()) for layer in families]
    options = program.config["options"]
    r, reach = ACTIVATIONS[activation], options["radius"]
    m = Units(
        fit_function(r, reach, 20, attention).n_units,
        fit_slope_product(r, options["signal_radius"], reach, 20, attention).n_units,
        counted[-1] if len(widths) > 3 else 0,
    )
    assert counted == heads(widths, m)
    assert program.layout.width == token_size(widths)
    assert program.step.n_layers == layers(len(widths) - 1)


def test_heads_of_two_layers_do_not_depend_on_the_input() -> None:
    assert heads((3, 4, 1), Units(50, 100, 2)) == heads((30, 4, 1), Units(50, 100, 2)) == [200, 600]


@pytest.mark.parametrize(("n", "power"), [(2, 1), (3, 2), (4, 3), (7, 3)])
def test_how_the_count_grows_with_the_width(n: int, power: int) -> None:
    """d K^2 for three layers: the cube needs weights between two wide layers below."""

    def cost(eps: float) -> float:
        return float(matrices((2, *[round(1 / eps)] * (n - 1), 1)))

    assert exponent(cost, 1e-4) == pytest.approx(power, abs=0.02)
    assert exponent(lambda e: counted_size(n, 1 / e, 2), 1e-4) == pytest.approx(power, abs=0.02)


@pytest.mark.parametrize("n", [3, 4, 6])
def test_the_formula_for_equal_widths_is_the_count(n: int) -> None:
    assert counted_size(n, 6, 4) == sum(heads((4, *[6] * (n - 1), 1), Units(1, 1, 0)))


def test_tokens_hold_every_gradient() -> None:
    assert token_size((3, 4, 1)) == 24
    assert token_size((3, 4, 4, 1)) == 128
    assert token_size((2, 3, 3, 3, 1)) == 136
    small, large = token_size((8, 8, 8, 8, 1)), token_size((16, 16, 16, 16, 1))
    assert 6 < large / small < 8  # towards K^3


def test_theorem_3_in_its_four_forms() -> None:
    """eps^-1 is printed; the proof gives eps^-2; with the dimension that Lemma 1 needs it is eps^-3 or more."""
    found = {
        form: exponent(lambda e, form=form: ball_orders(e, form).deep, 1e-8)
        for form in ("printed", "proof", "growing", "counted")
    }
    expected = {"printed": 1, "proof": 2, "growing": 3, "counted": 3.25}
    assert found == pytest.approx(expected, abs=0.02)
    assert ball_orders(1e-3, "printed").shallow == pytest.approx(shallow_ball_width(1e-3) ** 2)
    assert printed_size(3, 10.0) == 900
    assert printed_size(3, 10.0, layer_order=2) == 2700
    starts = [
        crossover(lambda e, f=f: ball_orders(e, f), low=1e-9)
        for f in ("proof", "growing", "counted")
    ]
    assert starts == sorted(starts, reverse=True)
    for form, start in zip(("proof", "growing", "counted"), starts, strict=True):
        assert ball_orders(start * 0.99, form).deep_is_cheaper
        assert not ball_orders(start * 1.01, form).deep_is_cheaper
    # Beyond all numbers is not an error.
    assert ball_orders(1e-13, "printed") == Orders(math.inf, pytest.approx(1e13))


def test_theorem_4_needs_a_small_eps() -> None:
    said = smooth_orders(1e-12, 1, 3, 2, "printed")
    assert said.deep == pytest.approx(2.1e12, rel=0.01)
    assert said.shallow == pytest.approx(1e12)
    assert smooth_condition(1, 3, 2, "printed")
    assert not said.deep_is_cheaper
    assert smooth_orders(1e-24, 1, 3, 2, "printed").deep_is_cheaper
    assert crossover(lambda e: smooth_orders(e, 1, 3, 2, "printed")) == pytest.approx(
        3.93e-14, rel=0.01
    )


@pytest.mark.parametrize("form", ["printed", "counted"])
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


def test_two_layers_ask_for_more_smoothness_than_printed() -> None:
    assert smooth_condition(1, 4, 2, "printed")
    assert not smooth_condition(1, 4, 2, "counted")
    assert smooth_condition(1, 7, 2, "counted")
    assert smooth_condition(1, 7, 4, "printed") == smooth_condition(1, 7, 4, "counted") is True
    assert crossover(lambda e: smooth_orders(e, 1, 4, 2, "counted")) == 0.0


def test_widths_and_units() -> None:
    assert deep_ball_width(0.01, 20) == 320_000
    assert smooth_units(1e-6, 1, 3) == pytest.approx(100 * (math.log(1e6) + 1))
    # One hidden layer: s = U + 1 pieces err 1/(8 s^2).
    assert fixed_depth_units(1 / (8 * 100), 2) == pytest.approx(9)
    assert fixed_depth_units(1.0, 3) == 0.0
    assert exponent(lambda e: fixed_depth_units(e, 3), 1e-30) == pytest.approx(0.25, abs=1e-3)
    assert depth_at_equal_heads(16, 8, 3) == 24
    assert depth_at_equal_heads(16, 8, 3, power=2) == 12


def test_bad_input() -> None:
    with pytest.raises(icgd.InvalidParameter, match="at least two layers"):
        heads((3, 1))
    with pytest.raises(icgd.InvalidParameter, match="`form` must be one of"):
        ball_orders(0.1, "wished")
