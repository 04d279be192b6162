"""Named coordinates: packing and unpacking are inverse, and nothing is written out of place."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icgd.errors import LayoutError
from icgd.transformer.layout import Layout, Slot

shape_lists = st.lists(st.lists(st.integers(1, 4), max_size=2).map(tuple), min_size=1, max_size=6)


def layout_of(shapes):
    return Layout([Slot(f"slot{i}", shape) for i, shape in enumerate(shapes)])


def numbered(slot, batch, start=1.0):
    """A tensor for a slot whose entries are all different and never zero."""
    n = slot.size * torch.Size(batch).numel()
    return torch.arange(start, start + n, dtype=torch.float64).reshape((*batch, *slot.shape))


@given(shape_lists, st.sampled_from([(), (2,), (2, 3)]))
def test_unpack_undoes_pack(shapes, batch):
    layout = layout_of(shapes)
    values = {slot.name: numbered(slot, batch, 1.0 + 100 * i) for i, slot in enumerate(layout)}
    token = layout.pack(values, batch=batch)
    assert token.shape == (*batch, layout.width)
    back = layout.unpack(token)
    assert all(torch.equal(back[name], value) for name, value in values.items())


@given(shape_lists)
def test_slots_tile_the_token(shapes):
    layout = layout_of(shapes)
    places = torch.cat([layout.index(slot.name).reshape(-1) for slot in layout])
    assert torch.equal(places, torch.arange(layout.width))
    for slot in layout:
        where = layout.slice(slot.name)
        assert where.stop - where.start == slot.size
        assert layout.index(slot.name).shape == slot.shape


@given(shape_lists, st.data())
def test_a_value_touches_its_own_slot_only(shapes, data):
    layout = layout_of(shapes)
    slot = layout.slots[data.draw(st.integers(0, len(shapes) - 1))]
    token = layout.pack({slot.name: numbered(slot, ())})
    mine = torch.zeros(layout.width, dtype=torch.bool)
    mine[layout.slice(slot.name)] = True
    assert torch.equal(token != 0, mine)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_a_smaller_value_stands_in_the_corner_and_the_rest_is_zero(rows, cols, more_r, more_c):
    layout = Layout([Slot("before", ()), Slot("m", (rows + more_r, cols + more_c))])
    value = numbered(Slot("", (rows, cols)), ())
    matrix = layout.unpack(layout.pack({"m": value}))["m"]
    assert torch.equal(matrix[:rows, :cols], value)
    assert matrix.count_nonzero() == value.numel()


def test_a_number_fills_a_slot_and_dtype_is_kept():
    layout = Layout([Slot("v", (3,)), Slot("flag", ())])
    token = layout.pack({"v": 2.0, "flag": torch.tensor(7.0)}, dtype=torch.float32)
    assert token.tolist() == [2.0, 2.0, 2.0, 7.0]
    assert token.dtype == torch.float32


def test_stacking_prefixes_names_and_keeps_order():
    part = Layout([Slot("a", (2,), "two things"), Slot("b", ())])
    both = Layout.stack(top=part, bottom=part)
    assert both.names == ("top/a", "top/b", "bottom/a", "bottom/b")
    assert both.width == 2 * part.width
    assert both["bottom/a"].meaning == "two things"
    stacked = torch.cat([part.pack({"b": 1.0}), part.pack({"b": 2.0})])
    assert torch.equal(both.pack({"top/b": 1.0, "bottom/b": 2.0}), stacked)


def test_membership_and_iteration():
    layout = Layout([Slot("a", (2,)), Slot("b", ())])
    assert "a" in layout
    assert "c" not in layout
    assert [slot.name for slot in layout] == ["a", "b"]


def test_the_description_places_every_slot():
    layout = Layout([Slot("a", (2, 3), "a matrix"), Slot("b", (), "a flag")])
    assert layout.to_json() == [
        {"name": "a", "shape": [2, 3], "start": 0, "meaning": "a matrix"},
        {"name": "b", "shape": [], "start": 6, "meaning": "a flag"},
    ]


def test_a_missing_slot_is_named_with_the_slots_there_are():
    layout = Layout([Slot("out", (2,)), Slot("flag", ())])
    for use in (layout.slice, layout.index, layout.__getitem__, lambda n: layout.pack({n: 1.0})):
        with pytest.raises(LayoutError, match=r"No slot `inp`\. This token has: out, flag\."):
            use("inp")


def test_two_slots_of_one_name_are_refused():
    with pytest.raises(LayoutError, match="distinct slot names"):
        Layout([Slot("a", ()), Slot("a", (2,))])


def test_a_value_too_large_for_its_slot_is_refused():
    layout = Layout([Slot("m", (2, 2))])
    with pytest.raises(
        LayoutError, match=r"shape \(2, 3\) does not fit slot `m` of shape \(2, 2\)"
    ):
        layout.pack({"m": torch.zeros(2, 3)})


def test_a_value_with_too_few_axes_is_refused_with_both_shapes():
    layout = Layout([Slot("m", (2, 2))])
    with pytest.raises(LayoutError, match="`m`"):
        layout.pack({"m": torch.zeros(2)})


def test_a_token_of_another_layout_is_refused():
    layout = Layout([Slot("m", (2, 2))])
    with pytest.raises(LayoutError, match=r"has 4 entries\. Got 5"):
        layout.unpack(torch.zeros(5))
