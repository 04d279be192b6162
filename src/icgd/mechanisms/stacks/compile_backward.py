"""Compile (network, full-batch gradient descent) into a stack of attention layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from icgd.base.numbers import whole_number
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.assembly import state_program
from icgd.mechanisms.stacks.backward import StackBuilder, StackOptions
from icgd.mechanisms.stacks.codec import StackCodec
from icgd.mechanisms.stacks.constructions import BACKWARD_STACK
from icgd.mechanisms.stacks.forward_mode import ForwardBuilder
from icgd.mechanisms.stacks.options import BackwardStackOptions
from icgd.problems import GD, Network, NetworkSpec
from icgd.problems.entrywise import check_entrywise
from icgd.problems.losses import LOSSES
from icgd.transformer.certificate import Certificate
from icgd.transformer.nn.rounding import RelativeRounding
from icgd.transformer.nn.stack.stack import AttentionSublayer, Stack
from icgd.transformer.program import Blueprint, Program

GATE = {torch.float64: 1024.0, torch.float32: 128.0}
RAMP = {torch.float64: 2.0**-20, torch.float32: 2.0**-10}
DEFAULTS = {"n_relu": 256, "knots": "adaptive", "products": "exact", "radius": 8.0}
WIDE = 32.0
"""Default radius where nothing is fitted but functions that are almost linear or constant far out: knots follow
the bend, so that four times the range costs less than 2.5 times the error. Standardised tables ask up to 17."""
KNOTS, PRODUCTS = ("uniform", "adaptive"), ("exact", "attention")


def check_gd(problem: Network, optimizer: object, method: str) -> GD:
    """Full-batch gradient descent with a number for a step, or a clear complaint."""
    if not isinstance(optimizer, GD):
        raise InvalidParameter(
            "optimizer",
            type(optimizer).__name__,
            f"be an icgd.GD for method={method!r}",
            remedy="Use icgd.GD(lr=...), or method='cot' for SGD.",
        )
    if isinstance(optimizer.lr, str):
        raise InvalidParameter(
            "lr", optimizer.lr, "be a number for a network", remedy="For example icgd.GD(lr=0.1)."
        )
    return optimizer


def check_radius(name: str, value: object) -> float:
    """A finite positive range."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidParameter(name, value, "be a number")
    if not (math.isfinite(value) and value > 0):
        raise InvalidParameter(name, value, "be a finite number > 0")
    return float(value)


def chosen_ranges(
    given: Mapping[str, Any], defaults: Mapping[str, Any], dtype: torch.dtype
) -> dict[str, Any]:
    """Ranges and counts that all stacks share, with their defaults."""
    o = {**defaults, **{k: v for k, v in given.items() if v is not None}}
    o["n_relu"] = whole_number("n_relu", o["n_relu"], 3)
    o["radius"] = check_radius("radius", o["radius"])
    o.setdefault("signal_radius", 8.0)
    o["signal_radius"] = check_radius("signal_radius", o["signal_radius"])
    o["gate"] = max(GATE[dtype], 2 * o["radius"])
    o["target_radius"] = check_radius("target_radius", o.get("target_radius", o["radius"]))
    n = o.get("n_examples")
    o["n_examples"] = None if n is None else whole_number("n_examples", n, 1)
    return o


def default_radius(spec: NetworkSpec) -> float:
    """The range of pre-activations a stack is certified for unless told.

    >>> default_radius(Network((2, 3, 1), "tanh").spec)
    32.0
    """
    exact_or_flat = spec.loss.name in ("squared", "logistic") or spec.loss.name.startswith("huber[")
    return WIDE if exact_or_flat else float(DEFAULTS["radius"])  # type: ignore[arg-type]


def check_loss(spec: NetworkSpec, options: Mapping[str, Any]) -> None:
    """A user's loss must be what the loss layer computes: a function of one output and its target."""
    if spec.loss not in LOSSES.values():
        check_entrywise(spec.loss, options["radius"], options["target_radius"])


