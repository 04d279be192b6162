"""Grid attention: one read of the grid and a matrix product are the same as 2d literal heads."""

from __future__ import annotations

import pytest
import torch
from cases import NETWORKS, by_name, dense_step, literal, relative_gap, structured_step
from hypothesis import given, settings
from hypothesis import strategies as st

import icgd
from icgd.transformer.blocks import make_block
from icgd.transformer.gadgets.heads.spectral_theory import head_error, make_geometry
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.attention import attention
from icgd.transformer.nn.chain.grid_attention import GridAttention, HeadBank, ValuePath
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.feedforward import FeedForward, Skip

D = 3
F64 = torch.float64
UNIT = 2.0**-53
TOKEN = Layout(
    [
        Slot("s", (D,)),
        Slot("t", (D,)),
        Slot("v", (D,)),
        Slot("m", (D, D)),
        Slot("z", (D,)),
        Slot("n", (D, D)),
    ]
)
GEOMETRIES = {
    "spectral": make_geometry(32, 1.4, 8.25, 8.0, "spectral"),
    "odd": make_geometry(41, 1.4, 8.25, 8.0, "spectral"),
    "blurred": make_geometry(32, 0.8, 8.25, 8.0, "spectral"),
    "hard": make_geometry(16, 1.4, 8.25, 8.0, "hard"),
    "hard_odd": make_geometry(17, 1.4, 8.25, 8.0, "hard"),
}


def all_paths(g):
    """Two queries summed; a column, a row and a whole vector collected."""
    banks = [
        HeadBank(
            "sums",
            D,
            D,
            ("s", "t"),
            (
                ValuePath("m", "column", "z", "whole"),
                ValuePath("v", "whole", "n", "column", scale=-0.25),
            ),
            F64,
        ),
        HeadBank("rows", D, D, ("t",), (ValuePath("m", "row", "v", "whole"),), F64),
    ]
    return GridAttention(TOKEN, ("v", "m"), g.levels(), g.beta, banks, F64)


def layer_of(g):
    """The attention between two feed-forward layers that copy."""
    stack = Layout.stack(top=TOKEN, bottom=TOKEN)
    enter = FeedForward(
        stack, TOKEN, {}, [Skip(f"top/{s.name}", s.name, s.shape, 1.0, F64) for s in TOKEN]
    )
    leave = FeedForward(TOKEN, TOKEN, {}, [Skip(s.name, s.name, s.shape, 1.0, F64) for s in TOKEN])
    return Layer(enter, all_paths(g), leave, g.radius)


def random_blocks(seed, batch=(), missing=()):
    generator = torch.Generator().manual_seed(seed)
    values = {
        slot.name: 2 * torch.randn(*batch, *slot.shape, generator=generator, dtype=F64).clamp(-2, 2)
        for slot in TOKEN
    }
    kept = make_block({name: x for name, x in values.items() if name not in missing})
    return [kept, make_block({})] if not batch else [kept, make_block({"z": values["z"]})]


# -- compact and literal --------------------------------------------------------------------------


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("batch", [(), (5,)])
def test_matrix_products_and_literal_heads_are_one_function(name, batch):
    layer = layer_of(GEOMETRIES[name])
    for seed in range(5):
        blocks = random_blocks(seed, batch)
        ours = literal(structured_step(layer, blocks, batched=bool(batch)), TOKEN, D)
        theirs = dense_step(layer, TOKEN, blocks, n_columns=D)
        assert relative_gap(theirs, ours) <= 1e-12
        assert torch.equal(theirs, theirs[..., :1, :].expand_as(theirs)), "columns stay equal"


@given(
    st.integers(0, 2**32), st.sampled_from(list(GEOMETRIES)), st.sets(st.sampled_from(TOKEN.names))
)
@settings(max_examples=60)
def test_uneven_weights_are_one_function_too(seed, name, missing):
    """Every parameter multiplied by its own factor: nothing may rely on what was compiled."""
    layer = layer_of(GEOMETRIES[name])
    generator = torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        parameter.data *= 0.5 + torch.rand(parameter.shape, generator=generator, dtype=F64)
    blocks = random_blocks(seed, missing=missing)
    ours = literal(structured_step(layer, blocks), TOKEN, D)
    theirs = dense_step(layer, TOKEN, blocks, n_columns=D)
    assert relative_gap(theirs, ours) <= 1e-12


@pytest.mark.parametrize("name", GEOMETRIES)
def test_heads_multiply_within_their_certificate(name):
    """z + m (s + t), n - 1/4 v (s + t)^T and v + m^T t, up to the error of one head per product."""
    g = GEOMETRIES[name]
    (block, _) = blocks = random_blocks(7)
    got = TOKEN.unpack(literal(structured_step(layer_of(g), blocks), TOKEN)[0])
    s, t, v, m, z, n = (block.slots[slot.name] for slot in TOKEN)
    certified = head_error(g, g.radius, UNIT)
    rounding = 1e-13
    for name_, exact, weight in (
        ("z", z + m @ (s + t), m.abs().sum(-1)),
        ("n", n - 0.25 * torch.outer(v, s + t), 0.25 * v.abs().unsqueeze(-1).expand(D, D)),
        ("v", v + m.T @ t, m.abs().sum(0)),
    ):
        assert bool(((got[name_] - exact).abs() <= certified * weight + rounding).all())
    for carried in ("s", "t", "m"):
        assert torch.equal(got[carried], block.slots[carried])


