"""The look-up block does what its docstring says: exact at centres, 1/D off ramps, lost on them."""

from __future__ import annotations

import math

import pytest
import torch

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.papers.deep.appendix_f.cases import (
    exact_step,
    onto_ramp,
    prompt_block,
    rms,
    sample,
    step_error,
    unpacked,
    walk_error,
)
from icgd.papers.deep.appendix_f.lookup import (
    ContextHead,
    ContextLookup,
    Flag,
    Wiring,
    on_ramp,
    plain_wiring,
    prompt_wiring,
    quantise,
    separation,
    tanh_step,
)
from icgd.papers.deep.appendix_f.lookup_literal import LiteralContextLookup

F64 = torch.float64
LEVELS = (2, 3, 4, 5)


# -- the first layer ------------------------------------------------------------------------------


@pytest.mark.parametrize("D", [1, 2, 3, 5, 7])
def test_levels_are_exact_off_the_ramps(D):
    z = torch.rand(5000, generator=torch.Generator().manual_seed(D), dtype=F64)
    off = z[~on_ramp(z, D)]
    wanted = (torch.floor(off * D) + 1) / D
    assert torch.equal(quantise(off, D), wanted)


def test_ramps_are_where_they_should_be():
    D, ramp = 4, 2.0**-6
    z = torch.linspace(0, 1, 4097, dtype=F64)
    flat = torch.isclose(quantise(z, D, ramp) * D % 1, torch.zeros(1, dtype=F64))
    # Only a ramp has values between levels; its ends have not.
    assert not bool((~flat & ~on_ramp(z, D, ramp)).any())
    assert int((~flat).sum()) == D * (int(ramp * 4096) - 1)


# -- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("D", LEVELS)
def test_no_label_collides_and_centres_are_exact(D):
    block = prompt_block(D)
    centres = block.centres()
    labels = tanh_step(0.5)(centres)
    found = separation(block.head.ids(block.quantise(centres)).flatten(), labels.flatten(0, 1))
    assert found.collisions == 0
    assert found.gap == block.gap > 1e-10
    assert torch.equal(block(centres), labels)
    assert block.n_entries == 3 * D**6


@pytest.mark.parametrize("D", LEVELS)
def test_one_step_is_half_a_cell_off(D):
    error = step_error(prompt_block(D), sample(prompt_block(D), 4000))
    assert 0.45 <= D * rms(error) <= 0.60


def test_ramp_errors_do_not_shrink():
    off = {D: rms(step_error(prompt_block(D), sample(prompt_block(D), 3000))) for D in LEVELS}
    on = {
        D: rms(step_error(prompt_block(D), onto_ramp(prompt_block(D), 3000, "w"))) for D in LEVELS
    }
    assert off[5] < 0.5 * off[2]
    assert on[5] > 0.9 * on[2]
    assert min(on.values()) > 0.3
    worst = float(step_error(prompt_block(5), onto_ramp(prompt_block(5), 3000, "x1")).max())
    assert worst > 1.0


def test_iterated_steps_are_mostly_lost():
    for D in LEVELS:
        far, way = walk_error(prompt_block(D), sample(prompt_block(D), 2000))
        assert far > way / 2
    one = rms(step_error(prompt_block(5), sample(prompt_block(5), 2000)))
    assert far > 3 * one


def test_tokens_of_other_orders_give_the_same():
    block = prompt_block(4)
    tokens = sample(block, 500)
    swapped = tokens[:, [1, 0, 2]]
    assert torch.equal(block(swapped), block(tokens)[:, [1, 0, 2]])


def test_step_of_the_table_is_that_of_autograd():
    block = prompt_block(2)
    tokens = sample(block, 300, seed=3)
    x, y, w = unpacked(block, tokens)
    for lr in (0.1, 0.5, 3.0):
        after = 2 * tanh_step(lr)(tokens)[:, :, block.wiring.column("w")] - 1
        assert float((after - exact_step(x, y, w, lr).unsqueeze(-1)).abs().max()) < 1e-14
    other = tanh_step(0.5)(tokens)
    kept = [block.wiring.column(s) for s in ("x", "y", "t")]
    assert torch.equal(other[..., kept], tokens[..., kept])


