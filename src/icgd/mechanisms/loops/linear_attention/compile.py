"""Compile (linear regression, gradient descent) into linear attention with a chain of thought."""

from __future__ import annotations

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.loops.linear_attention.construction import LINEAR_ATTENTION
from icgd.mechanisms.loops.linear_attention.layer import (
    ChainCodec,
    chain_layer,
    chain_layout,
    reading_layer,
)
from icgd.mechanisms.loops.options import LinearAttentionOptions
from icgd.mechanisms.loops.regression.shared_layers import check_linear
from icgd.problems import GD, LinearRegression
from icgd.transformer.certificate import Certificate
from icgd.transformer.mask_rules import GrowingMask
from icgd.transformer.program import Blueprint, Program


def choose(
    problem: LinearRegression,
    optimizer: object,
    given: LinearAttentionOptions,
    dtype: torch.dtype,
) -> Blueprint:
    """Check that the problem is one a single weight vector solves."""
    check_linear(problem)
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
    lr = 1 / problem.radius**2 if optimizer.lr == "auto" else float(optimizer.lr)
    return Blueprint(LINEAR_ATTENTION, problem, GD(lr), {"attention": "linear"}, dtype)


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


def build(blueprint: Blueprint) -> Program:
    """One layer of linear attention; every step appends the next weight vector to the prompt.

    Statement: [LSA] Theorem 3.2

    Differs from the paper: not as far as is known; only a summary of it is at hand.
    """
    problem, lr, dtype = blueprint.problem, blueprint.optimizer.lr, blueprint.dtype
    layout = chain_layout(problem.n_features)
    step = chain_layer(layout, lr, problem.n_examples, dtype)
    return Program(
        blueprint,
        step=step.watched(smaller="fewer features"),
        readout=reading_layer(layout, dtype),
        mask=GrowingMask(),
        layout=layout,
        codec=ChainCodec(problem, lr, [step.like]),
        certificate=step_certificate(problem, lr, dtype),
    )
