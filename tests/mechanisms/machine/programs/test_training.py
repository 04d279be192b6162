"""Training in context against PyTorch with the user's own optimizer object."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.mechanisms.machine.table import (
    ACTIVATIONS,
    LOSSES,
    OPTIMIZERS,
    Residual,
    Shared,
    apart,
    data,
    f64,
    mlp,
    trained,
)
from torch import nn
from torch.nn import functional

import icgd
from icgd.errors import AssumptionViolated, InvalidParameter


def ulp_apart(model):
    """The same model, every weight up or down by one unit in the last place, or left."""
    twin = copy.deepcopy(model)
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in twin.parameters():
            p.mul_(1 + (torch.randint(0, 3, p.shape, generator=g) - 1).to(f64) * 2.0**-52)
    return twin


def sgd(model, settings):
    return torch.optim.SGD(model.parameters(), lr=0.05, **settings)


def compare(model, settings, loss, kind, *, batch_size, updates, heads=None):
    """(run error, twin) after so many updates."""
    X, Y = data(kind)
    epochs = -(-updates * batch_size // len(X))
    program = icgd.compile(
        model,
        sgd(model, settings),
        loss=loss,
        example=(X[:batch_size], Y[:batch_size]),
        heads=heads,
    )
    before = copy.deepcopy(model.state_dict())
    run = program.run(X, Y, epochs=epochs, batch_size=batch_size, shuffle=3)
    assert all(torch.equal(before[n], p) for n, p in model.state_dict().items())
    g = torch.Generator().manual_seed(3)
    batches = [
        rows
        for _ in range(epochs)
        for rows in torch.randperm(len(X), generator=g).split(batch_size)
    ]
    twin = ulp_apart(model)
    trained(twin, sgd(twin, settings), loss, X, Y, batches)
    exact = copy.deepcopy(model)
    losses = trained(exact, sgd(exact, settings), loss, X, Y, batches)
    assert run.losses.shape == (len(batches),)
    torch.testing.assert_close(run.losses, torch.tensor(losses, dtype=f64), rtol=1e-9, atol=1e-10)
    return apart(run.state_dict, exact), apart(twin.state_dict(), exact)


def within(error, twin):
    return error <= max(1e-12, 100 * twin)


FEW = [*zip(ACTIVATIONS, [*LOSSES, "mse"], strict=True)]


@pytest.mark.parametrize("heads", ["fixed", "float"])
def test_every_activation_and_every_loss_train_as_in_pytorch(heads):
    """Each activation once, each loss once; the slow test below has every pair."""
    wrong = {}
    for activation, name in FEW:
        loss, kind = LOSSES[name]
        pair = compare(
            mlp(activation), {"momentum": 0.9}, loss, kind, batch_size=8, updates=20, heads=heads
        )
        if not within(*pair):
            wrong[activation, name] = pair
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("heads", ["fixed", "float"])
def test_every_pair_over_two_hundred_updates(heads, seed):
    wrong = {}
    for activation in ACTIVATIONS:
        for name, (loss, kind) in LOSSES.items():
            settings = list(OPTIMIZERS.values())[(seed + len(name)) % 5]
            model = mlp(activation, seed=seed)
            pair = compare(model, settings, loss, kind, batch_size=8, updates=200, heads=heads)
            if not within(*pair):
                wrong[activation, name] = pair
    assert not wrong


def test_every_optimizer_setting():
    wrong = {}
    for name, settings in OPTIMIZERS.items():
        pair = compare(mlp(), settings, functional.cross_entropy, "class", batch_size=8, updates=12)
        if not within(*pair):
            wrong[name] = pair
    assert not wrong


@pytest.mark.parametrize("kind", [Residual, Shared])
def test_models_with_a_forward_of_their_own(kind):
    torch.manual_seed(0)
    model = kind().to(f64)
    settings = {"momentum": 0.9, "nesterov": True}
    assert within(*compare(model, settings, functional.mse_loss, "real", batch_size=8, updates=20))


@pytest.mark.parametrize("batch_size", [1, 5, 24])
def test_batches_of_any_size_and_a_smaller_last_one(batch_size):
    updates = 30 if batch_size == 1 else 12
    assert within(
        *compare(
            mlp("relu"),
            {"momentum": 0.9, "dampening": 0.5},
            functional.cross_entropy,
            "class",
            batch_size=batch_size,
            updates=updates,
        )
    )


def test_frozen_parameters_groups_and_schedules():
    X, Y = data("class")
    model = mlp()
    model[0].weight.requires_grad_(False)

    def optimizer_of(m):
        first, *rest = [p for p in m.parameters() if p.requires_grad]
        groups = [{"params": [first], "lr": 0.2, "momentum": 0.5}, {"params": rest}]
        return torch.optim.SGD(groups, lr=0.05, weight_decay=1e-3)

    def schedule(optimizer):
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=9)

    optimizer = optimizer_of(model)
    program = icgd.compile(model, optimizer, loss=functional.cross_entropy, example=(X[:8], Y[:8]))
    run = program.run(X, Y, epochs=3, batch_size=8, schedule=schedule)
    exact = copy.deepcopy(model)
    stepped = optimizer_of(exact)
    pace = schedule(stepped)
    for k in range(9):
        rows = torch.arange(24).split(8)[k % 3]
        trained(exact, stepped, functional.cross_entropy, X, Y, [rows])
        pace.step()
    assert apart(run.state_dict, exact) <= 1e-13
    assert torch.equal(run.state_dict["0.weight"], model[0].weight)


def test_what_a_run_gives_back_can_go_on_in_pytorch():
    X, Y = data("class")
    model, settings = mlp("silu"), {"momentum": 0.9, "nesterov": True}
    program = icgd.compile(
        model, sgd(model, settings), loss=functional.cross_entropy, example=(X[:8], Y[:8])
    )
    run = program.run(X, Y, epochs=1, batch_size=8)
    exact = copy.deepcopy(model)
    stepped = sgd(exact, settings)
    rows = list(torch.arange(24).split(8))
    trained(exact, stepped, functional.cross_entropy, X, Y, rows)
    theirs = copy.deepcopy(model)
    theirs.load_state_dict(run.state_dict)
    on = sgd(theirs, settings)
    on.load_state_dict(run.optimizer_state)
    for m, o in ((exact, stepped), (theirs, on)):
        trained(m, o, functional.cross_entropy, X, Y, rows)
    assert apart(theirs.state_dict(), exact) <= 1e-13
    prediction = run.predict(X)
    model.load_state_dict(run.state_dict)
    assert float((prediction - model(X).detach()).abs().max()) <= 1e-13


def test_a_loop_body_of_your_own():
    """Two losses, clipping and accumulation, written by hand."""
    X, Y = data("real")
    model = mlp("tanh")
    optimizer = sgd(model, {"momentum": 0.9})

    def body(m, o):
        def step(x, y):
            o.zero_grad()
            for half in (slice(0, 4), slice(4, 8)):
                z = m(x[half])
                loss = functional.mse_loss(z, y[half]) + 1e-3 * sum(
                    p.abs().sum() for p in m.parameters()
                )
                (loss / 2).backward()
            nn.utils.clip_grad_value_(m.parameters(), 0.05)
            o.step()
            return loss.detach(), z.detach().abs().max()

        return step

    tape = icgd.trace(
        body(model, optimizer), model=model, optimizer=optimizer, example=(X[:8], Y[:8])
    )
    program = icgd.compile(tape)
    run = program.run(X, Y, epochs=2, batch_size=8)
    exact = copy.deepcopy(model)
    step = body(exact, sgd(exact, {"momentum": 0.9}))
    outputs = [step(X[rows], Y[rows]) for _ in range(2) for rows in torch.arange(24).split(8)]
    assert apart(run.state_dict, exact) <= 1e-13
    for k, (loss, largest) in enumerate(outputs):
        assert float((run.outputs["out.0"][k] - loss).abs()) <= 1e-13
        assert float((run.outputs["out.1"][k] - largest).abs()) <= 1e-13


def test_weights_depend_on_shapes_alone():
    """The same layer for other data, other initial weights, other learning rates and schedules."""
    X, Y = data("class")

    def weights(seed, lr, rows):
        model = mlp(seed=seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        program = icgd.compile(
            model, optimizer, loss=functional.cross_entropy, example=(X[rows], Y[rows])
        )
        return program.state_dict(), program.mask

    (one, mask), (other, same) = (
        weights(0, 0.1, slice(0, 8)),
        weights(5, 0.003, slice(8, 16)),
    )
    assert one.keys() == other.keys()
    assert all(torch.equal(one[n], other[n]) for n in one)
    assert mask.schedules.keys() == same.schedules.keys()


def test_single_precision():
    X, Y = (t.float() for t in data("real"))
    model = mlp("tanh").float()
    optimizer = sgd(model, {"momentum": 0.9})
    program = icgd.compile(model, optimizer, loss=functional.mse_loss, example=(X[:8], Y[:8]))
    assert program.dtype == torch.float32
    run = program.run(X, Y, epochs=4, batch_size=8)
    exact = copy.deepcopy(model)
    rows = list(torch.arange(24).split(8)) * 4
    trained(exact, sgd(exact, {"momentum": 0.9}), functional.mse_loss, X, Y, rows)
    assert apart(run.state_dict, exact) <= 1e-4


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"schedule": [0.1]}, "schedule"),
        ({"init": {"0.weight": torch.zeros(2, 2)}}, "init"),
    ],
)
def test_bad_settings_are_named(how, message):
    X, Y = data("real")
    model = mlp()
    program = icgd.compile(model, sgd(model, {}), loss=functional.mse_loss, example=(X[:8], Y[:8]))
    with pytest.raises(InvalidParameter, match=message):
        program.run(X, Y, **how)
    with pytest.raises(InvalidParameter, match="shape of the example"):
        program.run(X[:, :5], Y)
    broken = X.clone()
    broken[3, 2] = torch.nan
    with pytest.raises(AssumptionViolated, match=r"nan at \(3, 2\)"):
        program.run(broken, Y)
