"""Flat groups: the same numbers as tensor by tensor, in fewer instructions."""

from __future__ import annotations

import pytest
import torch
from captured_runs import double, largest_gap, textbook
from torch import nn

from icgd.mechanisms.machine.capture.flat import ELEMENTWISE, flattened_state, split_state
from icgd.mechanisms.machine.capture.step import capture_step
from icgd.mechanisms.machine.capture.textbook import training_step
from icgd.mechanisms.machine.decompose.ops import remaining_ops

F, O = nn.functional, torch.optim  # noqa: E741
SETTINGS = {
    "sgd": (O.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "adam": (O.Adam, {}),
    "amsgrad": (O.Adam, {"amsgrad": True, "maximize": True, "weight_decay": 0.1}),
    "adamw": (O.AdamW, {"weight_decay": 0.1}),
    "nadam": (O.NAdam, {}),
    "adamax": (O.Adamax, {}),
    "rmsprop": (O.RMSprop, {"momentum": 0.9, "centered": True}),
    "adagrad": (O.Adagrad, {"lr_decay": 0.01}),
    "adadelta": (O.Adadelta, {}),
    "rprop": (O.Rprop, {}),
}


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    return model.double()


def batches(count=3):
    torch.manual_seed(1)
    return [(torch.randn(6, 4, **double), torch.randint(0, 3, (6,))) for _ in range(count)]


def test_every_elementwise_optimizer_is_here():
    assert {kind for kind, _ in SETTINGS.values()} == set(ELEMENTWISE)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(
    "name", ["adam", *(pytest.param(n, marks=pytest.mark.slow) for n in SETTINGS if n != "adam")]
)
def test_optimizers_that_work_entry_by_entry(name, flat):
    kind, settings = SETTINGS[name]
    model = network()
    optimizer = kind(model.parameters(), lr=0.01, **settings)
    # NAdam's own product of momenta is float32 unless PyTorch's default precision is not.
    allowed = 1e-8 if kind is O.NAdam else 1e-14
    assert largest_gap(textbook(F.cross_entropy), model, optimizer, batches(), flat=flat) <= allowed


def twice(model, optimizer):
    def step(x, y):
        for part, target in zip(x.chunk(2), y.chunk(2), strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(part), target).backward()
            optimizer.step()

    return step


@pytest.mark.parametrize("flat", [False, True])
def test_a_step_may_step_the_optimizer_twice(flat):
    model = network()
    optimizer = O.SGD(model.parameters(), lr=0.1, momentum=0.9)
    assert largest_gap(twice, model, optimizer, batches(), flat=flat) <= 1e-14


def test_the_update_is_one_instruction_per_operation_and_group():
    model = network()
    optimizer = O.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    step, example = training_step(model, optimizer, F.mse_loss), (torch.ones(2, 4, **double),) * 2
    model[4] = nn.Linear(6, 4).double()
    optimizer = O.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    step = training_step(model, optimizer, F.mse_loss)
    ops = [
        remaining_ops(capture_step(step, model, optimizer, example, fresh=False, flat=flat))
        for flat in (False, True)
    ]
    # 6 tensors: decay, momentum and learning rate are a product and a sum each, once instead of 6 times.
    assert ops[0]["aten.mul.Tensor"] - ops[1]["aten.mul.Tensor"] == 5 * 3
    assert ops[0]["aten.add.Tensor"] - ops[1]["aten.add.Tensor"] == 5 * 3


def test_laying_out_and_cutting_up_are_inverse():
    like = {"a": torch.zeros(2, 3), "b": torch.zeros(4)}
    state = {
        "a": {"buffer": torch.randn(2, 3), "step": torch.tensor(2.0), "flag": None},
        "b": {"buffer": torch.randn(4), "step": torch.tensor(2.0), "flag": None},
    }
    flat = flattened_state(state, [["a", "unused", "b"]])
    assert flat["group0"]["buffer"].shape == (10,)
    back = split_state(flat["group0"], ("a", "b"), like)
    for name, entries in state.items():
        assert torch.equal(back[name]["buffer"], entries["buffer"])
        assert torch.equal(back[name]["step"], entries["step"])
        assert back[name]["flag"] is None
