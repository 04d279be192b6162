"""Compile (linear regression, Newton's method) into a looped transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.assembly import looped_program, make_config
from icgd.mechanisms.loops.newton.codec import NewtonCodec, unit_error
from icgd.mechanisms.loops.newton.layers import NewtonBuilder, NewtonOptions
from icgd.mechanisms.loops.regression.compile import product_options, products_of
from icgd.mechanisms.sizes import check_size
from icgd.mechanisms.step_size import newton_alpha
from icgd.problems import LinearRegression, Newton
from icgd.transformer.gadgets.heads.bilinear import bilinear_certificate
from icgd.transformer.program import Program

NAME = "looped_newton"


def described_linear(problem: LinearRegression) -> dict[str, Any]:
    """A linear regression in a config."""
    return {
        "n_features": problem.n_features,
        "n_examples": problem.n_examples,
        "n_outputs": problem.n_outputs,
        "x_radius": problem.radius,
    }


def compile_newton(
    problem: LinearRegression, optimizer: object, dtype: torch.dtype, given: Mapping[str, Any]
) -> Program:
    """The pre / loop / post transformer of Theorem 4.1.

    Statement: [ALGO] Theorem 4.1

    Differs from the paper: exact products in mode "spectral"; alpha comes from a bound on |S|, for weights
    cannot know the data; see mechanisms/loops/newton/layers.py.
    """
    assert isinstance(optimizer, Newton)
    if problem.lam:
        raise InvalidParameter(
            "lam",
            problem.lam,
            "be 0 for icgd.Newton",
            remedy="Append the rows sqrt(n lam) e_j to X, with targets 0: the same minimiser.",
        )
    alpha = newton_alpha(problem, optimizer.alpha)
    return build(
        make_config(
            NAME,
            dtype,
            problem=described_linear(problem),
            optimizer={"name": "Newton", "alpha": alpha},
            options=product_options(given),
        )
    )


def build(config: Mapping[str, Any]) -> Program:
    """The program a config describes; used by compile and when loading from disk."""
    check_size(config)
    problem, alpha = LinearRegression(**config["problem"]), float(config["optimizer"]["alpha"])
    options = NewtonOptions(alpha, problem.radius, products_of(config))
    builder = NewtonBuilder(problem, options)
    step = builder.loop()
    certificate = bilinear_certificate(options.scaled, options.overlap, 2 * problem.n_examples + 2)
    unit = unit_error(options, certificate.sup_error, problem.n_examples)
    codec = NewtonCodec(problem, options, unit, [step.like], step)
    return looped_program(config, builder, step, codec=codec, certificate=certificate)


Program.builders[NAME] = build
