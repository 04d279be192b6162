"""The user's own step as a function of named numbers; the live objects are afterwards what they were."""

from __future__ import annotations

import copy

import torch
from tests.mechanisms.machine.table import data, mlp, trained
from torch.nn import functional

from icgd.oracle.eager_step import EagerStep, one_ulp_away


def step_of(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def everything(model, optimizer):
    state = {k: {n: v.clone() for n, v in s.items()} for k, s in optimizer.state.items()}
    weights = [p.detach().clone() for p in model.parameters()]
    return (
        weights,
        state,
        [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups],
    )


def start_of(model):
    return {f"param.{n}": p.detach().clone() for n, p in model.named_parameters()}


def test_round_after_round_it_is_pytorchs_own_training():
    model = mlp("tanh")
    X, Y = data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2)
    eager = EagerStep(step_of(model, optimizer), model, optimizer)
    native = copy.deepcopy(model)
    rows = [torch.arange(k, k + 6) for k in (0, 6, 12, 18)]
    own = torch.optim.SGD(native.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2)
    losses = trained(native, own, functional.mse_loss, X, Y, rows)
    values = start_of(model)
    for at, loss in zip(rows, losses, strict=True):
        values = eager(values, (X[at], Y[at]))
        assert float(values.pop("out.0")) == loss
    for name, weight in native.named_parameters():
        assert torch.equal(values[f"param.{name}"], weight)


def test_everything_is_put_back():
    model = mlp("relu")
    X, Y = data()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    step = step_of(model, optimizer)
    step(X[:6], Y[:6])
    gradient = model[0].weight.grad
    before = everything(model, optimizer)
    changed = {name: torch.zeros_like(value) for name, value in start_of(model).items()}
    EagerStep(step, model, optimizer)({**changed, "hyper.0.lr": torch.tensor(7.0)}, (X, Y))
    weights, state, groups = everything(model, optimizer)
    assert all(map(torch.equal, weights, before[0]))
    assert groups == before[2]
    for key, entries in before[1].items():
        assert all(torch.equal(state[key][n], value) for n, value in entries.items())
    assert model[0].weight.grad is gradient


def test_hyper_parameters_are_those_that_are_given():
    model = mlp("tanh")
    X, Y = data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    eager = EagerStep(step_of(model, optimizer), model, optimizer)
    start = start_of(model)
    whole = eager(start, (X, Y))
    half = eager({**start, "hyper.0.lr": torch.tensor(0.05, dtype=torch.float64)}, (X, Y))
    for name, value in start.items():
        torch.testing.assert_close(
            2 * (half[name] - value), whole[name] - value, rtol=1e-9, atol=1e-15
        )


def test_a_twin_moves_weights_by_one_unit_and_nothing_else():
    values = {
        "param.w": torch.tensor([0.0, 1.0, -3.0], dtype=torch.float64),
        "data.0": torch.ones(2),
    }
    near = one_ulp_away(values, seed=3)
    assert near["data.0"] is values["data.0"]
    for one, other in zip(values["param.w"], near["param.w"], strict=True):
        assert float(other) in (
            float(torch.nextafter(one, torch.tensor(torch.inf, dtype=one.dtype))),
            float(torch.nextafter(one, torch.tensor(-torch.inf, dtype=one.dtype))),
        )
