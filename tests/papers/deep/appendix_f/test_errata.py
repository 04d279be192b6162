"""docs/errata_deep.md, Appendix F: the printed form is run and fails, what is left of it holds.

The judge of a gradient step is autograd; means, spreads and counts are written out here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
import torch

from icgd.papers.deep.appendix_f import cases as deep_context_cases
from icgd.papers.deep.appendix_f import printed as printed
from icgd.papers.deep.appendix_f import statements as deep_context
from icgd.papers.deep.appendix_f.bounds import printed_bound, rms_bound, sup_norm_floor
from icgd.papers.deep.appendix_f.cases import (
    mean_gradient_errors,
    mean_of_tokens,
    onto_ramp,
    prompt_block,
    rms,
    sample,
    sequence_error,
    step_error,
    uniform,
    walk_error,
)
from icgd.papers.deep.appendix_f.lookup import (
    ContextHead,
    ContextLookup,
    plain_wiring,
    quantise,
    separation,
    tanh_step,
)
from icgd.papers.deep.appendix_f.mean_gradient import MeanGradientBlock, tanh_gradient

F64 = torch.float64
CHECKERS = {
    "Definition 11": deep_context.definition_11,
    "Definition 12": deep_context.definition_12,
    "Definition 13": deep_context.definition_13,
    "Lemma 17": deep_context.lemma_17,
    "F.4, first layer": deep_context.first_layer,
    "Lemma 16, 18": deep_context.lemma_16,
    "Theorem 3, 6": deep_context.theorem_6,
}
VERDICTS = {
    "Definition 13": "reading",
    "F.4, first layer": "slip",
    "Lemma 16, 18": "false",
    "Theorem 3, 6": "reading",
}
"""All others hold."""


# -- the rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("statement", CHECKERS)
def test_rows_pass(statement, row_of):
    row = row_of(CHECKERS[statement])
    assert row.statement == statement
    assert row.passed, row
    assert row.printed_verdict == VERDICTS.get(statement, "holds")
    assert 0 <= row.measured <= row.bound
    assert any(c.isdigit() for c in row.counterexample)
    assert "nan" not in row.counterexample


def test_a_wrong_step_size_fails_the_row(monkeypatch):
    right = deep_context_cases.exact_step
    monkeypatch.setattr(deep_context_cases, "exact_step", lambda x, y, w: right(x, y, w, lr=0.45))
    assert not deep_context.theorem_6().passed


def test_a_blind_head_fails_the_row(monkeypatch):
    prompt_block(2)  # built before the head is spoilt: blocks are kept
    monkeypatch.setattr(ContextHead, "average", lambda self, levels: 0.0 * levels[..., 0] + 1.0)
    assert not deep_context.lemma_17().passed


# -- F1: Definition 13 ----------------------------------------------------------------------------


@pytest.mark.parametrize("D", [2, 3, 4])
def test_printed_mapping_knows_no_context(D):
    block = prompt_block(D)
    centres = block.centres()
    levels = block.quantise(centres)
    distinct = levels.flatten(0, 1).unique(dim=0)
    far = torch.cdist(distinct, distinct)
    far.fill_diagonal_(math.inf)
    # The identity keeps distinct tokens apart, as printed ...
    assert float(far.min()) > 0.99 / D
    # ... and a table that reads tokens alone is asked for two labels under one id.
    labels = tanh_step(0.5)(centres).flatten(0, 1)
    blind = replace(block.head, weight=0.0).ids(levels).flatten()
    assert separation(blind, labels).collisions > len(labels) / 4
    assert separation(block.head.ids(levels).flatten(), labels).collisions == 0


# -- F2: Lemma 16 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("D", [32, 64, 128])
def test_ramps_do_not_shrink(D):
    block = ContextLookup(plain_wiring(2), D, mean_of_tokens)
    worst = sequence_error(block, mean_of_tokens, onto_ramp(block, 4000, "z0[0]"))
    assert float(worst.max()) > 0.3 > printed_bound(1.0, 1, 2, D)
    off = sequence_error(block, mean_of_tokens, sample(block, 4000))
    assert float(off.max()) < printed_bound(1.0, 1, 2, D)


def test_the_table_is_as_steep_as_its_ids_are_close():
    for D in (2, 3, 4, 5):
        block = prompt_block(D)
        assert block.steepest > 0.1 / block.gap
        assert block.steepest > 1e3


@pytest.mark.parametrize(("d", "n"), list(product((1, 2), (3, 4))))
@pytest.mark.parametrize("seed", range(5))
def test_no_block_sees_the_difference(d, n, seed):
    generator = torch.Generator().manual_seed(100 + seed)
    value, scores, out = (
        torch.randn(*s, generator=generator, dtype=F64) for s in ((d,), (d, d), (d,))
    )
    phi = printed.random_first_layer(d, seed)
    spot = printed.blind_spot(phi, value, scores, n_tokens=n)

    def first_token(sequence):
        inner = phi(sequence)
        weights = torch.softmax(inner @ scores @ inner.T, dim=-1)
        return (inner + torch.outer(weights @ (inner @ value), out))[0]

    a, b = first_token(spot.sequence), first_token(spot.all_same)
    assert float((a - b).abs().max()) < 1e-11
    # Whatever the second layer does, it is wrong by half of this in one of the two.
    apart = (printed.spread_around(spot.sequence) - printed.spread_around(spot.all_same))[0, 0]
    assert float(apart) / 2 >= sup_norm_floor()
    # |f(Z) - f(Z')| <= 2n |Z - Z'|, so this is printed for some D.
    assert printed_bound(2.0 * n, d, n, 2000) < sup_norm_floor()
    # Other sequences are seen well enough.
    moved = spot.sequence.clone()
    moved[1] = (moved[1] + 0.3) % 1
    assert float((first_token(moved) - b).abs().max()) > 1e-3


@pytest.mark.parametrize("D", [4, 8, 16, 32])
def test_table_is_wrong_where_it_is_blind(D):
    missed, there = deep_context_cases.table_at_blind_spot(D)
    assert missed >= there / 2 * (1 - 1e-6) >= sup_norm_floor() * (1 - 1e-6)


def test_spread_is_lipschitz_and_equivariant():
    L = printed.lipschitz_of_spread(3)
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.rand(4000, 3, 1, generator=generator, dtype=F64) for _ in range(2))
    b = a + 1e-3 * (b - 0.5)
    rise = (printed.spread_around(a) - printed.spread_around(b)).flatten(1).norm(dim=1)
    ratio = rise / (a - b).flatten(1).norm(dim=1)
    assert 0.95 * L < float(ratio.max()) <= L * (1 + 1e-9)
    turned = printed.spread_around(a[:, [2, 0, 1]])
    assert torch.allclose(turned, printed.spread_around(a)[:, [2, 0, 1]], atol=1e-15, rtol=0)


@pytest.mark.parametrize("D", [8, 32, 128])
def test_mean_square_survives(D):
    for ramp in (2.0**-12, 2.0**-17, 2.0**-34):
        block = ContextLookup(plain_wiring(2), D, mean_of_tokens, ramp=ramp)
        seen = rms(sequence_error(block, mean_of_tokens, uniform(block, 8000)))
        assert seen <= rms_bound(1.0, 2, D, ramp, spread=math.sqrt(2))
    # With the narrowest ramps 1/D is what is left: sqrt(1/12) of a cell.
    assert D * seen == pytest.approx(math.sqrt(1 / 12), rel=0.05)


# -- F3, F4: the first layer ----------------------------------------------------------------------


def test_penalty_is_not_token_wise():
    pair = torch.tensor([[[0.6], [0.6]], [[0.6], [1.6]]], dtype=F64)
    levels = quantise(pair, 4)
    first = printed.penalised(pair, levels)[:, 0, 0]
    assert float(first[0] - first[1]) == 1.0
    # A feed-forward layer maps equal tokens to equal tokens.
    assert torch.equal(levels[0, 0], levels[1, 0])
    inside = torch.rand(50, 3, 2, generator=torch.Generator().manual_seed(0), dtype=F64)
    assert torch.equal(printed.penalised(inside, quantise(inside, 4)), quantise(inside, 4))


@pytest.mark.parametrize("side", [1.0, 2.0])
@pytest.mark.parametrize("t", [1, 2, 3])
def test_ramp_formula(side, t):
    D, delta = 4, 2.0**-8
    z = torch.linspace(0, side, 10_001, dtype=F64)
    exact = printed.ramp_of_relus(z, t, D, delta, side)
    wrong = printed.ramp_by_cases(z, t, D, delta, side)
    assert float((exact - wrong).abs().max()) == pytest.approx(t * side / (delta * D**2), rel=0.01)
    right = printed.ramp_by_cases(z, t, D, delta, side, shifted=True)
    assert float((exact - right).abs().max()) < 1e-12


@pytest.mark.parametrize("side", [0.5, 1.0, 3.0])
def test_last_step_needs_the_side(side):
    z = torch.linspace(1.01 * side, 2 * side, 100, dtype=F64)
    wrong = printed.levels_with_last_step(z, 4, 2.0**-8, side)
    assert torch.allclose(wrong, torch.full_like(z, side - 1), atol=1e-12)
    right = printed.levels_with_last_step(z, 4, 2.0**-8, side, scaled=True)
    assert float(right.abs().max()) < 1e-12


@pytest.mark.parametrize("D", [2, 5])
def test_zero_is_on_a_ramp(D):
    at = torch.tensor([0.0, 1e-9], dtype=F64)
    assert float(quantise(at, D).max()) < 0.75 / D
    assert float(quantise(torch.tensor([1e-4], dtype=F64), D)) == 1 / D


# -- F5: Theorem 6 --------------------------------------------------------------------------------


def test_negative_numbers_have_one_level():
    levels = quantise(torch.tensor([-0.9, -0.5, -0.1], dtype=F64), 5)
    assert torch.equal(levels, torch.zeros(3, dtype=F64))
    assert len((quantise(torch.tensor([-0.9, -0.5, -0.1], dtype=F64) / 2 + 0.5, 5)).unique()) == 3


@pytest.mark.parametrize("free", ["w", "x1", "y2"])
def test_step_on_a_ramp_is_lost(free):
    worst = [
        float(step_error(prompt_block(D), onto_ramp(prompt_block(D), 3000, free)).max())
        for D in (3, 4, 5)
    ]
    assert min(worst) > 0.8


def test_ten_steps_are_lost():
    far, way = walk_error(prompt_block(5), sample(prompt_block(5), 3000))
    assert far > way / 2


def test_mean_gradient_keeps_every_step():
    block = MeanGradientBlock(tanh_gradient, 2, lr=0.5)
    hard = [onto_ramp(prompt_block(5), 2000, free) for free in ("w", "x1", "y2")]
    errors = mean_gradient_errors(block, [sample(prompt_block(5), 2000), *hard])
    assert len(errors) == 10
    assert max(errors) <= 0.5 * block.fit_error < 0.05


# -- F6: equal tokens -----------------------------------------------------------------------------


@pytest.mark.parametrize("D", [4, 8, 16])
def test_equal_tokens_are_not_rare(D):
    grid = torch.tensor(list(product(range(D), repeat=3)))
    twice = (grid[:, :1] == grid[:, 1:]).any(1) | (grid[:, 1] == grid[:, 2])
    share = float(twice.double().mean())
    assert share == pytest.approx(1 - (D - 1) * (D - 2) / D**2)
    # Distinct numbers, one cell: for every D.
    close = torch.tensor([0.3 / D, 0.6 / D], dtype=F64)
    assert float(quantise(close, D).diff()) == 0.0


@pytest.mark.parametrize("n", [2, 3, 5])
def test_equal_tokens_become_rare(n):
    """Read as a limit: the neglected part of the cube goes to 0 like n(n-1)/2 / D, though it is never empty."""
    generator = torch.Generator().manual_seed(n)
    tokens = torch.rand(20_000, n, generator=generator, dtype=F64)
    shares = {}
    for D in (8, 64, 512):
        cells = (tokens * D).floor().sort(dim=1).values
        shares[D] = float((cells.diff(dim=1) == 0).any(1).double().mean())
        exact = 1 - math.prod(1 - k / D for k in range(n))
        assert shares[D] == pytest.approx(exact, abs=0.015)
    assert 0 < shares[512] < shares[64] < shares[8]
    assert shares[512] < n * (n - 1) / 2 / 512 * 1.5 + 0.005


@pytest.mark.parametrize("seed", range(3))
def test_token_sets_are_not_enough(seed):
    a, b = 0.25, 0.75
    pair = torch.tensor([[a, a, b], [a, b, b]], dtype=F64).unsqueeze(-1)
    assert set(pair[0].flatten().tolist()) == set(pair[1].flatten().tolist())
    assert float((mean_of_tokens(pair)[0, 0] - mean_of_tokens(pair)[1, 0]).abs()) > 0.1
    ids = ContextHead.generic(1, seed).ids(pair)
    assert float((ids[0, 0] - ids[1, 0]).abs()) > 1e-3
    # Equal tokens of one sequence share an id, and for an equivariant f the label.
    assert float((ids[0, 0] - ids[0, 1]).abs()) < 1e-15
