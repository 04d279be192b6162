"""Compile (regression, gradient descent) into a looped transformer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.assembly import looped_program
from icgd.mechanisms.loops.common.codec import RegressionCodec
from icgd.mechanisms.loops.options import ProductOptions
from icgd.mechanisms.loops.regression.constructions import LOOPED_REGRESSION
from icgd.mechanisms.loops.regression.layers import LoopOptions, RegressionBuilder
from icgd.problems import GD
from icgd.problems.regression import RepresentationRegression
from icgd.transformer.gadgets.heads.bilinear import BilinearOptions
from icgd.transformer.gadgets.heads.product_theory import MODES
from icgd.transformer.program import Blueprint, Program

PRODUCTS: dict[str, Any] = {"mode": "spectral", "sink": None, "scale": None, "n_grid": 32}
"""Products where nothing was chosen."""


def check_mode(mode: object) -> str:
    """How products are computed."""
    if mode not in (*MODES, "spectral"):
        raise InvalidParameter("mode", mode, f"be one of {', '.join((*MODES, 'spectral'))}")
    return str(mode)


def product_options(given: ProductOptions) -> dict[str, Any]:
    """Options of bilinear products, with their defaults filled in."""
    mode = check_mode(given.mode or "spectral")
    for name, value, most in (("sink", given.sink, 300.0), ("scale", given.scale, 1.0)):
        if value is None:
            continue
        if mode == "spectral":
            raise InvalidParameter(name, value, "be left out in mode 'spectral', which has none")
        if not (math.isfinite(value) and 1e-100 <= value <= most):
            raise InvalidParameter(
                name,
                value,
                f"lie between 1e-100 and {most:g}",
                remedy="Leave it out for the best one (transformer/gadgets/heads/product_theory.py).",
            )
    n_grid = given.n_grid
    if n_grid is not None and mode != "spectral":
        raise InvalidParameter("n_grid", n_grid, f"be left out in mode {mode!r}, which has no grid")
    return {
        "mode": mode,
        "sink": given.sink,
        "scale": given.scale,
        "n_grid": 32 if n_grid is None else n_grid,
    }


def products_of(blueprint: Blueprint) -> BilinearOptions:
    """The products a blueprint describes."""
    o = {**PRODUCTS, **{name: v for name, v in blueprint.options.items() if v is not None}}
    return BilinearOptions(o["mode"], o["sink"], o["scale"], o["n_grid"], blueprint.dtype)


def loop_options(blueprint: Blueprint, radius: float, n_examples: int) -> LoopOptions:
    """The loop a blueprint describes, for <k_s, h_i> = <h_s, h_i> / n with |h| <= radius."""
    products = products_of(blueprint)
    bound = products.room * radius**2 / n_examples
    return LoopOptions(blueprint.optimizer.lr, bound, products)


def choose(
    problem: RepresentationRegression,
    optimizer: object,
    given: ProductOptions,
    dtype: torch.dtype,
) -> Blueprint:
    """Check every option and fill in the others."""
    if not isinstance(optimizer, GD) or optimizer.box is not None:
        raise InvalidParameter(
            "optimizer", repr(optimizer), "be icgd.GD(lr) without a box for a looped regression"
        )
    lr = 1 / (problem.radius**2 + problem.lam) if optimizer.lr == "auto" else float(optimizer.lr)
    if lr * problem.lam >= 1:
        raise InvalidParameter("lr", lr, f"be < 1/lam = {1 / problem.lam:g}")
    return Blueprint(LOOPED_REGRESSION, problem, GD(lr), product_options(given), dtype)


def build(blueprint: Blueprint) -> Program:
    """The pre / loop / post transformer of Theorem 3.1.

    Statement: [ALGO] Theorem 3.1

    Differs from the paper: exact products in mode "spectral"; see mechanisms/loops/regression/layers.py.
    """
    return regression_program(blueprint, RegressionBuilder)


def regression_program(
    blueprint: Blueprint,
    make: Callable[[RepresentationRegression, LoopOptions], RegressionBuilder],
) -> Program:
    """A regression whose tokens hold residuals, with whatever loop a builder makes."""
    problem = blueprint.problem
    options = loop_options(blueprint, problem.radius, problem.n_examples)
    builder = make(problem, options)
    step, reach = builder.loop(), math.sqrt(options.products.room) * problem.radius
    return looped_program(
        blueprint,
        builder,
        step,
        codec=RegressionCodec(problem, [step.like], step, lr=options.lr, reach=reach),
        certificate=options.certificate(2 * problem.n_examples + 2),
    )
