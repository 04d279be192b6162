"""Parts of the machine's layer: their units do what they say, on their own kind of step and on others."""

from __future__ import annotations

import pytest
import torch

from icgd.errors import LayoutError
from icgd.transformer.gadgets.gates.joined import JoinedGate
from icgd.transformer.gadgets.gates.routed import (
    CAPACITY,
    RAMP,
    FlagWriter,
    RoutedGate,
    RoutedRelu,
    Selection,
    Shutter,
    Wire,
)
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.linear_map import LinearMap
from icgd.transformer.nn.feedforward import FeedForward

DTYPES = [torch.float64, torch.float32]
SOURCE = Layout(
    [
        Slot("a", (6,), ragged=True),
        Slot("b", (6,), ragged=True),
        Slot("f", (6,), ragged=True),
        Slot("off", ()),
    ]
)
TARGET = Layout([Slot("out", (6,), ragged=True)])
OTHERS = [0.0, 1.0, -1.0, 1e-30, -3.7, 1e9, -1e9]
"""What may stand in slots on steps of another kind."""


def through(part, dtype, **values):
    """What the literal units write for these slots."""
    dense = FeedForward(SOURCE, TARGET, {"part": part}).dense()
    token = SOURCE.pack(values, dtype=dtype).unsqueeze(0)
    return dense(token)[0, :6]


def vector(values, dtype):
    return torch.tensor(values, dtype=dtype)


