"""A captured step is the step: three of them beside eager PyTorch, for models, losses and optimizers."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from captured_runs import double, largest_gap, textbook
from torch import nn

from icgd.errors import AssumptionViolated
from icgd.mechanisms.machine.capture.step import capture_step
from icgd.mechanisms.machine.capture.textbook import training_step

F, SGD = nn.functional, torch.optim.SGD
ACTIVATIONS = {
    "relu": nn.ReLU(),
    "leaky relu": nn.LeakyReLU(0.1),
    "elu": nn.ELU(),
    "tanh": nn.Tanh(),
    "sigmoid": nn.Sigmoid(),
    "silu": nn.SiLU(),
    "gelu": nn.GELU(),
    "gelu by tanh": nn.GELU(approximate="tanh"),
    "softplus": nn.Softplus(),
    "identity": nn.Identity(),
}


def classes(n):
    return torch.randint(0, 3, (n,))


def numbers(n):
    return torch.randn(n, 3, **double)


def shares(n):
    return torch.rand(n, 3, **double)


LOSSES = {
    "mse": (F.mse_loss, numbers),
    "l1": (F.l1_loss, numbers),
    "huber": (nn.HuberLoss(delta=0.5), numbers),
    "smooth l1": (nn.SmoothL1Loss(beta=0.5), numbers),
    "cross-entropy": (F.cross_entropy, classes),
    "cross-entropy, smoothed": (nn.CrossEntropyLoss(label_smoothing=0.1), classes),
    "cross-entropy, weighted": (
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5], **double)),
        classes,
    ),
    "cross-entropy, one class ignored": (nn.CrossEntropyLoss(ignore_index=1), classes),
    "cross-entropy of shares": (F.cross_entropy, lambda n: torch.softmax(numbers(n), 1)),
    "bce": (F.binary_cross_entropy_with_logits, shares),
    "bce, weighted": (
        nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0], **double)),
        shares,
    ),
    "poisson": (nn.PoissonNLLLoss(), lambda n: torch.randint(0, 5, (n, 3)).double()),
}
OPTIMIZERS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "nesterov, decay": {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-2},
    "dampening": {"momentum": 0.9, "dampening": 0.3},
    "maximize": {"momentum": 0.5, "maximize": True, "weight_decay": 1e-2},
}


def network(activation=None, seed=0):
    torch.manual_seed(seed)
    activation = activation or nn.Tanh()
    return nn.Sequential(
        nn.Linear(8, 16), activation, nn.Linear(16, 16), activation, nn.Linear(16, 3)
    ).double()


def batches(target, n=8, count=3, seed=1):
    torch.manual_seed(seed)
    return [(torch.randn(n, 8, **double), target(n)) for _ in range(count)]


def gap_of(model, loss, target, n=8, seed=1, lr=0.05, flat=False, **settings):
    optimizer = SGD(model.parameters(), lr=lr, **settings)
    return largest_gap(textbook(loss), model, optimizer, batches(target, n, seed=seed), flat=flat)


# -- the cross product ----------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation(activation):
    model = network(copy.deepcopy(ACTIVATIONS[activation]))
    assert gap_of(model, F.cross_entropy, classes, flat=True, momentum=0.9) <= 1e-14


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss(loss):
    assert gap_of(network(), *LOSSES[loss], momentum=0.9, flat=True) <= 1e-13


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("settings", OPTIMIZERS)
def test_every_optimizer(settings, flat):
    model = network(nn.SiLU())
    assert gap_of(model, F.mse_loss, numbers, flat=flat, **OPTIMIZERS[settings]) <= 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_activation_with_every_loss(activation, loss):
    """The optimizer's settings go round: every pair meets three of them, each with another batch and seed."""
    turn = list(ACTIVATIONS).index(activation) + list(LOSSES).index(loss)
    settings = [list(OPTIMIZERS.values())[(turn + k) % len(OPTIMIZERS)] for k in range(3)]
    for seed, (n, chosen) in enumerate(zip((8, 1, 3), settings, strict=True)):
        if n == 1 and "ignored" in loss:
            continue  # PyTorch's own mean over no example is NaN
        model = network(copy.deepcopy(ACTIVATIONS[activation]), seed)
        assert gap_of(model, *LOSSES[loss], n=n, seed=seed + 5, **chosen) <= 1e-12


