"""Counts of layers, heads and tokens against compiled stacks and against figures worked out one by one."""

from __future__ import annotations

import itertools

import pytest

import icgd
from icgd.costs.stacks import forward_width
from icgd.papers.bridge.statements.counts import (
    Units,
    forward_mode_size,
    heads,
    layers,
    matrices,
    printed_layers,
    reverse_heads,
    reverse_matrices,
    reverse_size,
)
from icgd.papers.bridge.statements.orders import exponent
from icgd.problems.activations import ACTIVATIONS
from icgd.transformer.gadgets.fits.feature_fit import fit_function
from icgd.transformer.gadgets.fits.slope_product import fit_slope_product
from icgd.transformer.nn.stack.stack import AttentionSublayer, MlpSublayer


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
        ((3, 4, 4, 1), "softplus", "tanh"),
        ((2, 3, 3, 3, 1), "gelu", "sigmoid"),
        ((3, 4, 1), "softplus", "relu"),
        ((5, 2, 7, 3, 1), "relu", "relu"),
    ],
)
def test_the_counts_are_those_of_the_compiled_stack(
    widths: tuple[int, ...], activation: str, attention: str
) -> None:
    program = icgd.compile(
        icgd.Network(widths, activation=activation, output="linear", bias=False),
        icgd.GD(lr=0.1),
        method="forward_mode",
        attention=attention,
        n_relu=20,
    )
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
    assert program.layout.width == forward_width(widths)
    assert program.step.n_layers == layers(len(widths) - 1)


def test_heads_of_two_layers_do_not_depend_on_the_input() -> None:
    assert heads((3, 4, 1), Units(50, 100, 2)) == heads((30, 4, 1), Units(50, 100, 2)) == [200, 600]


@pytest.mark.parametrize(("n", "power"), [(2, 1), (3, 2), (4, 3), (7, 3)])
def test_how_the_count_grows_with_the_width(n: int, power: int) -> None:
    """d K^2 for three layers: the cube needs weights between two wide layers below."""

    def cost(eps: float) -> float:
        return float(matrices((2, *[round(1 / eps)] * (n - 1), 1)))

    assert exponent(cost, 1e-4) == pytest.approx(power, abs=0.02)
    assert exponent(lambda e: forward_mode_size(n, 1 / e, 2), 1e-4) == pytest.approx(
        power, abs=0.02
    )


@pytest.mark.parametrize("n", [3, 4, 6])
def test_the_formula_for_equal_widths_is_the_count(n: int) -> None:
    assert forward_mode_size(n, 6, 4) == sum(heads((4, *[6] * (n - 1), 1), Units(1, 1, 0)))


def test_tokens_hold_every_gradient() -> None:
    assert forward_width((3, 4, 1)) == 24
    assert forward_width((3, 4, 4, 1)) == 128
    assert forward_width((2, 3, 3, 3, 1)) == 136
    small, large = forward_width((8, 8, 8, 8, 1)), forward_width((16, 16, 16, 16, 1))
    assert 6 < large / small < 8  # towards K^3


# -- backpropagation with products by attention ----------------------------------------------------------


@pytest.mark.parametrize(
    ("widths", "activation", "units"),
    [
        ((3, 4, 1), "softplus", (9, 9)),
        ((3, 4, 4, 1), "tanh", (9, 9)),
        ((2, 3, 3, 3, 1), "gelu", (9, 9)),
        ((5, 2, 7, 3, 1), "relu", (1, 2)),
        ((2, 2, 2, 2, 2, 2, 1), "sigmoid", (9, 9)),
    ],
)
def test_the_counts_of_backpropagation_are_those_of_the_compiled_stack(
    widths: tuple[int, ...], activation: str, units: tuple[int, int]
) -> None:
    network = icgd.Network(widths, activation=activation, output="linear", bias=False)
    gd = icgd.GD(lr=0.1, box=1.0)
    program = icgd.compile(network, gd, method="stack", products="attention", n_relu=9)
    sublayers = [layer for _, layer in program.step.each()]
    counted = [
        sum(family.n_heads for family in layer.each())
        for layer in sublayers
        if isinstance(layer, AttentionSublayer)
    ]
    assert counted == reverse_heads(widths, *units)
    n_mlps = sum(isinstance(layer, MlpSublayer) for layer in sublayers)
    assert len(sublayers) == len(counted) + n_mlps == 3 * (len(widths) - 1) + 4
    assert reverse_matrices(widths, *units) == 3 * sum(counted) + 2 * n_mlps


@pytest.mark.parametrize("n", [2, 3, 4, 6])
@pytest.mark.parametrize("width", [1, 5, 40])
def test_all_heads_of_equal_widths(n: int, width: int) -> None:
    assert reverse_size(n, width, 17) == sum(reverse_heads((3, *[width] * (n - 1), 1), 17, 17))


@pytest.mark.parametrize("n", range(2, 9))
def test_heads_of_a_layer_stay_below_the_printed_order(n: int) -> None:
    """n K^2 M is an upper bound: n K M are enough, whatever the input's width."""
    for width in (2, 7, 300):
        widths = (width, *[width] * (n - 1), 1)
        assert max(reverse_heads(widths, 50, 50)) <= n * width * 50 <= n * width**2 * 50
    most = exponent(lambda e: float(max(reverse_heads((2, *[round(1 / e)] * (n - 1), 1)))), 1e-4)
    assert most == pytest.approx(1, abs=1e-3)


def test_bad_input() -> None:
    with pytest.raises(icgd.InvalidParameter, match="at least two layers"):
        heads((3, 1))
    with pytest.raises(icgd.InvalidParameter, match="at least two layers"):
        reverse_heads((3, 1))