def every_part(dtype):
    """One of each, all with the flag `off`."""
    whole, three = LinearMap((6,)), LinearMap((3,))
    flag = Wire("f", three)
    a, b = Wire("a", three), Wire("b", three)
    yield RoutedGate(Wire("a", whole), "out", "off", dtype=dtype)
    yield RoutedRelu(Wire("a", whole), "out", "off", dtype=dtype)
    yield Selection(flag, a, b, "out", "off", dtype=dtype)
    yield JoinedGate([a, b], 0, "out", "off", dtype=dtype)
    yield from (Shutter(o, [a, b], "out", "off", dtype=dtype) for o in ("greater", "equal", "both"))
    yield Shutter("invert", [flag], "out", "off", dtype=dtype)
    yield FlagWriter(3, "a", "out", "off", dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shut_parts_write_exactly_nothing_whatever_stands_there(dtype):
    leaks = []
    for part in every_part(dtype):
        for one in OTHERS:
            for other in OTHERS:
                a = vector([one, other, -one, 0.0, 1.0, one], dtype)
                f = vector([other, one, 0.0, -other, 2.0, 1.0], dtype)
                written = through(part, dtype, a=a, b=-a, f=f, off=1.0)
                if bool((written != 0).any()):
                    leaks.append((type(part).__name__, one, other, written.tolist()))
    assert not leaks


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_open_gate_copies_to_the_last_bit(dtype):
    g = torch.Generator().manual_seed(0)
    size = torch.logspace(-12, 9, 6, dtype=dtype)
    for _ in range(20):
        a = torch.randn(6, generator=g, dtype=dtype) * size
        gate = RoutedGate(Wire("a", LinearMap((6,))), "out", "off", dtype=dtype)
        assert torch.equal(through(gate, dtype, a=a), a)
        rectified = RoutedRelu(Wire("a", LinearMap((6,))), "out", "off", dtype=dtype)
        assert torch.equal(through(rectified, dtype, a=a), a.relu())


def test_routes_are_rows_of_the_matrix():
    route = LinearMap((2, 3)).then("permute", (1, 0)).then("scale", -0.5)
    a = vector([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], torch.float64)
    gate = RoutedGate(Wire("a", route), "out", "off", dtype=torch.float64)
    assert torch.equal(through(gate, torch.float64, a=a), route(a.reshape(2, 3)).reshape(-1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_selection_takes_either_value_exactly(dtype):
    a, b = vector([1.1, -2.2, 3.3], dtype), vector([-7.7, 8.8, 1e-9], dtype)
    for flags in ([1, 0, 1], [0, 0, 0], [1, 1, 1]):
        on = torch.tensor(flags, dtype=torch.bool)
        f = torch.cat([on, ~on]).to(dtype)
        three = LinearMap((3,))
        part = Selection(
            Wire("f", three), Wire("a", three), Wire("b", three), "out", "off", dtype=dtype
        )
        written = through(part, dtype, a=a, b=b, f=f)
        assert torch.equal(written[:3], torch.where(on, a, b))


def flags_of(operation, dtype, **values):
    """The halves of the flag that a shutter and the writer behind it make."""
    three = LinearMap((3,))
    wires = [Wire("a", three), Wire("b", three)]
    shut = through(Shutter(operation, wires, "out", "off", dtype=dtype), dtype, **values)
    return through(FlagWriter(3, "a", "out", "off", dtype=dtype), dtype, a=shut)


@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_are_exact_for_neighbouring_floats(dtype):
    sizes = [1.0, 1e-3, 1e9, 3.0 * CAPACITY[dtype] ** 0.5, 4 / RAMP[dtype] / torch.finfo(dtype).eps]
    for size in sizes:
        base = torch.full((3,), size, dtype=dtype)
        up = torch.nextafter(base, torch.full_like(base, torch.inf))
        down = torch.nextafter(base, torch.zeros_like(base))
        a = torch.stack([up[0], base[0], down[0]])
        for sign in (1.0, -1.0):
            one, other = sign * a, sign * base
            greater = flags_of("greater", dtype, a=one, b=other)
            assert torch.equal(greater[:3], (one > other).to(dtype)), size
            assert torch.equal(greater[3:], (one <= other).to(dtype)), size
            equal = flags_of("equal", dtype, a=one, b=other)
            assert torch.equal(equal[:3], (one == other).to(dtype)), size
            assert torch.equal(equal[3:], (one != other).to(dtype)), size


def test_flags_of_flags():
    on_a, on_b = (
        torch.tensor([1, 1, 0], dtype=torch.bool),
        torch.tensor([1, 0, 0], dtype=torch.bool),
    )
    dtype = torch.float64
    a, b = (torch.cat([on, ~on]).to(dtype) for on in (on_a, on_b))
    both = flags_of("both", dtype, a=a, b=b)
    assert torch.equal(both[:3], (on_a & on_b).to(dtype))
    assert torch.equal(both[3:], (~(on_a & on_b)).to(dtype))
    inverted = through(
        Shutter("invert", [Wire("a", LinearMap((3,)))], "out", "off", dtype=dtype), dtype, a=a
    )
    written = through(FlagWriter(3, "a", "out", "off", dtype=dtype), dtype, a=inverted)
    assert torch.equal(written[:3], (~on_a).to(dtype))


def test_operands_are_joined_along_any_axis():
    a, b = vector([1.0, 2.0], torch.float64), vector([3.0, 4.0], torch.float64)
    column = LinearMap((2,)).then("view", (2, 1))
    part = JoinedGate([Wire("a", column), Wire("b", column)], 1, "out", "off", dtype=torch.float64)
    written = through(part, torch.float64, a=a, b=b)
    assert written[:4].tolist() == [1.0, 3.0, 2.0, 4.0]


def test_a_slot_that_is_too_small_is_named():
    gate = RoutedGate(Wire("a", LinearMap((7,))), "out", "off", dtype=torch.float64)
    with pytest.raises(LayoutError, match="`a` has 6 entries"):
        FeedForward(SOURCE, TARGET, {"part": gate})


def test_every_changed_weight_is_noticed():
    for part in every_part(torch.float64):
        assert part.is_plain()
        for name, weight in part.named_parameters():
            before = weight.data.clone()
            weight.data.reshape(-1)[0] *= 1 + 1e-15
            assert not part.is_plain(), (type(part).__name__, name)
            weight.data.copy_(before)
