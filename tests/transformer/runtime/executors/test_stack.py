"""Runs of stacks: what is out of range is named by what the layer says of it, never by reading a label."""

from __future__ import annotations

import re

import pytest
import torch

import icgd
from icgd.errors import OutOfRange
from icgd.mechanisms.loops.regression.compile import regression_program
from icgd.mechanisms.loops.regression.layers import EVERY, RegressionBuilder
from icgd.transformer.gadgets.heads.bilinear import Bilinear, BilinearOptions, bilinear_layer
from icgd.transformer.nn.stack.stack import Stack

LABELS = (
    "Gradient",
    "product 2 of 3",
    "signal_to_noise",
    "derivative",
    "step_4_of_12",
    "Größe",
    "",
)


def labelled(program: icgd.Program, label: str, mode: str) -> Stack:
    """The loop of a regression, its product called something else."""
    builder = RegressionBuilder(program.problem, None)
    product = Bilinear(
        [[("h", 1.0)]], [[("k", 1.0)]], [("r", 1.0)], "r", -0.1, 0.5, EVERY, "is_answer"
    )
    layer = bilinear_layer(builder.layout, product, BilinearOptions(mode), label=label)
    return Stack(builder.layout, {"Gradient": layer}, n_layers=1, radius=0.5)


@pytest.mark.parametrize("mode", ["spectral", "sym"])
@pytest.mark.parametrize("label", LABELS)
def test_labels_are_for_people(label: str, mode: str) -> None:
    program = icgd.compile(icgd.LinearRegression(2, 4), icgd.GD(0.1))
    blueprint, step = program.blueprint, labelled(program, label, mode)
    builder = type("Labelled", (RegressionBuilder,), {"loop": lambda self: step})
    altered = regression_program(blueprint, builder)
    X = torch.eye(2, dtype=torch.float64).repeat(2, 1)
    altered.run(X, X[:, 0], steps=2)
    with pytest.raises(OutOfRange, match=re.escape(f"Head {label} met |s|")) as met:
        altered.run(3 * X, X[:, 0], steps=2)
    assert met.value.option == "x_radius"
    assert "(Gradient step, layer 1)" in str(met.value)


CASES = {
    "stack": ({"method": "stack", "n_relu": 8, "radius": 1.0}, "out2", 2, "radius"),
    "stack by attention": (
        {"method": "stack", "n_relu": 8, "products": "attention", "signal_radius": 1e-3},
        "signal3",
        3,
        "signal_radius",
    ),
    "forward mode": (
        {"method": "forward_mode", "n_relu": 8, "signal_radius": 1e-3},
        "derivative1",
        1,
        "signal_radius",
    ),
}


@pytest.mark.parametrize("executor", ["structured", "sparse", "dense"])
@pytest.mark.parametrize("case", CASES)
def test_a_number_out_of_range_has_its_layer_and_its_option(case: str, executor: str) -> None:
    options, label, layer, option = CASES[case]
    network = icgd.Network((2, 2, 2, 1), "tanh")
    program = icgd.compile(network, icgd.GD(0.1), **options)
    X = torch.tensor([[0.3, 0.2], [0.1, -0.4]], dtype=torch.float64)
    init = [(9 * torch.ones_like(W), b) for W, b in network.init(seed=0)]
    if option == "radius":
        init[0] = (0.1 * init[0][0], init[0][1])
    with pytest.raises(OutOfRange, match=f"Head {label} met") as met:
        program.run(X, X[:, :1], init=init, steps=1, executor=executor)
    assert met.value.option == option
    assert f"layer {layer})" in str(met.value)
