"""Compile (linear regression, gradient descent) into a looped decoder that trains on every prefix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from icgd.constructions.assembly import looped_program, make_config
from icgd.constructions.compile_loop import product_options, products_of
from icgd.constructions.compile_newton import described_linear
from icgd.constructions.decoder_codec import DecoderCodec
from icgd.constructions.loop_layers import step_size
from icgd.constructions.looped_decoder import DecoderBuilder, DecoderOptions
from icgd.constructions.sizes import check_size
from icgd.errors import InvalidParameter
from icgd.gadgets.bilinear import BilinearOptions, bilinear_certificate
from icgd.problems import LinearRegression
from icgd.program import Program

NAME = "looped_decoder"


def compile_decoder(
    problem: LinearRegression, optimizer: object, dtype: torch.dtype, given: Mapping[str, Any]
) -> Program:
    """The causal pre / loop / post transformer of Theorem 4.2.

    Statement: [ALGO] Theorem 4.2

    Differs from the paper: both heads read y tokens, and softmax divides; see constructions/looped_decoder.py.
    """
    if problem.lam:
        raise InvalidParameter(
            "lam", problem.lam, "be 0 with causal=True", remedy="Equation 5 has no penalty."
        )
    lr = step_size(optimizer, problem.radius, "a decoder")
    return build(
        make_config(
            NAME, dtype, problem=described_linear(problem), optimizer={"name": "GD", "lr": lr},
            options=product_options(given),
        )
    )  # fmt: skip


def with_room(products: BilinearOptions, n_examples: int) -> BilinearOptions:
    """Keep the sink's largest score, C + log(n - 1), below the power of two where rounding doubles.

    >>> with_room(BilinearOptions("sym"), 41).sink + math.log(40)
    31.9
    """
    if products.C is not None:
        return products
    return replace(products, C=products.sink - math.log(max(1, n_examples - 1)))


def build(config: Mapping[str, Any]) -> Program:
    """The program a config describes; used by compile and when loading from disk."""
    check_size(config)
    problem = LinearRegression(**config["problem"])
    products = with_room(products_of(config), problem.n_examples)
    options = DecoderOptions(float(config["optimizer"]["lr"]), problem.radius, products)
    builder = DecoderBuilder(problem, options)
    step = builder.loop()
    return looped_program(
        config, builder, step,
        codec=DecoderCodec(problem, options, [step.like], step),
        certificate=bilinear_certificate(options.scaled, options.reach, 2 * problem.n_examples + 1),
    )  # fmt: skip


Program.builders[NAME] = build
