"""Looking up and scattering by numbers that are data, against PyTorch."""

from __future__ import annotations

import torch
from captured_runs import double, function_gap
from torch import nn

torch.manual_seed(0)
X = torch.randn(4, 5, **double)
I = torch.tensor([2, 0, 2])  # noqa: E741


def gap(function, *example):
    """Values and gradients with respect to the first argument."""

    def both(x, *rest):
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            value = function(leaf, *rest)
            return value, torch.autograd.grad(value.square().sum(), leaf)[0]

    return function_gap(both, *example)


def test_rows_by_computed_number():
    assert gap(lambda x, i: x[i] * 2, X, I) <= 1e-15
    assert gap(lambda x, i: x[:, i] * 2, X, I) <= 1e-15
    assert gap(lambda x, i: x.index_select(1, i), X, I) <= 1e-15
    assert gap(lambda x, i: nn.functional.embedding(i, x, padding_idx=0), X, I) <= 1e-15


def test_entries_by_computed_number():
    assert gap(lambda x: x.gather(1, x.argmin(1, keepdim=True)), X) <= 1e-15
    hot = lambda x: torch.zeros(4, 5, **double).scatter(1, x.argmax(1, keepdim=True), 1.0)  # noqa: E731
    assert gap(lambda x: hot(x) * x, X) <= 1e-15
    assert gap(lambda x, i: nn.functional.one_hot(i, 4).double() @ x, X, I) <= 1e-15


def test_sums_by_computed_number():
    groups = torch.tensor([0, 1, 0, 1])
    assert gap(lambda x, g: torch.zeros(2, 5, **double).index_add(0, g, x), X, groups) <= 1e-15
    columns = torch.tensor([[0, 1, 2, 0, 1]] * 4)
    into = torch.zeros(4, 3, **double)
    assert gap(lambda x, c: into.scatter_add(1, c, x), X, columns) <= 1e-15
