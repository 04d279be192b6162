"""Compile (network, full-batch gradient descent) into N layers a step."""

from __future__ import annotations

from dataclasses import asdict

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.stacks.compile_backward import (
    check_gd,
    check_loss,
    chosen_ranges,
    refuse_useless,
    stack_program,
)
from icgd.mechanisms.stacks.constructions import FORWARD_MODE
from icgd.mechanisms.stacks.forward_mode import ForwardBuilder, ForwardOptions
from icgd.mechanisms.stacks.options import ForwardModeOptions
from icgd.problems import Network
from icgd.transformer.gadgets.fits.decay_condition import decay_condition
from icgd.transformer.gadgets.fits.slope_product import SHARPNESS
from icgd.transformer.nn.stack.head_family import ACTIVATIONS
from icgd.transformer.program import Blueprint, Program

DEFAULTS = {"n_relu": 200, "radius": 8.0, "signal_radius": 8.0}


def choose(
    problem: Network, optimizer: object, wanted: ForwardModeOptions, dtype: torch.dtype
) -> Blueprint:
    """Check every option and fill in the others."""
    gd, spec, given = check_gd(problem, optimizer, "forward_mode"), problem.spec, asdict(wanted)
    if spec.output != "linear":
        raise InvalidParameter(
            "output",
            spec.output,
            "be 'linear' for method='forward_mode'",
            remedy="Use method='stack' for an activated output.",
        )
    options = chosen_ranges(given, DEFAULTS, dtype)
    # A ReLU network has corners, which smooth heads cannot make.
    chosen = wanted.attention or ("relu" if spec.activation == "relu" else "tanh")

    decay_condition(chosen)  # Definition 3 of [BRIDGE], or a refusal that names it
    if chosen not in ACTIVATIONS:
        raise InvalidParameter("attention", chosen, f"be one of {', '.join(ACTIVATIONS)}")
    if spec.activation == "relu":
        options["radius"] = options["gate"]  # nothing is fitted
        if wanted.signal_radius is None:
            options["signal_radius"] = 16.0
    check_loss(spec, options)
    return Blueprint(FORWARD_MODE, problem, gd, {**options, "attention": chosen}, dtype)


def forward_options(blueprint: Blueprint) -> ForwardOptions:
    """All the builder depends on besides the network."""
    gd = blueprint.optimizer
    return ForwardOptions(lr=gd.lr, box=gd.box, dtype=blueprint.dtype, **blueprint.options)


def build(blueprint: Blueprint) -> Program:
    """N layers a step for an N-layer network with a linear output.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: see mechanisms/stacks/forward_mode.py; any number of outputs, biases.
    """
    spec, options = blueprint.problem.spec, forward_options(blueprint)
    builder = ForwardBuilder(spec, options)
    # Derivatives are multiplied layer by layer: single precision leaves less room for a rounded fit.
    refuse_useless(builder.certificate(), 10.0 if options.dtype == torch.float64 else 0.1)
    slope = SHARPNESS / options.signal_radius
    return stack_program(blueprint, builder, output=f"z{spec.n_layers}", slope=slope)