def refuse_useless(certificate: Certificate, limit: float = 10.0) -> None:
    """A fit that may be off by many times the size of what it fits computes nothing."""
    if not certificate.sup_error <= limit:
        raise AssumptionViolated(
            f"The fit {certificate.name} is certified to {certificate.sup_error:.2g} only, which is no "
            "approximation. Raise n_relu, compile with a smaller radius (standardise the data), or in float64."
        )


def refuse_overflow(step: Stack, lr: float, gate: float) -> None:
    """Heads that write updates multiply lr, the weights of a fit, and two numbers up to `gate`."""
    dtype = step.like.dtype
    layers = [layer for _, layer in step.each() if isinstance(layer, AttentionSublayer)]
    weight = max(float(f.c.double().abs().sum()) for layer in layers for f in layer.each())
    most = torch.finfo(dtype).max / max(1.0, weight) / gate / gate
    if not lr <= most:
        name = str(dtype).removeprefix("torch.")
        rule = f"be at most {most:.2g} in {name}, beyond which updates overflow"
        raise InvalidParameter("lr", lr, rule, remedy="Lower lr.")


def stack_program(
    blueprint: Blueprint, builder: StackBuilder | ForwardBuilder, *, output: str, slope: float
) -> Program:
    """The layers of a builder as a program; `output` is the slot that holds the network's output."""
    step, readout, o = builder.step(), builder.prediction(), builder.o
    refuse_overflow(step, o.lr, o.gate)
    codec = StackCodec(
        builder.spec,
        [step.like],
        gate=o.gate,
        target_radius=o.target_radius,
        box=o.box,
        n_examples=o.n_examples,
        output=output,
        stacks=(step, readout),
    )
    return state_program(
        blueprint,
        step=step.watched(
            slope=slope,
            rounding=RelativeRounding(blueprint.dtype),
            smaller="fewer layers, smaller widths or a smaller n_relu",
        ),
        readout=readout,
        layout=builder.layout,
        codec=codec,
        certificate=builder.certificate(),
    )


def choose(
    problem: Network, optimizer: object, wanted: BackwardStackOptions, dtype: torch.dtype
) -> Blueprint:
    """Check every option and fill in the others."""
    given = asdict(wanted)
    gd = check_gd(problem, optimizer, "stack")
    adaptive = wanted.knots in (None, "adaptive")
    radius = default_radius(problem.spec) if adaptive else DEFAULTS["radius"]
    options = chosen_ranges(given, {**DEFAULTS, "radius": radius}, dtype)
    for name, allowed in (("knots", KNOTS), ("products", PRODUCTS)):
        if options[name] not in allowed:
            raise InvalidParameter(name, options[name], f"be one of {', '.join(allowed)}")
    if problem.spec.loss.name == "squared" and wanted.target_radius is None:
        options["target_radius"] = options["gate"]  # computed exactly, whatever the target
    options["ramp"] = _ramp(wanted.ramp, options["gate"], dtype)
    check_loss(problem.spec, options)
    return Blueprint(BACKWARD_STACK, problem, gd, options, dtype)


def _ramp(given: float | None, gate: float, dtype: torch.dtype) -> float:
    if given is None:
        return RAMP[dtype]
    least = 2 * gate * torch.finfo(dtype).eps
    if not least <= given <= 1 or math.frexp(given)[0] != 0.5:
        raise InvalidParameter(
            "ramp",
            given,
            f"be a power of two from {least:g} to 1, so that no operation rounds",
            remedy="For example 2**-20.",
        )
    return given


def stack_options(blueprint: Blueprint) -> StackOptions:
    """All the builder depends on besides the network."""
    gd = blueprint.optimizer
    return StackOptions(lr=gd.lr, box=gd.box, dtype=blueprint.dtype, **blueprint.options)


def build(blueprint: Blueprint) -> Program:
    """The (2N+4)-layer stack for a network.

    Statement: [DEEP] Theorem 1

    Differs from the paper: see mechanisms/stacks/backward.py.
    """
    spec, options = blueprint.problem.spec, stack_options(blueprint)
    builder = StackBuilder(spec, options)
    refuse_useless(builder.certificate())
    return stack_program(blueprint, builder, output=f"out{spec.n_layers}", slope=1 / options.ramp)
