"""Compile (autoregression, gradient descent) into a looped transformer."""

from __future__ import annotations

import torch

from icgd.mechanisms.assembly import looped_program
from icgd.mechanisms.loops.options import ProductOptions
from icgd.mechanisms.loops.regression.compile import loop_options, product_options
from icgd.mechanisms.loops.regression.shared_layers import check_linear, step_size
from icgd.mechanisms.loops.series.constructions import LOOPED_AUTOREGRESSION
from icgd.mechanisms.loops.series.series_codec import SeriesCodec
from icgd.mechanisms.loops.series.series_layers import AutoregressionBuilder
from icgd.problems import GD, Autoregression, Newton, PreconditionedGD
from icgd.transformer.program import Blueprint, Program


def choose(
    problem: Autoregression, optimizer: object, given: ProductOptions, dtype: torch.dtype
) -> Blueprint:
    """Check every option and fill in the others."""
    if isinstance(optimizer, (Newton, PreconditionedGD)):
        check_linear(problem)
    lr = step_size(optimizer, problem.radius, "an Autoregression")
    return Blueprint(LOOPED_AUTOREGRESSION, problem, GD(lr), product_options(given), dtype)


def build(blueprint: Blueprint) -> Program:
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
    problem = blueprint.problem
    options = loop_options(blueprint, problem.radius, problem.n_examples)
    builder = AutoregressionBuilder(problem, options)
    step = builder.loop().watched(smaller="a shorter series or smaller widths")
    return looped_program(
        blueprint,
        builder,
        step,
        codec=SeriesCodec(problem, options.lr, [step.like], step),
        certificate=options.certificate(problem.n_steps + 2),
    )
