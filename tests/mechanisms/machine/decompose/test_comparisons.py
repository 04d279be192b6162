"""Comparisons and choices against PyTorch, ties included."""

from __future__ import annotations

import pytest
import torch
from captured_runs import double, function_gap, slope

from icgd.mechanisms.machine.capture.function import capture_function
from icgd.mechanisms.machine.decompose.ops import remaining_ops

X = torch.tensor([[-1.0, 0.0, 0.5, 2.0], [0.0, 0.0, -0.5, 2.0]], **double)
CASES = {
    "orders": lambda x: sum(
        torch.where(c, x, -2 * x) for c in (x > 0, x >= 0, x < 0.5, x <= 0.5, x == 0, x != 2)
    ),
    "orders of tensors": lambda x: (
        torch.where(x >= x.flip(1), x, 3 * x) + torch.where(x < x.flip(1), x, x * x)
    ),
    "logic": lambda x: torch.where((x > 0) & (x < 1) | ~(x > -0.7) ^ (x == 2), x, x * x),
    "any and all": lambda x: torch.where((x > 1).any(1, keepdim=True) & (x < 9).all(), x, -x),
    "maximum": lambda x: torch.maximum(x, x.flip(1)) + torch.minimum(x, x * x),
    "clamp": lambda x: x.clamp(-0.7, 0.6) + x.clamp(min=0.2) * x.clamp(max=x.mean()),
    "size": lambda x: x.abs() * x.sign(),
    "masked": lambda x: x.masked_fill(x > 0.7, 0.25) + x.masked_fill(torch.eye(2, 4) > 0, 0.0),
    "where with numbers": lambda x: torch.where(x > 0, 1.5, x) + torch.where(x > 0, x, -0.5),
}


@pytest.mark.parametrize("name", CASES)
def test_choices_and_their_gradients(name):
    function = CASES[name]
    assert function_gap(lambda x: (function(x), slope(function)(x)), X) <= 1e-15


def test_one_strict_comparison_is_enough():
    captured = capture_function(CASES["orders"], (X,))
    ops = remaining_ops(captured)
    assert {name for name in ops if name.startswith(("aten.g", "aten.l", "aten.n"))} <= {
        "aten.gt.Tensor",
        "aten.neg.default",
    }
