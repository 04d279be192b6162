"""Every node knows the line of the user's that it comes from, and its phase."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from captured_runs import double
from torch import nn

from icgd.mechanisms.machine.capture.captured import Origin, origin_of
from icgd.mechanisms.machine.capture.function import capture_function
from icgd.mechanisms.machine.capture.step import capture_step
from icgd.mechanisms.machine.capture.textbook import training_step

F = nn.functional
THIS = "test_origins.py"
X, Y = torch.linspace(-1, 1, 12, **double).reshape(3, 4), torch.ones(3, 4, **double)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 4)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        h = h * torch.sigmoid(h)
        return self.second(h)


class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(torch.sin(parameter.grad), alpha=-group["lr"])


def own_step(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        for parameter in model.parameters():
            parameter.grad.clamp_(-0.05, 0.05)
        optimizer.step()
        return loss

    return step


def lines(captured, op):
    """(line text, phase) of every node of an operation."""
    return [
        (origin_of(n).text, origin_of(n).phase)
        for n in captured.graph.graph.nodes
        if str(n.target) == f"aten.{op}.default"
    ]


@pytest.fixture(scope="module", params=[False, True])
def captured(request):
    torch.manual_seed(0)
    model = Model().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = own_step(model, optimizer)
    return capture_step(step, model, optimizer, (X, Y), fresh=False, flat=request.param)


def test_every_node_has_an_origin_in_a_file_without_folders(captured):
    lines = Path(__file__).read_text().splitlines()
    nodes = [n for n in captured.graph.graph.nodes if n.op == "call_function"]
    known = [origin_of(n) for n in nodes if "_local_scalar" not in str(n.target)]
    assert known
    for origin in known:
        assert origin.file == THIS
        assert lines[origin.line - 1].strip() == origin.text
        assert origin.phase in ("forward", "backward", "update")


def test_the_forward_pass_is_the_line_of_the_model(captured):
    assert lines(captured, "tanh") == [("h = torch.tanh(self.first(x))", "forward")]
    assert lines(captured, "sigmoid") == [("h = h * torch.sigmoid(h)", "forward")]


def test_the_backward_pass_carries_the_lines_of_the_forward_pass(captured):
    products = lines(captured, "mm")
    assert products.count(("h = torch.tanh(self.first(x))", "forward")) == 1
    assert products.count(("return self.second(h)", "forward")) == 1
    assert products.count(("h = torch.tanh(self.first(x))", "backward")) == 1
    assert products.count(("return self.second(h)", "backward")) == 2
    assert len(products) == 5


def test_clipping_and_stepping_are_the_update(captured):
    texts = {
        (origin_of(n).text, origin_of(n).phase)
        for n in captured.graph.graph.nodes
        if n.op == "call_function" and origin_of(n).phase == "update"
    }
    assert {text for text, _ in texts} == {
        "nn.utils.clip_grad_norm_(model.parameters(), 0.1)",
        "parameter.grad.clamp_(-0.05, 0.05)",
        "optimizer.step()",
    }


def test_phases_come_in_order(captured):
    order = ["forward", "backward", "update"]
    phases = [
        order.index(origin_of(n).phase)
        for n in captured.graph.graph.nodes
        if n.op == "call_function" and "_local_scalar" not in str(n.target)
    ]
    assert phases == sorted(phases)


def test_an_optimizer_of_ones_own_is_named_by_its_lines():
    torch.manual_seed(0)
    model = Model().double()
    optimizer = Own(model.parameters())
    step = training_step(model, optimizer, F.mse_loss)
    captured = capture_step(step, model, optimizer, (X, Y), fresh=True)
    text = 'parameter.add_(torch.sin(parameter.grad), alpha=-group["lr"])'
    assert lines(captured, "sin") == [(text, "update")] * 4


def test_layers_of_a_sequence_are_named_by_number():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = training_step(model, optimizer, nn.MSELoss())
    captured = capture_step(step, model, optimizer, (X, Y), fresh=True)
    ((text, phase),) = lines(captured, "tanh")
    assert (text.endswith("# 1: Tanh"), phase) == (True, "forward")


def test_functions_have_lines_too():
    def function(a):
        b = torch.exp(a)
        return torch.sqrt(b)

    captured = capture_function(function, (X,))
    assert lines(captured, "exp") == [("b = torch.exp(a)", "")]
    assert lines(captured, "sqrt") == [("return torch.sqrt(b)", "")]


def test_an_origin_reads_like_a_place():
    assert str(Origin("a.py", 3, "x = 1", "forward")) == "a.py:3: x = 1"
    assert str(Origin()) == "inside PyTorch"