def test_other_sizes():
    one = ContextLookup(prompt_wiring(1), 5, tanh_step(0.5))
    assert one.wiring.free == ("x1", "y1", "w", "x_test")
    assert one.n_entries == 2 * 5**4
    three = ContextLookup(prompt_wiring(3), 3, tanh_step(0.5))
    assert three.n_entries == 4 * 3**8
    centres = three.centres()[::50]
    assert torch.equal(three(centres), tanh_step(0.5)(centres))


@pytest.mark.slow
@pytest.mark.parametrize("D", [6, 7])
def test_larger_tables_still_fit_float64(D):
    block = prompt_block(D)
    assert block.gap > 1e-12
    error = step_error(block, sample(block, 4000))
    assert 0.45 <= D * rms(error) <= 0.60


# -- the same as ReLUs ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_literal_relus_are_the_table(seed):
    block = ContextLookup(prompt_wiring(2), 2, tanh_step(0.5), seed=seed)
    literal = LiteralContextLookup(block)
    assert literal.n_units[0] == 4 * (2 * 2 + 2)
    assert literal.n_units[1] - 2 * (literal.d + 1) <= len(block.knots)
    tokens = torch.cat([sample(block, 500), onto_ramp(block, 500, "y2")])
    made = literal(tokens)
    # Units of size 1/ramp round at 3e-11, and FF2 may be steep.
    assert float((made[..., :-1] - block(tokens)).abs().max()) < 1e-10 * block.steepest
    assert float(made[..., -1].abs().max()) == 0.0
    # What it writes is needed: without the head the table reads wrong entries.
    literal.attend = lambda tokens: tokens
    assert float((literal(tokens)[..., :-1] - block(tokens)).abs().max()) > 0.1


# -- bad input ------------------------------------------------------------------------------------


def test_too_many_sequences():
    with pytest.raises(InvalidParameter, match=r"at most 150000 sequences.*10\^6 = 1000000 cells"):
        ContextLookup(prompt_wiring(2), 10, tanh_step())


def test_ids_that_float64_cannot_tell_apart(monkeypatch):
    # Without the average all tokens of one kind have one id.
    def blind(cls, d, seed=0):
        part = torch.arange(1.0, d + 1, dtype=F64)
        return cls(part, part, part, part.sqrt(), 0.0)

    monkeypatch.setattr(ContextHead, "generic", classmethod(blind))
    with pytest.raises(
        AssumptionViolated, match=r"different labels are equal in float64 \(least gap"
    ):
        ContextLookup(prompt_wiring(2), 2, tanh_step())


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_tokens_outside_the_cube(value):
    block = prompt_block(2)
    tokens = block.centres()[:1].clone()
    tokens[0, 0, 0] = value
    with pytest.raises(AssumptionViolated, match=r"Tokens must lie in \[0, 1\]"):
        block(tokens)


def test_bad_parameters():
    with pytest.raises(InvalidParameter, match="`ramp` must lie between 0 and 1/n_levels"):
        ContextLookup(plain_wiring(2), 4, lambda z: z, ramp=0.25)
    with pytest.raises(InvalidParameter, match="`n_levels` must be an integer >= 1"):
        ContextLookup(plain_wiring(2), 0, lambda z: z)
    with pytest.raises(InvalidParameter, match="`f` must return sequences of shape"):
        ContextLookup(plain_wiring(2), 2, lambda z: z[..., 0])
    with pytest.raises(InvalidParameter, match="`n_examples`"):
        prompt_wiring(0)
    with pytest.raises(InvalidParameter, match="one entry per slot"):
        Wiring(("x",), (("a", Flag.LOW),))
    with pytest.raises(InvalidParameter, match="6 columns"):
        prompt_wiring(2).fill(torch.zeros(1, 5, dtype=F64), 2)
    with pytest.raises(InvalidParameter, match="have 4 slots"):
        prompt_block(2)(torch.zeros(1, 3, 3, dtype=F64))
    with pytest.raises(InvalidParameter, match="lr, radius"):
        tanh_step(0.0)
    with pytest.raises(InvalidParameter, match="be one of"):
        prompt_wiring(1).column("z")
    with pytest.raises(InvalidParameter, match="at most 20000 knots"):
        LiteralContextLookup(prompt_block(5))
