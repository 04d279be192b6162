"""Compile (linear regression, gradient descent) into a looped decoder that trains on every prefix."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.assembly import looped_program
from icgd.mechanisms.loops.decoder.codec import DecoderCodec
from icgd.mechanisms.loops.decoder.construction import LOOPED_DECODER
from icgd.mechanisms.loops.decoder.layers import DecoderBuilder, DecoderSizes
from icgd.mechanisms.loops.options import DecoderOptions
from icgd.mechanisms.loops.regression.compile import product_options, products_of
from icgd.mechanisms.loops.regression.shared_layers import check_linear, step_size
from icgd.problems import GD, LinearRegression
from icgd.transformer.gadgets.heads.bilinear import BilinearOptions, bilinear_certificate
from icgd.transformer.program import Blueprint, Program


def choose(
    problem: LinearRegression, optimizer: object, given: DecoderOptions, dtype: torch.dtype
) -> Blueprint:
    """Check every option and fill in the others."""
    check_linear(problem)
    if problem.lam:
        raise InvalidParameter(
            "lam", problem.lam, "be 0 with causal=True", remedy="Equation 5 has no penalty."
        )
    lr = step_size(optimizer, problem.radius, "a decoder")
    return Blueprint(LOOPED_DECODER, problem, GD(lr), product_options(given), dtype)


def with_room(products: BilinearOptions, n_examples: int) -> BilinearOptions:
    """Keep the sink's largest score, C + log(n - 1), below the power of two where rounding doubles.

    >>> with_room(BilinearOptions("sym"), 41).sink + math.log(40)
    31.9
    """
    if products.C is not None:
        return products
    return replace(products, C=products.sink - math.log(max(1, n_examples - 1)))


def build(blueprint: Blueprint) -> Program:
    """The causal pre / loop / post transformer of Theorem 4.2.

    Statement: [ALGO] Theorem 4.2

    Differs from the paper: both heads read y tokens, and softmax divides; see loops/decoder/layers.py.
    """
    problem = blueprint.problem
    products = with_room(products_of(blueprint), problem.n_examples)
    options = DecoderSizes(blueprint.optimizer.lr, problem.radius, products)
    builder = DecoderBuilder(problem, options)
    step = builder.loop()
    return looped_program(
        blueprint,
        builder,
        step,
        codec=DecoderCodec(problem, options, [step.like], step),
        certificate=bilinear_certificate(options.scaled, options.reach, 2 * problem.n_examples + 1),
    )
