"""The block that averages gradients: its error is the fit's, at every step, in the largest norm."""

from __future__ import annotations

import pytest
import torch

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.papers.deep.appendix_f.cases import exact_step
from icgd.papers.deep.appendix_f.mean_gradient import (
    TOKEN,
    MeanGradientBlock,
    ridge_units,
    tanh_gradient,
)

F64 = torch.float64


def prompts(n, count=3000, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x, y = (2 * torch.rand(count, k, generator=generator, dtype=F64) - 1 for k in (n + 1, n))
    return x, y, 2 * torch.rand(count, generator=generator, dtype=F64) - 1


@pytest.fixture(scope="module")
def block():
    return MeanGradientBlock(tanh_gradient, 2, lr=0.5)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_step_is_within_the_fit(n):
    block = MeanGradientBlock(tanh_gradient, n, lr=0.5)
    x, y, w = prompts(n)
    for made in block.run(block.tokens(x, y, w), 10):
        miss = (made - exact_step(x[:, :n], y, w)).abs().max()
        assert float(miss) <= 0.5 * block.fit_error
        w = made


def test_the_fit_gets_better_with_its_units():
    errors = [MeanGradientBlock(tanh_gradient, 1, lr=0.5, n_knots=k).fit_error for k in (4, 8, 16)]
    assert errors[0] > 3 * errors[1] > 9 * errors[2]
    assert errors[2] < 0.02


def test_corners_of_the_cube(block):
    ends = torch.tensor([-1.0, 1.0], dtype=F64)
    corner = torch.cartesian_prod(*[ends] * 6)
    x, y, w = corner[:, :3], corner[:, 3:5], corner[:, 5]
    (made,) = block.run(block.tokens(x, y, w), 1)
    assert float((made - exact_step(x[:, :2], y, w)).abs().max()) <= 0.5 * block.fit_error


def test_tokens_are_left_as_they_came(block):
    x, y, w = prompts(2, 50)
    before = block.tokens(x, y, w)
    after = block(before)
    kept = [TOKEN.slice(s).start for s in ("x", "y", "t", "grad")]
    assert torch.equal(after[..., kept], before[..., kept])
    weights = after[..., TOKEN.slice("w").start]
    assert torch.equal(weights, weights[:, :1].expand_as(weights))
    assert float(weights.abs().max()) <= 1.0


def test_the_test_token_has_no_say(block):
    x, y, w = prompts(2, 50)
    other = x.clone()
    other[:, -1] = -other[:, -1]
    (a,), (b,) = (block.run(block.tokens(v, y, w), 1) for v in (x, other))
    assert torch.equal(a, b)
    # With its flag up it would have one.
    leaky = block.tokens(x, y, w)
    leaky[:, -1, TOKEN.slice("t").start] = 1.0
    (c,) = block.run(leaky, 1)
    assert float((a - c).abs().max()) > 0.05


def test_ridge_units():
    a, b = ridge_units(5)
    assert len(a) == len(b) == 3 * 5**2 + 1
    assert torch.allclose(a[1:].abs().sum(1), torch.ones(75, dtype=F64))
    assert float(a[0].abs().sum()) == 0.0
    assert float(b.abs().max()) <= 1.0


def test_bad_input(block):
    x, y, w = prompts(2, 3)
    with pytest.raises(AssumptionViolated, match=r"`w` must lie in \[-1, 1\].*Scale the data"):
        block.tokens(x, y, 2 + w)
    with pytest.raises(InvalidParameter, match="n\\+1 = 3 inputs"):
        block.tokens(x[:, :2], y, w)
    for options in ({"lr": -1.0}, {"lr": 0.5, "n_knots": 0}):
        with pytest.raises(InvalidParameter):
            MeanGradientBlock(tanh_gradient, 2, **options)
    with pytest.raises(InvalidParameter, match="n_examples"):
        MeanGradientBlock(tanh_gradient, 0, lr=0.5)
