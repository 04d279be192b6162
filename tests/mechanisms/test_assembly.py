"""What every compiler ends with: a blueprint that can be stored, and frozen weights."""

from __future__ import annotations

import json

import pytest
import torch

import icgd
from icgd.transformer.mask_rules import StateMask
from icgd.transformer.program.blueprint import PARTS
from icgd.transformer.program.files import rebuilt

LINEAR = icgd.LinearRegression(2, 5)
REPLACING = {
    "looped_regression": (LINEAR, icgd.GD(0.1), {}),
    "looped_autoregression": (icgd.Autoregression(2, 2, 7), icgd.GD(0.1), {}),
    "looped_chain": (icgd.MLPChain(2, 1, 4), icgd.GD(0.1), {}),
    "looped_newton": (LINEAR, icgd.Newton(), {}),
    "looped_preconditioned": (LINEAR, icgd.PreconditionedGD(0.5, newton_steps=2), {}),
    "looped_decoder": (LINEAR, icgd.GD(0.1), {"causal": True}),
    "relu_stack": (icgd.Network((2, 3, 1)), icgd.GD(0.1), {"method": "stack"}),
    "forward_mode": (icgd.Network((2, 3, 1)), icgd.GD(0.1), {"method": "forward_mode"}),
}
APPENDING = {
    "linear_attention_cot": (LINEAR, icgd.GD(0.1), {"attention": "linear"}),
    "softmax_cot_network": (icgd.Network((2, 3, 1)), icgd.SGD(0.1), {}),
    "softmax_cot_statistics": (icgd.Ridge(n_features=2, lam=0.1), icgd.GD(0.1), {}),
}
EVERY = {**REPLACING, **APPENDING}


@pytest.mark.parametrize("name", EVERY)
def test_programs_are_frozen_and_can_be_built_again(name):
    problem, optimizer, options = EVERY[name]
    program = icgd.compile(problem, optimizer, **options)
    assert program.construction.name == name
    assert program.problem is problem
    assert type(program.optimizer) is type(optimizer)
    assert tuple(program.config) == PARTS
    assert not any(p.requires_grad for p in program.parameters())
    again = rebuilt(json.loads(json.dumps(program.config)))
    assert again.config == json.loads(json.dumps(program.config))
    for (key, one), (_, other) in zip(
        program.named_parameters(), again.named_parameters(), strict=True
    ):
        assert torch.equal(one, other), key
    replaces = name in REPLACING
    assert program.mask.replaces == replaces
    assert isinstance(program.mask, StateMask) == replaces
