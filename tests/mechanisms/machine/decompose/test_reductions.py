"""Sums, norms and extremes against PyTorch, values and gradients."""

from __future__ import annotations

import pytest
import torch
from captured_runs import double, function_gap, slope

torch.manual_seed(0)
X = torch.randn(4, 5, **double)
CASES = {
    "means": lambda x: x.mean() + x.mean(1).sum() + x.mean((0, 1), keepdim=True) + x.sum(0).mean(),
    "variances": lambda x: x.var() + x.std(1).sum() + x.var(0, correction=0),
    "norms": lambda x: x.norm() + x.norm(1) + torch.linalg.norm(x, float("inf"), dim=1).sum() * x,
    "extremes": lambda x: x.max() * x.min() + x.amax(1).sum() + x.amin(0),
    "extremes with places": lambda x: x.max(1).values.sum() + x.min(0)[0],
    "log of summed exponentials": lambda x: (
        torch.logsumexp(x, 1) + torch.logsumexp(x * 100, 0).sum()
    ),
    "partial sums": lambda x: x.cumsum(1) * x.cumsum(0),
    "matrix products": lambda x: x @ x.t() @ x @ x[0] + x[0].dot(x[1]),
    "sums of products": lambda x: torch.addmm(x[:, :4], x, x.t(), beta=0.5, alpha=2.0)[0].addmv(
        x[:, :4], x[0, :4]
    ),
    "bilinear": lambda x: torch.nn.functional.bilinear(x, x, torch.ones(2, 5, 5, **double) * x[0]),
    "fused": lambda x: (
        torch.addcmul(x, x, x, value=0.5).lerp(x * 2, 0.7).addcdiv(x, x * x + 1, value=2.0)
    ),
    "powers": lambda x: x.abs() ** 1.5 + x**3 + 2**x + x.abs() ** x + (x * x + 1) ** -2.5 + x**0,
    "elementary": lambda x: (
        x.expm1() + x.abs().log1p() + x.exp2() + x.abs().log2() + x.tan() + x.cosh()
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_reductions_and_their_gradients(name):
    function = CASES[name]
    assert function_gap(lambda x: (function(x), slope(function)(x)), X) <= 2e-14


def test_the_largest_of_far_apart_numbers_keeps_its_digits():
    far = torch.tensor([[600.0, -600.0, 0.0], [-600.0, -600.0, -601.0]], **double)
    assert function_gap(lambda x: torch.logsumexp(x, 1), far) <= 3e-16
