"""Compile (linear regression, Newton's method) into a looped transformer."""

from __future__ import annotations

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.assembly import looped_program
from icgd.mechanisms.loops.newton.codec import NewtonCodec, unit_error
from icgd.mechanisms.loops.newton.constructions import LOOPED_NEWTON
from icgd.mechanisms.loops.newton.layers import NewtonBuilder, NewtonOptions
from icgd.mechanisms.loops.options import ProductOptions
from icgd.mechanisms.loops.regression.compile import product_options, products_of
from icgd.mechanisms.loops.regression.shared_layers import check_linear
from icgd.mechanisms.step_size import newton_alpha
from icgd.problems import LinearRegression, Newton
from icgd.transformer.gadgets.heads.bilinear import bilinear_certificate
from icgd.transformer.program import Blueprint, Program


def choose(
    problem: LinearRegression, optimizer: object, given: ProductOptions, dtype: torch.dtype
) -> Blueprint:
    """Check every option and fill in the others."""
    check_linear(problem)
    assert isinstance(optimizer, Newton)
    if problem.lam:
        raise InvalidParameter(
            "lam",
            problem.lam,
            "be 0 for icgd.Newton",
            remedy="Append the rows sqrt(n lam) e_j to X, with targets 0: the same minimiser.",
        )
    alpha = newton_alpha(problem, optimizer.alpha)
    return Blueprint(LOOPED_NEWTON, problem, Newton(alpha), product_options(given), dtype)


def build(blueprint: Blueprint) -> Program:
    """The pre / loop / post transformer of Theorem 4.1.

    Statement: [ALGO] Theorem 4.1

    Differs from the paper: exact products in mode "spectral"; alpha comes from a bound on |S|, for weights
    cannot know the data; see mechanisms/loops/newton/layers.py.
    """
    problem = blueprint.problem
    options = NewtonOptions(blueprint.optimizer.alpha, problem.radius, products_of(blueprint))
    builder = NewtonBuilder(problem, options)
    step = builder.loop()
    certificate = bilinear_certificate(options.scaled, options.overlap, 2 * problem.n_examples + 2)
    unit = unit_error(options, certificate.sup_error, problem.n_examples)
    codec = NewtonCodec(problem, options, unit, [step.like], step)
    return looped_program(blueprint, builder, step, codec=codec, certificate=certificate)
