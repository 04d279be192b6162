"""A capture that is not the step is never given away."""

from __future__ import annotations

import pickle

import pytest
import torch
from captured_runs import double
from torch import nn

from icgd.errors import AssumptionViolated, CaptureMismatch
from icgd.mechanisms.machine.capture.check import check_capture
from icgd.mechanisms.machine.capture.step import capture_step
from icgd.mechanisms.machine.capture.textbook import training_step

F = nn.functional
aten = torch.ops.aten


@pytest.fixture
def setting():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    example = torch.randn(6, 4, **double), torch.randn(6, 3, **double)
    return model, optimizer, example


def capture(setting, make_step, **options):
    model, optimizer, example = setting
    return capture_step(make_step(*setting[:2]), model, optimizer, example, fresh=True, **options)


def plain(model, optimizer):
    return training_step(model, optimizer, F.mse_loss)


def scaled(target, factor):
    """Changes a graph: the first node of a kind gives `factor` times as much."""

    def change(graph):
        node = next(n for n in graph.graph.nodes if n.target == target)
        with graph.graph.inserting_after(node):
            wrong = graph.graph.call_function(aten.mul.Tensor, (node, factor))
        node.replace_all_uses_with(wrong, delete_user_cb=lambda user: user is not wrong)
        graph.recompile()

    return change


@pytest.mark.parametrize("target", [aten.mm.default, aten.tanh.default, aten.permute.default])
def test_a_graph_with_a_slightly_wrong_gradient_is_refused(setting, target):
    """Also where the learning rate makes it invisible in the parameters."""
    model, optimizer, example = setting
    captured = capture(setting, plain)
    check_capture(captured, plain(model, optimizer), model, optimizer, [example])
    scaled(target, 1 + 1e-8)(captured.graph)
    with pytest.raises(CaptureMismatch, match="The captured graph and the step disagree: `"):
        check_capture(captured, plain(model, optimizer), model, optimizer, [example])


def test_a_graph_that_is_right_on_the_example_only_is_refused(setting):
    """A batch of other data shows what was frozen."""
    model, optimizer, (x, y) = setting
    captured = capture(setting, plain)
    graph = captured.graph.graph
    place = next(
        n
        for n in graph.nodes
        if n.op == "placeholder" and n.name.startswith(f"arg{len(captured.in_names) - 1}")
    )
    captured.graph.register_buffer("frozen", y.clone())
    with graph.inserting_after(place):
        place.replace_all_uses_with(graph.get_attr("frozen"))
    captured.graph.recompile()
    check_capture(captured, plain(model, optimizer), model, optimizer)
    with pytest.raises(CaptureMismatch):
        check_capture(captured, plain(model, optimizer), model, optimizer, [(x, y + 1)])


def test_parameters_reached_by_another_way_are_noticed(setting):
    parameters = list(setting[0].parameters())

    def make_step(model, optimizer):
        def step(x, y):
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            nn.utils.clip_grad_norm_(parameters, 1e-3)
            optimizer.step()

        return step

    with pytest.raises(
        CaptureMismatch, match=r"call model.parameters\(\) inside the step"
    ) as caught:
        capture(setting, make_step)
    assert caught.value.name.startswith("state.")
    assert caught.value.difference > 0.01
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_gradients_of_the_call_before_are_noticed(setting):
    def make_step(model, optimizer):
        def step(x, y):
            F.mse_loss(model(x), y).backward()
            optimizer.step()

        return step

    with pytest.raises(
        AssumptionViolated, match=r"adds to the gradients .* Call optimizer.zero_grad\(\)"
    ):
        capture(setting, make_step)


def test_counters_in_python_are_noticed(setting):
    calls = []

    def make_step(model, optimizer):
        def step(x, y):
            calls.append(1)
            optimizer.zero_grad()
            (F.mse_loss(model(x), y) * len(calls)).backward()
            optimizer.step()

        return step

    with pytest.raises(
        AssumptionViolated, match=r"depends on more than its tensors: .* A counter in Python"
    ):
        capture(setting, make_step)


def test_adaptive_steps_along_rounding_noise_are_judged_by_it():
    """A bias before a batch mean has no gradient but rounding; Adam makes steps of it all the same."""
    torch.manual_seed(0)

    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

        def forward(self, x):
            h = self.layer(x)
            return self.last(torch.tanh(h - h.mean(0)))

    model = Centred().double()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = training_step(model, optimizer, F.mse_loss)
    example = torch.randn(6, 4, **double), torch.randn(6, 3, **double)
    for fresh in (True, False):
        capture_step(step, model, optimizer, example, fresh=fresh)
