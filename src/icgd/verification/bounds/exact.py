"""An exact algorithm beside a loop: its weights, its answers, and what the loop may be off by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.base.growth import LOOKED_AT, Growth
from icgd.transformer.program import Program


@dataclass(frozen=True)
class Exact:
    """Exact weights after every loop, what one loop may add to the error, and the bound on all of it.

    answers       exact answers to what was asked, (asked, outputs); answer_bound bounds every entry
    """

    weights: list[Tensor]
    fresh: list[float]
    bounds: list[float]
    answers: Tensor
    answer_bound: float


def exact_algorithm(program: Program, X: Tensor, Y: Tensor, queries: Tensor, steps: int) -> Exact:
    """The exact algorithm of a program, weights of all steps kept; two steps show whether they will fit."""
    algorithm: Callable[..., Exact] = program.construction.load("exact")
    growth = Growth(f"Keeping the exact weights of {steps:,} steps", "steps", steps, steps)
    for few in range(1, min(steps, LOOKED_AT) + 1):
        growth.after_round(few, algorithm(program, X, Y, queries, few).weights)
    return algorithm(program, X, Y, queries, steps)


def product_error(
    program: Program, width: int, n: int, reach: float, promised: float | None = None
) -> float:
    """Error of a product per unit of sum |v|: its certificate, and rounding of s and of the sum."""
    u = torch.finfo(program.dtype).eps / 2
    promised = program.certificate.sup_error if promised is None else promised
    return promised + u * (2 * width + 2 * n + 16) * reach
