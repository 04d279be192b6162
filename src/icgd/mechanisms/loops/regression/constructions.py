"""Looped gradient descent, in parts and as one layer: what the rest of the package asks of it."""

from __future__ import annotations

from icgd.base.construction import Construction

_HERE = "icgd.mechanisms.loops.regression"
LOOPED_REGRESSION = Construction(
    name="looped_regression",
    problem="icgd.problems:RepresentationRegression",
    optimizer="icgd.problems:GD",
    options="icgd.mechanisms.loops.options:ProductOptions",
    choose=f"{_HERE}.compile:choose",
    build=f"{_HERE}.compile:build",
    noun="a loop",
    summary="a looped transformer",
    statement="[ALGO] Theorem 3.1",
    schema="icgd.mechanisms.config_schemas:LOOPED_REGRESSION",
    size="icgd.mechanisms.sizes:looped_regression",
    exact="icgd.verification.loop_oracles:descent",
    walk="icgd.verification.walks.loop:residual_descent",
    parts=(
        "transformer.nn.stack.softmax_sublayer",
        "transformer.gadgets.heads.bilinear",
        "mechanisms.loops.regression.shared_layers",
        "mechanisms.loops.regression.layers",
        "mechanisms.loops.regression.compile",
    ),
)
FUSED_LOOP = Construction(
    name="fused_loop",
    problem="icgd.problems:RepresentationRegression",
    optimizer="icgd.problems:GD",
    compiles=False,  # `fuse` makes it of a looped regression
    options="icgd.mechanisms.loops.options:ProductOptions",
    build=f"{_HERE}.fused:build",
    noun="a loop",
    summary="one layer for entry, loop and answer",
    statement="[ALGO] Section 2.2",
    schema="icgd.mechanisms.config_schemas:LOOPED_REGRESSION",
    size="icgd.mechanisms.sizes:looped_regression",
    exact="icgd.verification.loop_oracles:descent",
)
