"""Linear maps: as tensor operations, as matrices, through JSON and composed, they are the same map."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icgd.errors import InvalidParameter
from icgd.transformer.linear_map import LinearMap

f64 = torch.float64


@st.composite
def maps(draw):
    """Chains of up to five random moves."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    route = LinearMap(shape)
    for _ in range(draw(st.integers(0, 5))):
        route = _one_more(draw, route)
    return route


def _one_more(draw, route):
    shape = route.shape
    kinds = ["view", "scale", "weigh", "expand"]
    if shape:
        kinds += ["permute", "slice", "pad", "sum", "flip", "pick"]
    kind = draw(st.sampled_from(kinds))
    axis = draw(st.integers(0, len(shape) - 1)) if shape else 0
    if kind == "view":
        return route.then("view", (math.prod(shape), 1))
    if kind == "scale":
        return route.then("scale", draw(st.sampled_from([-1.0, 0.5, 0.3, -2.0])))
    if kind == "weigh":
        return route.then("weigh", tuple(0.5 + k for k in range(math.prod(shape))))
    if kind == "expand":
        return route.then("view", (1, *shape)).then("expand", (2, *shape))
    if kind == "permute":
        return route.then("permute", tuple(draw(st.permutations(range(len(shape))))))
    if kind == "slice":
        start = draw(st.integers(0, shape[axis] - 1))
        return route.then("slice", axis, start, shape[axis], draw(st.integers(1, 2)))
    if kind == "pad":
        return route.then("pad", (draw(st.integers(0, 2)), draw(st.integers(0, 2))))
    if kind == "sum":
        return route.then("sum", (axis,), draw(st.booleans()))
    if kind == "flip":
        return route.then("flip", (axis,))
    size = shape[axis]
    picked = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=4))
    return route.then("pick", axis, tuple(picked))


def as_matrix(route):
    dense = np.zeros((math.prod(route.shape), math.prod(route.source)))
    target, source, coef = route.coordinates()
    np.add.at(dense, (target, source), coef)
    return torch.from_numpy(dense)


def numbers(shape):
    generator = torch.Generator().manual_seed(math.prod(shape))
    return torch.randn(shape, generator=generator, dtype=f64)


@given(maps())
@settings(max_examples=200, deadline=None)
def test_the_matrix_is_the_map(route):
    x = numbers(route.source)
    applied = route(x)
    assert tuple(applied.shape) == route.shape
    matrix = as_matrix(route)
    torch.testing.assert_close(matrix @ x.reshape(-1), applied.reshape(-1), rtol=1e-12, atol=1e-12)
    absolute = route.absolute(x.abs())
    torch.testing.assert_close(
        matrix.abs() @ x.abs().reshape(-1), absolute.reshape(-1), rtol=1e-12, atol=1e-12
    )
    most = int((matrix != 0).sum(dim=1).max()) if matrix.numel() else 1
    assert route.terms >= max(1, most)


@given(maps())
@settings(max_examples=100, deadline=None)
def test_files_keep_it(route):
    again = LinearMap.from_json(json.loads(json.dumps(route.to_json())))
    assert again == route
    assert hash(again) == hash(route)


@given(maps(), st.data())
@settings(max_examples=100, deadline=None)
def test_composed_maps_are_applied_one_after_the_other(first, data):
    second = LinearMap(first.shape)
    for _ in range(2):
        second = _one_more(data.draw, second)
    x = numbers(first.source)
    torch.testing.assert_close(second.after(first)(x), second(first(x)), rtol=1e-12, atol=1e-14)


@given(maps())
@settings(max_examples=100, deadline=None)
def test_selections_copy_to_the_last_bit(route):
    x = numbers(route.source)
    if route.is_selection:
        assert set(route(x).reshape(-1).tolist()) <= set(x.reshape(-1).tolist())
        assert route.terms == 1
    if route.is_rearrangement:
        assert sorted(route(x).reshape(-1).tolist()) == sorted(x.reshape(-1).tolist())


def test_moves_that_do_nothing_are_left_out():
    plain = LinearMap((2, 3))
    assert plain.then("view", (2, 3)).is_identity
    assert plain.then("permute", (0, 1)).is_identity
    assert plain.then("permute", (1, 0)).then("permute", (1, 0)).is_identity
    assert plain.then("view", (6,)).then("view", (3, 2)).moves == (("view", (3, 2)),)
    assert plain.scaled(0.5).scaled(2.0).is_identity


def test_an_unknown_move_is_named():
    with pytest.raises(InvalidParameter, match="twist"):
        _ = LinearMap((2,)).then("twist").shape
