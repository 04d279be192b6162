"""Compile (regression, gradient descent) into a looped transformer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.assembly import DTYPES, looped_program, make_config
from icgd.mechanisms.loops.common.codec import RegressionCodec
from icgd.mechanisms.loops.regression.layers import LoopOptions, RegressionBuilder
from icgd.mechanisms.sizes import check_size
from icgd.problems import GD
from icgd.problems.regression import RepresentationRegression
from icgd.transformer.gadgets.heads.bilinear import BilinearOptions
from icgd.transformer.gadgets.heads.product_theory import MODES
from icgd.transformer.program import Program

NAME = "looped_regression"


def check_mode(mode: object) -> str:
    """How products are computed."""
    if mode not in (*MODES, "spectral"):
        raise InvalidParameter("mode", mode, f"be one of {', '.join((*MODES, 'spectral'))}")
    return str(mode)


def product_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of bilinear products, with their defaults, as a config holds them."""
    mode = check_mode(given.get("mode") or "spectral")
    for name, most in (("sink", 300.0), ("scale", 1.0)):
        value = given.get(name)
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
    n_grid = given.get("n_grid")
    if n_grid is not None and mode != "spectral":
        raise InvalidParameter("n_grid", n_grid, f"be left out in mode {mode!r}, which has no grid")
    return {
        "mode": mode,
        "sink": given.get("sink"),
        "scale": given.get("scale"),
        "n_grid": 32 if n_grid is None else n_grid,
    }


def products_of(config: Mapping[str, Any]) -> BilinearOptions:
    """The products a config describes."""
    o = config["options"]
    return BilinearOptions(o["mode"], o["sink"], o["scale"], o["n_grid"], DTYPES[config["dtype"]])


def loop_options(config: Mapping[str, Any], radius: float, n_examples: int) -> LoopOptions:
    """The loop a config describes, for <k_s, h_i> = <h_s, h_i> / n with |h| <= radius."""
    products = products_of(config)
    bound = products.room * radius**2 / n_examples
    return LoopOptions(float(config["optimizer"]["lr"]), bound, products)


def described(problem: RepresentationRegression) -> dict[str, Any]:
    """A regression problem in a config; a fixed representation is part of it."""
    return {
        "n_features": problem.n_features,
        "n_examples": problem.n_examples,
        "n_outputs": problem.n_outputs,
        "representation": [[W.tolist(), b.tolist()] for W, b in problem.representation],
        "slope": problem.slope,
        "lam": problem.lam,
        "x_radius": problem.radius,
    }


def problem_of(config: Mapping[str, Any]) -> RepresentationRegression:
    """The problem a config describes."""
    return RepresentationRegression(**config["problem"])


def compile_loop(
    problem: RepresentationRegression,
    optimizer: object,
    dtype: torch.dtype,
    given: Mapping[str, Any],
) -> Program:
    """The pre / loop / post transformer of Theorem 3.1.

    Statement: [ALGO] Theorem 3.1

    Differs from the paper: exact products in mode "spectral"; see mechanisms/loops/regression/layers.py.
    """
    if not isinstance(optimizer, GD) or optimizer.box is not None:
        raise InvalidParameter(
            "optimizer", repr(optimizer), "be icgd.GD(lr) without a box for a looped regression"
        )
    lr = 1 / (problem.radius**2 + problem.lam) if optimizer.lr == "auto" else float(optimizer.lr)
    if lr * problem.lam >= 1:
        raise InvalidParameter("lr", lr, f"be < 1/lam = {1 / problem.lam:g}")
    return build(
        make_config(
            NAME,
            dtype,
            problem=described(problem),
            optimizer={"name": "GD", "lr": lr},
            options=product_options(given),
        )
    )


def build(config: Mapping[str, Any]) -> Program:
    """The program a config describes; used by compile and when loading from disk."""
    check_size(config)
    problem = problem_of(config)
    options = loop_options(config, problem.radius, problem.n_examples)
    builder = RegressionBuilder(problem, options)
    step, reach = builder.loop(), math.sqrt(options.products.room) * problem.radius
    return looped_program(
        config,
        builder,
        step,
        codec=RegressionCodec(problem, [step.like], step, lr=options.lr, reach=reach),
        certificate=options.certificate(2 * problem.n_examples + 2),
    )


Program.builders[NAME] = build
