"""The chain of thought that fits linear models: what the rest of the package asks of it."""

from __future__ import annotations

from icgd.base.construction import Construction

_HERE = "icgd.mechanisms.cot_linear"
COT_LINEAR = Construction(
    name="softmax_cot_statistics",
    problem="icgd.problems:LinearModel",
    optimizer="icgd.problems:GD",
    options=f"{_HERE}.options:LinearModelOptions",
    choose=f"{_HERE}.compile:choose",
    build=f"{_HERE}.compile:build",
    noun="a linear model",
    title="one frozen softmax layer, applied again and again, fits",
    summary="one softmax layer and a chain of thought",
    statement="[COT] Theorem 3.1",
    starts=True,
    schema="icgd.mechanisms.config_schemas:COT_LINEAR",
    size="icgd.mechanisms.sizes:softmax_cot_statistics",
    verifier="icgd.verification.cot_linear:verify_linear_model",
    walk="icgd.verification.walks.cot_linear:LinearModelWalk",
    parts=(
        "transformer.mask_rules:WindowMask",
        "problems.linear_models:LinearModel",
        "transformer.gadgets.heads.link_head",
        "mechanisms.cot_linear.codec",
        "mechanisms.cot_linear.layer:block_layout",
        "verification.bounds.linear_model_theory:composed_error",
    ),
    switches=("temperature", "n_grid", "rho", "radius"),
)
