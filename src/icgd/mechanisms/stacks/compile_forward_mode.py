"""Compile (network, full-batch gradient descent) into N layers a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.assembly import DTYPES, make_config
from icgd.mechanisms.sizes import check_size
from icgd.mechanisms.stacks.compile_backward import (
    check_gd,
    check_loss,
    chosen_ranges,
    describe,
    network_of,
    refuse_useless,
    stack_program,
)
from icgd.mechanisms.stacks.forward_mode import ForwardBuilder, ForwardOptions
from icgd.problems import Network, NetworkSpec
from icgd.transformer.gadgets.fits.decay_condition import decay_condition
from icgd.transformer.gadgets.fits.slope_product import SHARPNESS
from icgd.transformer.nn.stack.head_family import ACTIVATIONS
from icgd.transformer.program import Program

NAME = "forward_mode"
DEFAULTS = {"n_relu": 200, "radius": 8.0, "signal_radius": 8.0}


def compile_forward_mode(
    problem: Network, optimizer: object, dtype: torch.dtype, given: Mapping[str, Any]
) -> Program:
    """N layers a step for an N-layer network with a linear output.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: see mechanisms/stacks/forward_mode.py; any number of outputs, biases.
    """
    gd, spec = check_gd(problem, optimizer, "forward_mode"), problem.spec
    if spec.output != "linear":
        raise InvalidParameter(
            "output",
            spec.output,
            "be 'linear' for method='forward_mode'",
            remedy="Use method='stack' for an activated output.",
        )
    options = chosen_ranges(given, DEFAULTS, dtype)
    # A ReLU network has corners, which smooth heads cannot make.
    chosen = given.get("attention") or ("relu" if spec.activation == "relu" else "tanh")

    decay_condition(chosen)  # Definition 3 of [BRIDGE], or a refusal that names it
    if chosen not in ACTIVATIONS:
        raise InvalidParameter("attention", chosen, f"be one of {', '.join(ACTIVATIONS)}")
    if spec.activation == "relu":
        options["radius"] = options["gate"]  # nothing is fitted
        if given.get("signal_radius") is None:
            options["signal_radius"] = 16.0
    check_loss(spec, options)
    config = make_config(
        NAME,
        dtype,
        problem=describe(spec),
        options={**options, "attention": chosen},
        optimizer={"name": "GD", "lr": gd.lr, "box": gd.box},
    )
    return assemble(config, spec)


def forward_options(config: Mapping[str, Any]) -> ForwardOptions:
    """The options a config describes."""
    o, optimizer = config["options"], config["optimizer"]
    names = (
        "attention",
        "n_relu",
        "radius",
        "signal_radius",
        "target_radius",
        "gate",
        "n_examples",
    )
    return ForwardOptions(
        lr=float(optimizer["lr"]),
        box=optimizer["box"],
        dtype=DTYPES[config["dtype"]],
        **{name: o[name] for name in names},
    )


def assemble(config: Mapping[str, Any], spec: NetworkSpec) -> Program:
    """The program of checked parts."""
    check_size(config)
    options = forward_options(config)
    builder = ForwardBuilder(spec, options)
    # Derivatives are multiplied layer by layer: single precision leaves less room for a rounded fit.
    refuse_useless(builder.certificate(), 10.0 if options.dtype == torch.float64 else 0.1)
    slope = SHARPNESS / options.signal_radius
    return stack_program(config, builder, output=f"z{spec.n_layers}", slope=slope)


def build(config: Mapping[str, Any]) -> Program:
    """The program a config describes; used when loading from disk."""
    return assemble(config, network_of(config["problem"]).spec)


Program.builders[NAME] = build
