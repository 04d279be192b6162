"""The shape a route is said to lead to is the one it leads to."""

from __future__ import annotations

import pytest
import torch

from icgd.mechanisms.machine.saved.routes import product_shape, shape_after_moves
from icgd.transformer.linear_map import LinearMap

ROUTES = [
    LinearMap((2, 3)).then("permute", (1, 0)).then("view", (6,)).then("slice", 0, 1, 6, 2),
    LinearMap((2, 3)).then("sum", (1,), True).then("expand", (4, 2, 5)).then("scale", -0.5),
    LinearMap((2, 3)).then("sum", (0,), False).then("pad", (1, 2)).then("flip", (0,)),
    LinearMap((2, 3)).then("pick", 1, (2, 0, 2)).then("weigh", (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)),
]


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_shapes_are_those_of_the_map(route):
    shape = shape_after_moves(route.to_json(), route.source)
    assert shape == route.shape == tuple(route(torch.ones(route.source)).shape)


@pytest.mark.parametrize(
    "moves",
    [
        [["view", [5]]],
        [["view", [-1]]],
        [["expand", [2, 4]]],
        [["permute", [0]]],
        [["slice", 0, 0, 3, 1]],
        [["slice", 0, 0, 2]],
        [["pad", [1]]],
        [["pad", [-1, 0]]],
        [["sum", [0, 0], True]],
        [["pick", 1, [3]]],
        [["scale", "1"]],
        [["scale", float("inf")]],
        [["weigh", [1.0]]],
        [["jump"]],
        [[]],
        "view",
    ],
)
def test_a_move_that_does_not_fit_is_refused(moves):
    with pytest.raises(ValueError, match=r"fit|move|shape|route"):
        shape_after_moves([[2, 3], moves], (2, 3))


def test_products_do_not_broadcast():
    assert product_shape((4, 2, 3), (4, 3, 5)) == (4, 2, 5)
    assert product_shape((2, 3), (2, 3)) is None
    assert product_shape((1, 2, 3), (4, 3, 5)) is None
