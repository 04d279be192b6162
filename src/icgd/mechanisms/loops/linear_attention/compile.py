"""Compile (linear regression, gradient descent) into linear attention with a chain of thought."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.assembly import DTYPES, make_config, own_config
from icgd.mechanisms.loops.linear_attention.layer import (
    ChainCodec,
    chain_layer,
    chain_layout,
    reading_layer,
)
from icgd.mechanisms.sizes import check_size
from icgd.problems import GD, LinearRegression
from icgd.transformer.certificate import Certificate
from icgd.transformer.mask_rules import GrowingMask
from icgd.transformer.program import Program

NAME = "linear_attention_cot"


def compile_linear_attention(
    problem: LinearRegression, optimizer: object, dtype: torch.dtype
) -> Program:
    """One layer of linear attention; every step appends the next weight vector to the prompt.

    Statement: [LSA] Theorem 3.2

    Differs from the paper: not as far as is known; only a summary of it is at hand.
    """
    if not isinstance(optimizer, GD) or optimizer.box is not None:
        raise InvalidParameter(
            "optimizer", repr(optimizer), "be icgd.GD(lr) without a box for linear attention"
        )
    if problem.n_outputs != 1:
        raise InvalidParameter(
            "n_outputs",
            problem.n_outputs,
            "be 1 for linear attention: a token holds one weight vector",
            remedy="Compile one program per output, or leave out attention='linear'.",
        )
    if problem.lam:
        # All tokens of the chain hold a 1: a term that reads w_i from the last one reads them all.
        raise InvalidParameter(
            "lam",
            problem.lam,
            "be 0 for linear attention, which sees the last weights only by their residuals",
            remedy="Leave out attention='linear' for a ridge penalty.",
        )
    described = {
        "n_features": problem.n_features,
        "n_examples": problem.n_examples,
        "x_radius": problem.radius,
    }
    lr = 1 / problem.radius**2 if optimizer.lr == "auto" else float(optimizer.lr)
    return build(
        make_config(
            NAME,
            dtype,
            problem=described,
            optimizer={"name": "GD", "lr": lr},
            options={"attention": "linear"},
        )
    )


def step_certificate(problem: LinearRegression, lr: float, dtype: torch.dtype) -> Certificate:
    """Rounding of one step, per entry of w, for |w| <= 1 and |y| <= 1 and inputs within the radius.

    An inner product of m numbers is known to m u / (1 - m u) of the sum of their sizes; zeros cost
    nothing, so that m counts the residual's d + 1 terms, the n data tokens, and the factors around them.
    """
    u = torch.finfo(dtype).eps / 2
    m = problem.n_examples + problem.n_features + 8
    reach = 1.0 + lr * problem.radius * (problem.radius + 1.0)
    return Certificate(
        "linear_attention",
        problem.radius,
        m * u / (1 - m * u) * reach,
        reach,
        max(lr, 1.0),
        problem.n_examples,
    )


def build(config: Mapping[str, Any]) -> Program:
    """The program a config describes; used by compile and when loading from disk."""
    check_size(config)
    problem, dtype = LinearRegression(**config["problem"]), DTYPES[config["dtype"]]
    lr, layout = float(config["optimizer"]["lr"]), chain_layout(problem.n_features)
    step = chain_layer(layout, lr, problem.n_examples, dtype)
    program = Program(
        config=own_config(config),
        step=step,
        readout=reading_layer(layout, dtype),
        mask=GrowingMask(),
        layout=layout,
        codec=ChainCodec(problem, lr, [step.like]),
        certificate=step_certificate(problem, lr, dtype),
        feed="append",
    )
    return program.requires_grad_(False)


Program.builders[NAME] = build
