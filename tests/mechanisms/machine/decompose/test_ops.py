"""The list of operations is the list: what captures hold is in it, and what is not there is refused."""

from __future__ import annotations

import torch
from captured_runs import double
from torch import nn

from icgd.mechanisms.machine.capture.function import capture_function
from icgd.mechanisms.machine.capture.step import capture_step
from icgd.mechanisms.machine.capture.textbook import training_step
from icgd.mechanisms.machine.decompose.ops import machine_ops, remaining_ops


def test_names_are_those_of_operations():
    for name in machine_ops():
        space, _, rest = name.partition(".")
        if space == "aten":
            packet, _, overload = rest.partition(".")
            assert hasattr(getattr(torch.ops.aten, packet), overload)
        else:
            assert space == "py"


def test_counts_are_of_the_graph():
    captured = capture_function(
        lambda a, b: torch.relu(a @ b) + torch.relu(a), (torch.eye(3, **double),) * 2
    )
    assert remaining_ops(captured) == {
        "aten.mm.default": 1,
        "aten.relu.default": 2,
        "aten.add.Tensor": 1,
    }


def test_a_plain_step_of_sgd_needs_a_dozen_kinds():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    step = training_step(model, optimizer, nn.functional.mse_loss)
    example = torch.randn(5, 3, **double), torch.randn(5, 2, **double)
    ops = remaining_ops(capture_step(step, model, optimizer, example, fresh=False, flat=True))
    assert set(ops) <= machine_ops()
    assert sum(ops.values()) <= 50
