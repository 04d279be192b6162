"""Which looped or linear construction a regression problem and an optimizer mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from icgd.errors import InvalidParameter
from icgd.mechanisms.loops.decoder.compile import compile_decoder
from icgd.mechanisms.loops.linear_attention.compile import compile_linear_attention
from icgd.mechanisms.loops.newton.compile import compile_newton
from icgd.mechanisms.loops.newton.preconditioned import compile_preconditioned
from icgd.mechanisms.loops.regression.compile import compile_loop
from icgd.mechanisms.loops.series.compile_chain import compile_chain
from icgd.mechanisms.loops.series.compile_series import compile_autoregression
from icgd.problems import Autoregression, LinearRegression, MLPChain, Newton, PreconditionedGD
from icgd.problems.regression import RepresentationRegression
from icgd.transformer.program import Program

LOOP = ("mode", "sink", "scale", "n_grid")
"""Options of bilinear products."""


def compile_regression(
    problem: RepresentationRegression | Autoregression | MLPChain,
    optimizer: object,
    dtype: torch.dtype,
    given: Mapping[str, Any],
    method: object,
) -> Program:
    """Pick the compiler; options that would be ignored are a mistake."""
    linear = given["attention"] == "linear"
    allowed = ("attention",) if linear else (*LOOP, "causal")
    for name, value in {**given, "method": method}.items():
        if value is not None and name not in allowed:
            raise InvalidParameter(
                name,
                value,
                f"be left out for {type(problem).__name__}"
                + (" with linear attention" if linear else ""),
            )
    options = {name: given[name] for name in LOOP}
    plain = isinstance(problem, LinearRegression)
    if linear or given["causal"] or isinstance(optimizer, (Newton, PreconditionedGD)):
        if not plain:
            what = (
                "attention='linear'"
                if linear
                else "causal=True, icgd.Newton or icgd.PreconditionedGD"
            )
            raise InvalidParameter(
                "problem", type(problem).__name__, f"be an icgd.LinearRegression for {what}"
            )
        assert isinstance(problem, LinearRegression)
        if linear:
            return compile_linear_attention(problem, optimizer, dtype)
        if given["causal"]:
            return compile_decoder(problem, optimizer, dtype, options)
        if isinstance(optimizer, PreconditionedGD):
            return compile_preconditioned(problem, optimizer, dtype, options)
        return compile_newton(problem, optimizer, dtype, options)
    if isinstance(problem, Autoregression):
        return compile_autoregression(problem, optimizer, dtype, options)
    if isinstance(problem, MLPChain):
        return compile_chain(problem, optimizer, dtype, options)
    return compile_loop(problem, optimizer, dtype, options)