@pytest.mark.parametrize("n", [1, 5])
def test_batches_of_other_sizes(n):
    assert gap_of(network(), F.cross_entropy, classes, n=n, momentum=0.9) <= 1e-14


# -- models ---------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, shared=False):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        if shared:
            self.second.weight = self.first.weight
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        x = x + torch.relu(self.first(x))
        return self.last(F.dropout(x + torch.tanh(self.second(x)), 0.5, self.training).flatten(1))


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_residual_sums_shared_weights_and_parameters_without_gradient(shared, flat):
    torch.manual_seed(0)
    model = Residual(shared).double().eval()
    assert gap_of(model, F.cross_entropy, classes, flat=flat, momentum=0.9) <= 1e-14


@pytest.mark.parametrize("flat", [False, True])
def test_frozen_parameters_and_groups(flat):
    model = network()
    model[0].weight.requires_grad_(False)
    groups = [
        {"params": [*model[0].parameters(), model[4].bias], "lr": 0.2, "momentum": 0.5},
        {"params": [*model[2].parameters(), model[4].weight], "weight_decay": 0.1},
    ]
    optimizer = SGD(groups, lr=0.05, momentum=0.9)
    runs = batches(numbers)
    assert largest_gap(textbook(F.mse_loss), model, optimizer, runs, flat=flat) <= 1e-14
    captured = capture_step(
        training_step(model, optimizer, F.mse_loss), model, optimizer, runs[0], fresh=True
    )
    assert [n for n in captured.in_names if n.startswith("hyper.")] == ["hyper.0.lr", "hyper.1.lr"]
    assert captured.named_example()["hyper.0.lr"].dtype == torch.float64
    weight = captured.named_example()["param.0.weight"]
    assert torch.equal(captured(captured.example)["param.0.weight"], weight)


