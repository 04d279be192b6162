"""Norms against PyTorch: values and gradients of data, weights and biases."""

from __future__ import annotations

import pytest
import torch
from captured_runs import double, largest_gap, textbook
from torch import nn

F = nn.functional
CASES = {
    "layer": (nn.Linear(6, 8), nn.LayerNorm(8)),
    "layer without weights": (nn.Linear(6, 8), nn.LayerNorm(8, elementwise_affine=False)),
    "root mean square": (nn.Linear(6, 8), nn.RMSNorm(8)),
    "batch": (nn.Linear(6, 8), nn.BatchNorm1d(8)),
    "group": (nn.Linear(6, 8), nn.Unflatten(1, (4, 2)), nn.GroupNorm(2, 4), nn.Flatten()),
    "weight": (nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)),),
}


@pytest.mark.parametrize("name", CASES)
def test_norms_are_trained_through(name):
    torch.manual_seed(0)
    model = nn.Sequential(*CASES[name], nn.Tanh(), nn.Linear(8, 3)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    runs = [(torch.randn(5, 6, **double), torch.randint(0, 3, (5,))) for _ in range(3)]
    assert largest_gap(textbook(F.cross_entropy), model, optimizer, runs) <= 1e-14
