"""Training programs against PyTorch: every round within its bound, the run beside a twin."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
from tests.mechanisms.machine.table import (
    ACTIVATIONS,
    LOSSES,
    OPTIMIZERS,
    Residual,
    Shared,
    data,
    mlp,
)
from torch.nn import functional

import icgd
from icgd.errors import OutOfRange

FAST = [
    ("relu", "mse", "momentum", "fixed", 0),
    ("tanh", "cross_entropy", "nesterov", "float", 1),
    ("gelu", "huber", "decay", "fixed", 2),
    ("softplus", "poisson", "dampening", "float", 3),
]
ALL = list(itertools.product(ACTIVATIONS, LOSSES))


def verified(activation, loss, optimizer, heads, seed, **how):
    function, kind = LOSSES[loss]
    X, Y = data(kind, n_rows=14, n_in=4, seed=seed)
    model = mlp(activation, widths=(4, 6, 5, 3), seed=seed)
    settings = OPTIMIZERS[optimizer]
    lr = 0.01 if settings.get("maximize") else 0.1
    program = icgd.compile(
        model,
        torch.optim.SGD(model.parameters(), lr=lr, **settings),
        loss=function,
        example=(X[:6], Y[:6]),
        heads=heads,
    )
    return icgd.verify(program, X, Y, **{"epochs": 2, "shuffle": seed, **how})


def holds(check):
    assert check.verdict == "passed", check.notes
    for one in check.rounds:
        assert one.within
        assert one.round_error <= one.round_bound
        assert one.near_kink > 0 or one.round_bound <= 1e-9
    assert check.max_error <= max(1e-12, 100 * check.twin)
    assert check.max_round_error <= 1e-12
    assert check.prediction_error <= check.prediction_bound <= 1e-9


@pytest.mark.parametrize(("activation", "loss", "optimizer", "heads", "seed"), FAST)
def test_every_round_is_within_its_bound(activation, loss, optimizer, heads, seed):
    holds(verified(activation, loss, optimizer, heads, seed))


@pytest.mark.slow
@pytest.mark.parametrize("heads", ["fixed", "float"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("activation", "loss"), ALL)
def test_every_activation_and_loss(activation, loss, seed, heads):
    names = list(OPTIMIZERS)
    optimizer = names[(ALL.index((activation, loss)) + seed) % len(names)]
    holds(verified(activation, loss, optimizer, heads, seed))


@pytest.mark.parametrize("kind", [Residual, Shared])
def test_models_with_a_forward_of_their_own(kind):
    torch.manual_seed(0)
    model = kind().double()
    X, Y = data("real", n_rows=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    program = icgd.compile(model, optimizer, loss=functional.mse_loss, example=(X[:4], Y[:4]))
    holds(icgd.verify(program, X, Y, epochs=1))


def test_all_tapes_are_executed_and_nothing_is_touched():
    X, Y = data("real", n_rows=10, n_in=4)
    model = mlp("tanh", widths=(4, 5, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    program = icgd.compile(
        model, optimizer, loss=functional.mse_loss, example=(X[:4], Y[:4]), batch_sizes=[1]
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    check = icgd.verify(program, X, Y, epochs=1, batch_size=4)
    tapes = {one.tape for one in check.rounds}
    assert tapes == {"first:4", "step:4", "step:2", "first:1", "step:1", "first:2"}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not optimizer.state


def test_a_schedule_is_followed_and_the_weights_of_the_layer_are_the_same_for_all():
    X, Y = data("class", n_rows=8, n_in=4)
    model = mlp("tanh", widths=(4, 5, 3))

    def compiled(lr, rows):
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        return icgd.compile(
            model, optimizer, loss=functional.cross_entropy, example=(X[rows], Y[rows])
        )

    program, other = compiled(0.1, slice(0, 4)), compiled(0.02, slice(4, 8))
    before = {name: value.clone() for name, value in program.state_dict().items()}
    check = icgd.verify(program, X, Y, epochs=2, batch_size=4, schedule=[0.1, 0.05, 0.2, 0.01])
    holds(check)
    for name, value in other.state_dict().items():
        assert torch.equal(value, before[name])
        assert torch.equal(program.state_dict()[name], before[name])


def test_an_altered_learning_rate_is_noticed():
    """The user's optimizer has another lr than the program arrives with: rounds are off, far beyond bounds."""
    X, Y = data("real", n_rows=8, n_in=4)
    model = mlp("tanh", widths=(4, 5, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    program = icgd.compile(model, optimizer, loss=functional.mse_loss, example=(X[:4], Y[:4]))

    def other_step(x, y):
        optimizer.zero_grad()
        loss = 1.001 * functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    check = icgd.verify(program, X, Y, step=other_step)
    assert check.verdict == "failed"
    assert "beyond their bounds" in check.notes[-1]


def test_the_verdict_can_be_read_and_written():
    check = verified("tanh", "mse", "plain", "fixed", 0, epochs=1)
    for word in ("run error", "twin", "<="):
        assert word in repr(check)
    described = json.loads(json.dumps(check.to_dict()))
    assert described["verdict"] == "passed"
    assert len(described["rounds"]) == len(check.rounds)
    assert check.table().row_count >= 4


def test_a_sound_program_that_leaves_its_range_says_so():
    X, Y = data("real", n_rows=4, n_in=4)
    model = mlp("tanh", widths=(4, 5, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = icgd.compile(
        model, optimizer, loss=functional.mse_loss, example=(X, Y), heads="fixed", radius=64
    )
    with pytest.raises(OutOfRange, match="radius"):
        icgd.verify(program, 1e4 * X, 1e4 * Y)
