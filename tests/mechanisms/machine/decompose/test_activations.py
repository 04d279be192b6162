"""Activations and their derivatives as PyTorch has them, also far out, at 0, and beside a threshold."""

from __future__ import annotations

import pytest
import torch
from captured_runs import double, function_gap, slope
from torch import nn

F = nn.functional
EDGES = [
    0.0,
    1e-300,
    1e-16,
    1e-8,
    1e-3,
    0.5,
    1.0,
    3.0,
    6.0,
    19.999999,
    20.0,
    20.000001,
    37.0,
    200.0,
    600.0,
]
POINTS = torch.tensor(sorted({*EDGES, *(-e for e in EDGES)}), **double)
FUNCTIONS = {
    "relu": F.relu,
    "leaky relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": lambda x: F.elu(x, 1.3),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.7),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus,
    "softplus, beta": lambda x: F.softplus(x, 2.0, 10.0),
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 0.2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives(name):
    function = FUNCTIONS[name]
    both = function_gap(lambda x: (function(x), slope(function)(x)), POINTS)
    # PyTorch's own kernels of these two compute 1/6 in single precision in one of the directions.
    assert both <= {"hardswish": 1e-7, "hardsigmoid": 1e-7, "mish": 4e-15}.get(name, 4e-16)


def test_softplus_jumps_where_pytorchs_does():
    """Beyond the threshold it is the argument itself, 2e-9 below the smooth value."""
    edge = torch.tensor([20.0, 20.0 + 1e-14], **double)
    jump = F.softplus(edge)
    assert float(jump[1] - jump[0]) < -2e-9
    assert function_gap(F.softplus, edge) <= 2e-16


def test_elu_keeps_the_rounding_of_one_near_zero():
    near = -torch.logspace(-18, 0, 50, **double)
    assert function_gap(F.elu, near) <= 2.3e-16
