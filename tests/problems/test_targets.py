"""One rule for targets: every model and every construction refuses what a loss is not made for."""

from __future__ import annotations

import pytest
import torch

import icgd
from icgd.problems.losses import LOSSES
from icgd.problems.targets import check_targets, fitting_targets

X = torch.linspace(-0.9, 0.9, 12, dtype=torch.float64).reshape(6, 2)
WRONG = {
    "logistic": (
        [-1.0, 1.0, -1.0, 1.0, 1.0, -1.0],
        "must be 0 or 1 for a logistic model. Got -1.0",
    ),
    "poisson": ([1.0, 0.0, 2.0, -0.5, 1.0, 1.0], "must be >= 0 for a Poisson model. Got -0.5"),
}


def through_linear_model(loss, y):
    program = icgd.compile(icgd.LinearModel(2, loss), icgd.GD(0.1))
    return program.run(X, y, steps=1)


def through_stack(loss, y, method="stack"):
    net = icgd.Network((2, 2, 1), "tanh", loss=loss)
    program = icgd.compile(net, icgd.GD(0.1), method=method)
    return program.run(X, y.unsqueeze(-1), init=net.init(0), steps=1)


def through_forward_mode(loss, y):
    return through_stack(loss, y, "forward_mode")


def through_verify(loss, y):
    net = icgd.Network((2, 2, 1), "tanh", loss=loss)
    program = icgd.compile(net, icgd.GD(0.1), method="stack")
    return icgd.verify(program, X, y.unsqueeze(-1), init=net.init(0), steps=1)


@pytest.mark.parametrize("loss", WRONG)
@pytest.mark.parametrize(
    "through", [through_linear_model, through_stack, through_forward_mode, through_verify]
)
def test_targets_without_a_minimum_are_refused_everywhere(through, loss):
    values, message = WRONG[loss]
    with pytest.raises(icgd.InvalidParameter, match=message):
        through(loss, torch.tensor(values, dtype=torch.float64))


@pytest.mark.parametrize("loss", WRONG)
def test_right_targets_train(loss):
    y = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    for through in (through_linear_model, through_stack):
        through(loss, y)


@pytest.mark.parametrize("loss", WRONG)
def test_the_refused_targets_have_a_loss_without_a_lower_bound(loss):
    values = torch.tensor(WRONG[loss][0], dtype=torch.float64)
    bad = values[(values < 0)][0]
    far = torch.tensor([-1e3, -1e6], dtype=torch.float64)
    near, further = LOSSES[loss].of(far, bad.expand(2))
    assert further < near < -100


def test_margins_want_signs():
    with pytest.raises(icgd.InvalidParameter, match=r"be -1 or \+1.*Encode 0/1 as 2 \* y - 1"):
        check_targets(LOSSES["squared_hinge"], torch.tensor([[1.0, 0.0]]), "Y")


def test_encoding_as_the_message_says_is_accepted():
    y = torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64)
    check_targets(LOSSES["logistic"], (y + 1) / 2)
    check_targets(LOSSES["squared_hinge"], 2 * ((y + 1) / 2) - 1)


@pytest.mark.parametrize("radius", [0.3, 1.0, 8.0])
@pytest.mark.parametrize("name", LOSSES)
def test_targets_made_for_a_loss_are_accepted(name, radius):
    uniform = torch.linspace(-1, 1, 21, dtype=torch.float64)
    made = fitting_targets(LOSSES[name], uniform, radius)
    check_targets(LOSSES[name], made)
    assert name == "squared_hinge" or float(made.abs().max()) <= radius
