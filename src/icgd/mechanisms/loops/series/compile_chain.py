"""Compile (chains of thought, gradient descent) into a looped transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from icgd.mechanisms.assembly import looped_program, make_config
from icgd.mechanisms.loops.regression.compile import loop_options, product_options
from icgd.mechanisms.loops.regression.shared_layers import step_size
from icgd.mechanisms.loops.series.chain_codec import ChainCodec
from icgd.mechanisms.loops.series.chain_layers import ChainBuilder, chain_codes
from icgd.mechanisms.sizes import check_size
from icgd.problems import MLPChain
from icgd.transformer.program import Program

NAME = "looped_chain"


def described(problem: MLPChain) -> dict[str, Any]:
    """A chain problem in a config."""
    return {
        "n_features": problem.n_features,
        "n_layers": problem.n_layers,
        "n_chains": problem.n_chains,
        "slope": problem.slope,
        "x_radius": problem.radius,
    }


def compile_chain(
    problem: MLPChain, optimizer: object, dtype: torch.dtype, given: Mapping[str, Any]
) -> Program:
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
    lr = step_size(optimizer, problem.radius, "an MLPChain")
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
    problem = MLPChain(**config["problem"])
    options = loop_options(config, problem.radius, problem.n_chains)
    builder = ChainBuilder(problem, options)
    step = builder.loop()
    return looped_program(
        config,
        builder,
        step,
        codec=ChainCodec(problem, options.lr, [step.like], step),
        certificate=options.certificate(chain_codes(problem).codes.shape[0]),
    )


Program.builders[NAME] = build