class Counting(nn.Module):
    """Buffers that the forward pass writes in place, replaces, and counts with."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("last", torch.zeros(3))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        h = self.layer(x)
        self.mean.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
        self.last = h.detach().mean(0) + self.mean
        self.calls += 1
        h[:, 0] += 1
        return F.relu_(h) + self.mean


def test_buffers_written_replaced_and_counted_with():
    torch.manual_seed(0)
    assert gap_of(Counting().double(), F.mse_loss, numbers) <= 1e-14


# -- steps ----------------------------------------------------------------------------------------


def clipped(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y) + 1e-3 * sum(p.abs().sum() for p in model.parameters())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        nn.utils.clip_grad_value_(model.parameters(), 0.02)
        optimizer.step()
        return loss.item(), {"largest": model(x).detach().abs().max()}

    return step


def accumulated(model, optimizer):
    def step(x, y):
        total = 0.0
        for part, target in zip(x.chunk(4), y.chunk(4), strict=True):
            loss = F.mse_loss(model(part), target) / 4
            loss.backward()
            total = total + loss.detach()
        for parameter in model.parameters():
            parameter.grad.clamp_(-0.1, 0.1)
        optimizer.step()
        optimizer.zero_grad()
        return total

    return step


def inner_and_outer(model, optimizer):
    """A gradient of a gradient, as in meta-learning."""

    def step(x, y):
        optimizer.zero_grad()
        weights = dict(model.named_parameters())
        loss = F.mse_loss(torch.func.functional_call(model, weights, (x,)), y)
        gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        fast = {n: p - 0.1 * g for (n, p), g in zip(weights.items(), gradients, strict=True)}
        outer = F.mse_loss(torch.func.functional_call(model, fast, (x.flip(0),)), y.flip(0))
        outer.backward()
        optimizer.step()
        return outer.detach()

    return step


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("make_step", [clipped, accumulated, inner_and_outer])
def test_bodies_of_loops(make_step, flat):
    model = network()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    assert largest_gap(make_step, model, optimizer, batches(numbers), flat=flat) <= 1e-14


def test_results_of_the_step_are_outputs_in_order():
    model = network()
    optimizer = SGD(model.parameters(), lr=0.05)
    example = batches(numbers)[0]
    captured = capture_step(clipped(model, optimizer), model, optimizer, example, fresh=True)
    results = captured(captured.example)
    loss, rest = clipped(model, optimizer)(*example)
    assert float(results["out.0"]) == pytest.approx(loss, rel=1e-14)
    assert float(results["out.1"]) == pytest.approx(float(rest["largest"]), rel=1e-14)
    assert captured.out_names[-2:] == ["out.0", "out.1"]


def test_a_schedule_is_data():
    """Learning rates of other steps need no other graph; 0 is one of them."""
    model = network()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    runs = batches(numbers, count=4)
    lrs = [0.05, 0.5, 0.0, 0.01]
    assert largest_gap(textbook(F.mse_loss), model, optimizer, runs, lrs=lrs) <= 1e-14


def test_momentum_may_be_scheduled_too():
    model = network()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    step, runs = training_step(model, optimizer, F.mse_loss), batches(numbers)
    captured = capture_step(step, model, optimizer, runs[0], hyper=("lr", "momentum"), fresh=False)
    assert "hyper.0.momentum" in captured.in_names
    values = captured.named_example()
    plain = captured(values)["param.0.bias"]
    heavier = captured(values | {"hyper.0.momentum": torch.tensor(0.99, **double)})["param.0.bias"]
    assert not torch.equal(plain, heavier)


def test_a_step_without_an_optimizer():
    model = network()

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient
        return loss

    captured = capture_step(step, model, None, batches(numbers)[0], fresh=True)
    results = captured(captured.example)
    example = batches(numbers)[0]
    step(*example)
    gaps = [(results[f"param.{n}"] - p).abs().max() for n, p in model.named_parameters()]
    assert max(gaps) <= 1e-15


def test_float32_stays_float32():
    model = network().float()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    runs = [(x.float(), y) for x, y in batches(classes)]
    assert largest_gap(textbook(F.cross_entropy), model, optimizer, runs, flat=True) <= 1e-6
    captured = capture_step(
        training_step(model, optimizer, F.cross_entropy), model, optimizer, runs[0], fresh=False
    )
    results = captured(captured.example)
    assert {value.dtype for value in results.values()} == {torch.float32}


# -- state ----------------------------------------------------------------------------------------


def test_the_prologue_has_no_state_and_leaves_some():
    model = network()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9, dampening=0.5)
    step, example = training_step(model, optimizer, F.mse_loss), batches(numbers)[0]
    first = capture_step(step, model, optimizer, example, fresh=True)
    later = capture_step(step, model, optimizer, example, fresh=False)
    states = [n for n in later.in_names if n.startswith("state.")]
    assert states == [f"state.{n}.momentum_buffer" for n, _ in model.named_parameters()]
    assert not [n for n in first.in_names if n.startswith("state.")]
    assert states == [n for n in first.out_names if n.startswith("state.")]
    left_behind = first(first.example)
    assert all(torch.allclose(later.named_example()[n], left_behind[n], 1e-14) for n in states)


def test_an_optimizer_that_has_stepped_goes_on_from_its_own_state():
    model = network()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    step, example = training_step(model, optimizer, F.mse_loss), batches(numbers)[0]
    step(*example)
    captured = capture_step(step, model, optimizer, example, fresh=False, flat=True)
    own = torch.cat([optimizer.state[p]["momentum_buffer"].flatten() for p in model.parameters()])
    assert torch.equal(captured.named_example()["state.group0.momentum_buffer"], own)


def test_parameters_of_a_flat_group_are_named_in_their_order():
    model = network()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    step, example = training_step(model, optimizer, F.mse_loss), batches(numbers)[0]
    captured = capture_step(step, model, optimizer, example, fresh=True, flat=True)
    assert captured.groups == {"group0": tuple(n for n, _ in model.named_parameters())}
    buffer = captured(captured.example)["state.group0.momentum_buffer"]
    step(*example)
    own = torch.cat([optimizer.state[p]["momentum_buffer"].flatten() for p in model.parameters()])
    assert float((buffer - own).abs().max()) <= 1e-15


class Numbered(SGD):
    """Counts its steps with a Python number."""

    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            state["age"] = state.get("age", 0) + 1
            state["trace"] = torch.zeros(1, **double)
        return super().step(closure)


def test_state_that_is_a_python_number_must_not_change():
    model = network()
    optimizer = Numbered(model.parameters(), lr=0.1)
    step, example = training_step(model, optimizer, F.mse_loss), batches(numbers)[0]
    with pytest.raises(
        AssumptionViolated, match=r"`age` of 0\.weight is the Python number 1 and becomes 2"
    ):
        capture_step(step, model, optimizer, example, fresh=False)


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        h = self.layer(x)
        self.seen = torch.cat([self.seen, h.detach().mean().reshape(1)])
        return h


def test_shapes_must_stay():
    model = Growing().double()
    optimizer = SGD(model.parameters(), lr=0.1)
    step, example = training_step(model, optimizer, F.mse_loss), batches(numbers)[0]
    with pytest.raises(
        AssumptionViolated, match=r"`buffer.seen` has shape \(1,\) before .* \(2,\) after"
    ):
        capture_step(step, model, optimizer, example, fresh=True)


# -- the user's objects ---------------------------------------------------------------------------


def snapshot(model, optimizer):
    """Identities and bits of everything a capture could disturb."""
    return {
        "parameters": [(id(p), p.detach().clone(), id(p.grad)) for p in model.parameters()],
        "gradients": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "buffers": [(id(b), b.clone()) for b in model.buffers()],
        "trained": [p.requires_grad for p in model.parameters()],
        "modes": [module.training for module in model.modules()],
        "attributes": sorted(vars(optimizer)),
        "groups": [
            {k: v for k, v in group.items() if k != "params"}
            | {"ids": [id(p) for p in group["params"]]}
            for group in optimizer.param_groups
        ],
        "objects": (id(optimizer.state), id(optimizer.param_groups), id(optimizer.defaults)),
        "defaults": dict(optimizer.defaults),
        "state": {
            id(p): {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in entries.items()}
            for p, entries in optimizer.state.items()
        },
        "generators": (torch.get_rng_state(), random.getstate()),
        "default dtype": torch.get_default_dtype(),
    }


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize("stepped", [False, True])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("fresh", [False, True])
def test_the_users_objects_are_untouched(fresh, flat, stepped):
    torch.manual_seed(0)
    model = nn.Sequential(Counting(), nn.Linear(3, 3)).double()
    model[1].bias.requires_grad_(False)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)  # wraps optimizer.step of this one object
    step, example = training_step(model, optimizer, F.mse_loss), batches(numbers)[0]
    if stepped:
        step(*example)
    copies = [t.clone() for t in example]
    before, numpy_before = snapshot(model, optimizer), np.random.get_state()[1].copy()  # noqa: NPY002
    capture_step(step, model, optimizer, example, fresh=fresh, flat=flat)
    after = snapshot(model, optimizer)
    assert {key for key in before if not same(before[key], after[key])} == set()
    assert all(map(torch.equal, copies, example))
    assert (np.random.get_state()[1] == numpy_before).all()  # noqa: NPY002


def test_the_users_objects_are_untouched_when_a_capture_fails():
    model = network()
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if loss > 0:
            raise KeyError("a mistake after the update")

    example = batches(numbers)[0]
    before = snapshot(model, optimizer)
    with pytest.raises(KeyError):
        capture_step(step, model, optimizer, example, fresh=True)
    assert same(before, snapshot(model, optimizer))
