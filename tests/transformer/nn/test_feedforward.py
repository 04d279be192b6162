"""Feed-forward layers: named units and literal matrices are one network, with no dead weight."""

from __future__ import annotations

import pytest
import torch
from cases import dense_step, literal, relative_gap, structured_step
from hypothesis import given, settings
from hypothesis import strategies as st

from icgd.errors import LayoutError
from icgd.transformer.blocks import make_block
from icgd.transformer.gadgets.heads.spectral_theory import make_geometry
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.chain.grid_attention import GridAttention, HeadBank, ValuePath
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.feedforward import Constant, FeedForward, Skip, Units, frozen

D = 3
F64 = torch.float64
BLOCK = Layout([Slot("v", (D,)), Slot("u", (D,)), Slot("m", (D, D)), Slot("f", ()), Slot("g", ())])
STACK = Layout.stack(top=BLOCK, bottom=BLOCK)
WORK = Layout([*BLOCK, Slot("nothing", (D,)), Slot("sink", (D,))])


def randomised(module, seed):
    """Every weight a different normal number."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=F64)
    return module


def idle_attention():
    """A head that asks with an empty slot and writes where nobody reads."""
    g = make_geometry(32, 1.4, 8.25, 8.0, "spectral")
    bank = HeadBank("idle", D, D, ("nothing",), (ValuePath("v", "whole", "sink", "whole"),), F64)
    return GridAttention(WORK, ("v",), g.levels(), g.beta, [bank], F64)


def around(pre):
    """A layer that is the given feed-forward layer and nothing else."""
    copies = [Skip(s.name, s.name, s.shape, 1.0, F64) for s in BLOCK]
    return Layer(pre, idle_attention(), FeedForward(WORK, BLOCK, {}, copies), 8.0)


def a_bit_of_everything():
    parts = {
        "vectors": Units(
            (D,), {"top/v": 1.0, "bottom/u": 1.0, "top/f": 1.0}, {"v": 1.0}, bias=1.0, dtype=F64
        ),
        "two_targets": Units((D,), {"bottom/v": 1.0}, {"v": 1.0, "u": 1.0}, dtype=F64),
        "matrices": Units((D, D), {"top/m": 1.0, "bottom/g": 1.0}, {"m": 1.0}, dtype=F64),
        "flags_only": Units((D,), {"bottom/f": 1.0}, {"u": 1.0}, bias=1.0, dtype=F64),
        "scalars": Units(
            (), {"top/f": 1.0, "bottom/g": 1.0}, {"f": 1.0, "g": 1.0}, bias=1.0, dtype=F64
        ),
    }
    skips = [
        Skip("top/u", "v", (D,), 1.0, F64),
        Skip("bottom/m", "m", (D, D), 1.0, F64),
        Skip("top/g", "g", (), 1.0, F64),
    ]
    return FeedForward(
        STACK, WORK, parts, skips, [Constant("f", 1.0, F64), Constant("g", 1.0, F64)]
    )


def random_block(generator, *, batch=(), missing=()):
    def normal(*shape):
        return torch.randn(*batch, *shape, generator=generator, dtype=F64)

    flags = torch.randn(2, generator=generator, dtype=F64).tolist()
    values = {"v": normal(D), "u": normal(D), "m": normal(D, D), "f": flags[0], "g": flags[1]}
    return make_block({name: x for name, x in values.items() if name not in missing})


@given(st.integers(0, 2**32), st.sampled_from([(), (4,)]), st.sets(st.sampled_from(BLOCK.names)))
@settings(max_examples=60)
def test_named_units_and_literal_matrices_are_one_function(seed, batch, missing):
    """Random weights, random blocks, some slots empty; alone and in batches."""
    generator = torch.Generator().manual_seed(seed)
    layer = around(randomised(a_bit_of_everything(), seed))
    # The last slot always holds numbers, so that there is a batch to speak of.
    blocks = [random_block(generator, batch=batch, missing=missing - {"m"}) for _ in "ab"]
    ours = literal(structured_step(layer, blocks, batched=bool(batch)), BLOCK)
    theirs = dense_step(layer, BLOCK, blocks)
    assert relative_gap(theirs, ours) <= 1e-13


def test_the_formula_by_hand():
    """target = skip + write * relu(bias + sum read * source) + constant."""
    ffn = randomised(a_bit_of_everything(), 0)
    generator = torch.Generator().manual_seed(1)
    top, bottom = (literal(random_block(generator), BLOCK)[0] for _ in "ab")
    got = WORK.unpack(ffn.dense()(torch.cat([top, bottom])))
    t, b = BLOCK.unpack(top), BLOCK.unpack(bottom)
    matrices, scalars = ffn.parts["matrices"], ffn.parts["scalars"]
    m = matrices.write["m"] * torch.relu(
        matrices.read["top/m"] * t["m"] + matrices.read["bottom/g"] * b["g"]
    )
    m = m + ffn.skips["bottom/m>m"].coef * b["m"]
    g = scalars.write["g"] * torch.relu(
        scalars.bias + scalars.read["top/f"] * t["f"] + scalars.read["bottom/g"] * b["g"]
    )
    g = g + ffn.skips["top/g>g"].coef * t["g"] + ffn.constants["g"].value
    assert torch.allclose(got["m"], m, rtol=1e-13, atol=0)
    assert torch.allclose(got["g"], g, rtol=1e-13, atol=0)
    assert not got["nothing"].any()


def test_every_weight_of_the_literal_matrices_is_one_entry_of_one_parameter():
    """Number the parameter entries; the non-zeros of the matrices are these numbers, once each."""
    ffn = a_bit_of_everything()
    numbers = numbered(ffn)
    assert nonzeros(ffn.dense()) == numbers


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


def test_an_absent_bias_is_no_weight():
    units = Units((D,), {"top/v": 1.0}, {"v": 1.0}, dtype=F64)
    assert units.bias is None
    assert sum(p.numel() for p in units.parameters()) == 2 * D


def test_weights_are_frozen_and_not_shared():
    weight = frozen(torch.tensor([1.0, 2.0]), (3, 2), torch.float64)
    assert not weight.requires_grad
    weight.data[0, 0] = 7.0
    assert weight.data[1, 0] == 1.0


def test_units_that_sum_into_a_flag_do_so_in_both_forms():
    """Three units writing to a scalar slot add up in the literal matrices, so they must everywhere."""
    units = Units((D,), {"top/v": 1.0}, {"f": 1.0}, dtype=F64)
    try:
        layer = around(FeedForward(STACK, WORK, {"sum": units}))
    except LayoutError:
        return  # refusing them is just as well
    generator = torch.Generator().manual_seed(3)
    blocks = [random_block(generator) for _ in "ab"]
    ours = literal(structured_step(layer, blocks), BLOCK)
    assert relative_gap(dense_step(layer, BLOCK, blocks), ours) <= 1e-13


@pytest.mark.parametrize(
    ("reads", "writes"), [({"top/m": 1.0}, {"v": 1.0}), ({"top/v": 1.0}, {"m": 1.0})]
)
def test_units_that_do_not_fit_a_slot_are_refused(reads, writes):
    with pytest.raises(LayoutError, match=r"cannot act on slot"):
        FeedForward(STACK, WORK, {"x": Units((D,), reads, writes, dtype=F64)})


def test_a_slot_that_does_not_exist_is_named():
    with pytest.raises(LayoutError, match="No slot `top/w`"):
        FeedForward(STACK, WORK, {"x": Units((D,), {"top/w": 1.0}, {"v": 1.0}, dtype=F64)})


@pytest.mark.parametrize(("source", "target"), [("top/m", "v"), ("top/v", "m"), ("top/w", "v")])
def test_a_skip_that_does_not_fit_is_refused_when_the_layer_is_made(source, target):
    with pytest.raises(LayoutError):
        FeedForward(STACK, WORK, {}, [Skip(source, target, (D,), 1.0, F64)])