@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_reader_is_the_literal_head(name):
    g = GEOMETRIES[name]
    attn = all_paths(g)
    level = torch.tensor(g.levels(), dtype=F64)
    keys = torch.stack([2 * g.beta * level, -g.beta * level**2], dim=-1)
    s = torch.linspace(-g.radius, g.radius, 501, dtype=F64)
    query = torch.stack([s, torch.ones_like(s)], dim=-1)
    literal_reading = attention(query, keys, level.unsqueeze(-1)).squeeze(-1)
    # Both are within rounding of the exact softmax mean; near a hard tie its slope is 20.
    slope = 1.0 if g.temperature == "spectral" else g.beta * g.spacing**2 / 2 + 1
    rounding = slope * head_error(GEOMETRIES["spectral"], g.radius, UNIT)
    assert float((attn.reader(g.radius)(s) - literal_reading).abs().max()) <= rounding


@given(
    st.integers(28, 80),
    st.floats(-3, 5).map(lambda e: 10.0**e),
    st.sampled_from(["spectral", "hard"]),
    st.sampled_from([torch.float64, torch.float32]),
    st.lists(st.floats(-1, 1), max_size=5),
)
def test_the_reader_keeps_the_certificate_of_the_literal_head(n_grid, radius, kind, dtype, more):
    """What the structured executor computes is certified too, in each of the reader's forms."""
    g = make_geometry(n_grid, 1.4, 8.25, radius, kind)
    bank = HeadBank("bank", D, D, ("s",), (ValuePath("m", "column", "z", "whole"),), dtype)
    read = GridAttention(TOKEN, ("m",), g.levels(), g.beta, [bank], dtype).reader(g.radius)
    sweep = torch.linspace(-1, 1, 301, dtype=F64)
    s = (radius * torch.cat([sweep, torch.tensor(more, dtype=F64)])).to(dtype)
    s = torch.where(s.double().abs() > radius, torch.nextafter(s, torch.zeros_like(s)), s)
    u = torch.finfo(dtype).eps / 2
    bound = torch.tensor([head_error(g, float(x), u) for x in s], dtype=F64)
    assert bool(((read(s).double() - s.double()).abs() <= bound).all())


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("radius", [8.0, 1e6])
def test_zero_is_read_as_exactly_zero(name, radius):
    """A claimed radius of 1e6 makes the reader choose the form that subtracts the maximum."""
    reading = all_paths(GEOMETRIES[name]).reader(radius)(torch.zeros(7, dtype=F64))
    assert reading.tolist() == [0.0] * 7


def test_an_altered_grid_is_read_as_altered():
    """One level moved: no shortcut for pairs may be taken any more."""
    g = GEOMETRIES["spectral"]
    for table in ("levels", "linear", "quadratic"):
        layer = layer_of(g)
        getattr(layer.attention, table).data[15] *= 1.001
        blocks = random_blocks(3)
        ours = literal(structured_step(layer, blocks), TOKEN, D)
        theirs = dense_step(layer, TOKEN, blocks, n_columns=D)
        plain = literal(structured_step(layer_of(g), blocks), TOKEN, D)
        assert relative_gap(theirs, ours) <= 1e-12 < relative_gap(plain, ours)


# -- no dead weight -------------------------------------------------------------------------------


def numbered(module):
    start = 1
    for parameter in module.parameters():
        n = parameter.numel()
        parameter.data = torch.arange(start, start + n, dtype=F64).reshape(parameter.shape)
        start += n
    return list(range(1, start))


def nonzeros(module):
    found = [p.data[p.data != 0] for p in module.parameters()]
    return sorted(int(x) for x in torch.cat([x.reshape(-1) for x in found]))


def test_every_weight_of_the_literal_heads_is_one_entry_of_one_parameter():
    """Number the parameter entries; the non-zeros of the matrices are these numbers, once each."""
    attn = all_paths(GEOMETRIES["spectral"])
    numbers = numbered(attn)
    assert nonzeros(attn.dense(D)) == numbers


@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_a_compiled_layer_has_no_weight_twice_and_none_that_is_zero(case):
    layer = icgd.compile(case.network, icgd.SGD(lr=case.lr)).step
    stored = sum(p.numel() for p in layer.parameters())
    dense = layer.dense(max(case.widths))
    assert sum(int(p.count_nonzero()) for p in dense.parameters()) == stored
    numbers = numbered(layer)
    assert nonzeros(layer.dense(max(case.widths))) == numbers
