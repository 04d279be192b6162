"""Looped Newton iterations: what the rest of the package asks of it."""

from __future__ import annotations

from icgd.base.construction import Construction

_HERE = "icgd.mechanisms.loops.newton"
LOOPED_NEWTON = Construction(
    name="looped_newton",
    problem="icgd.problems:RepresentationRegression",
    optimizer="icgd.problems:Newton",
    options="icgd.mechanisms.loops.options:ProductOptions",
    choose=f"{_HERE}.compile:choose",
    build=f"{_HERE}.compile:build",
    noun="a loop",
    summary="a looped transformer",
    statement="[ALGO] Theorem 4.1",
    schema="icgd.mechanisms.config_schemas:LOOPED_NEWTON",
    size="icgd.mechanisms.sizes:looped_newton",
    exact="icgd.verification.loop_oracles:newton",
    walk="icgd.verification.walks.loop:newton",
    parts=(
        "transformer.nn.stack.softmax_sublayer",
        "oracle.least_squares:newton_schulz",
        "mechanisms.loops.newton.layers",
        "mechanisms.loops.newton.compile",
    ),
)
LOOPED_PRECONDITIONED = Construction(
    name="looped_preconditioned",
    problem="icgd.problems:RepresentationRegression",
    optimizer="icgd.problems:PreconditionedGD",
    options="icgd.mechanisms.loops.options:ProductOptions",
    choose=f"{_HERE}.preconditioned:choose",
    build=f"{_HERE}.preconditioned:build",
    noun="a loop",
    summary="Newton's iteration, then a looped transformer",
    statement="[ALGO] Theorem 4.1",
    schema="icgd.mechanisms.config_schemas:LOOPED_PRECONDITIONED",
    size="icgd.mechanisms.sizes:looped_preconditioned",
    walk="icgd.verification.walks.loop:preconditioned",
    parts=(
        "transformer.nn.stack.softmax_sublayer",
        "transformer.gadgets.heads.bilinear",
        "mechanisms.loops.regression.shared_layers",
        "oracle.least_squares:newton_schulz",
        "mechanisms.loops.newton.layers:NewtonBuilder.loop",
    ),
)
