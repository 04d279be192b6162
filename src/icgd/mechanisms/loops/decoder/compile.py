"""Compile (linear regression, gradient descent) into a looped decoder that trains on every prefix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.assembly import looped_program, make_config
from icgd.mechanisms.loops.decoder.codec import DecoderCodec
from icgd.mechanisms.loops.decoder.layers import DecoderBuilder, DecoderOptions
from icgd.mechanisms.loops.newton.compile import described_linear
from icgd.mechanisms.loops.regression.compile import product_options, products_of
from icgd.mechanisms.loops.regression.shared_layers import step_size
from icgd.mechanisms.sizes import check_size
from icgd.problems import LinearRegression
from icgd.transformer.gadgets.heads.bilinear import BilinearOptions, bilinear_certificate
from icgd.transformer.program import Program

NAME = "looped_decoder"


def compile_decoder(
    problem: LinearRegression, optimizer: object, dtype: torch.dtype, given: Mapping[str, Any]
) -> Program:
    """The causal pre / loop / post transformer of Theorem 4.2.

    Statement: [ALGO] Theorem 4.2

    Differs from the paper: both heads read y tokens, and softmax divides; see loops/decoder/layers.py.
    """
    if problem.lam:
        raise InvalidParameter(
            "lam", problem.lam, "be 0 with causal=True", remedy="Equation 5 has no penalty."
        )
    lr = step_size(optimizer, problem.radius, "a decoder")
    return build(
        make_config(
            NAME,
            dtype,
            problem=described_linear(problem),
            optimizer={"name": "GD", "lr": lr},
            options=product_options(given),
        )
    )


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
        config,
        builder,
        step,
        codec=DecoderCodec(problem, options, [step.like], step),
        certificate=bilinear_certificate(options.scaled, options.reach, 2 * problem.n_examples + 1),
    )


Program.builders[NAME] = build
