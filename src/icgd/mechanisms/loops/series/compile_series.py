"""Compile (autoregression, gradient descent) into a looped transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from icgd.mechanisms.assembly import looped_program, make_config
from icgd.mechanisms.loops.regression.compile import loop_options, product_options
from icgd.mechanisms.loops.regression.shared_layers import step_size
from icgd.mechanisms.loops.series.series_codec import SeriesCodec
from icgd.mechanisms.loops.series.series_layers import AutoregressionBuilder
from icgd.mechanisms.sizes import check_size
from icgd.problems import Autoregression
from icgd.transformer.program import Program

NAME = "looped_autoregression"


def described(problem: Autoregression) -> dict[str, Any]:
    """An autoregression in a config; a fixed representation is part of it."""
    return {
        "n_features": problem.n_features,
        "order": problem.order,
        "n_steps": problem.n_steps,
        "representation": [[W.tolist(), b.tolist()] for W, b in problem.representation],
        "slope": problem.slope,
        "x_radius": problem.radius,
    }


def compile_autoregression(
    problem: Autoregression, optimizer: object, dtype: torch.dtype, given: Mapping[str, Any]
) -> Program:
    """The pre / loop / post transformer of Theorem 3.2.

    Statement: [ALGO] Theorem 3.2

    `run(series, None, steps=T)`: `prediction` is the row x_{N+1} that follows the series, `weights` is A.

    Differs from the paper: exact products in mode "spectral"; see mechanisms/loops/series/series_layers.py.

    >>> import icgd
    >>> program = icgd.compile(icgd.Autoregression(n_features=1, order=2, n_steps=6), icgd.GD(0.5))
    >>> x = torch.tensor([1.0, 0, -1, 0, 1, 0, -1]).double()
    >>> round(float(program.run(x, None, steps=60).prediction), 6)
    0.0
    """
    lr = step_size(optimizer, problem.radius, "an Autoregression")
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
    problem = Autoregression(**config["problem"])
    options = loop_options(config, problem.radius, problem.n_examples)
    builder = AutoregressionBuilder(problem, options)
    step = builder.loop()
    return looped_program(
        config,
        builder,
        step,
        codec=SeriesCodec(problem, options.lr, [step.like], step),
        certificate=options.certificate(problem.n_steps + 2),
    )


Program.builders[NAME] = build
