"""Compile (chains of thought, gradient descent) into a looped transformer."""

from __future__ import annotations

import torch

from icgd.mechanisms.assembly import looped_program
from icgd.mechanisms.loops.options import ProductOptions
from icgd.mechanisms.loops.regression.compile import loop_options, product_options
from icgd.mechanisms.loops.regression.shared_layers import check_linear, step_size
from icgd.mechanisms.loops.series.chain_codec import ChainCodec
from icgd.mechanisms.loops.series.chain_layers import ChainBuilder, chain_codes
from icgd.mechanisms.loops.series.constructions import LOOPED_CHAIN
from icgd.problems import GD, MLPChain, Newton, PreconditionedGD
from icgd.transformer.program import Blueprint, Program


def choose(
    problem: MLPChain, optimizer: object, given: ProductOptions, dtype: torch.dtype
) -> Blueprint:
    """Check every option and fill in the others."""
    if isinstance(optimizer, (Newton, PreconditionedGD)):
        check_linear(problem)
    lr = step_size(optimizer, problem.radius, "an MLPChain")
    return Blueprint(LOOPED_CHAIN, problem, GD(lr), product_options(given), dtype)


def build(blueprint: Blueprint) -> Program:
    """The pre / loop / post transformer of Theorem 3.3.

    Statement: [ALGO] Theorem 3.3

    `run(chains, None, steps=T, query=start)`: `prediction` is the row s^{l+1} that follows the start
    s^0 .. s^l, `weights` the estimate of W_{l+1}. One program serves every l < L.

    Differs from the paper: exact products in mode "spectral"; see mechanisms/loops/series/chain_layers.py.

    >>> import icgd
    >>> program = icgd.compile(icgd.MLPChain(n_features=1, n_layers=1, n_chains=2), icgd.GD(1.0))
    >>> chains = torch.tensor([[[1.0], [2.0]], [[-1.0], [-0.2]]]).double()
    >>> round(float(program.run(chains, None, steps=40, query=[[-2.0]]).prediction), 6)
    -0.4
    """
    problem = blueprint.problem
    options = loop_options(blueprint, problem.radius, problem.n_chains)
    builder = ChainBuilder(problem, options)
    step = builder.loop().watched(smaller="fewer chains or smaller widths")
    return looped_program(
        blueprint,
        builder,
        step,
        codec=ChainCodec(problem, options.lr, [step.like], step),
        certificate=options.certificate(chain_codes(problem).codes.shape[0]),
    )
