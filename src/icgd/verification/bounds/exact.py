"""An exact algorithm beside a loop: its weights, its answers, and what the loop may be off by."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.base.growth import LOOKED_AT, Growth
from icgd.errors import FaultyPlugin
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

    def algorithm(n: int) -> Exact:
        exact = program.construction.apply("exact", program, X, Y, queries, n)
        if not isinstance(exact, Exact):
            raise FaultyPlugin(
                f"`exact` of the construction {program.construction.name!r} must give an icgd.Exact. "
                f"Got {type(exact).__name__}."
            )
        return exact

    growth = Growth(f"Keeping the exact weights of {steps:,} steps", "steps", steps, steps)
    for few in range(1, min(steps, LOOKED_AT) + 1):
        growth.after_round(few, algorithm(few).weights)
    return algorithm(steps)


def product_error(
    program: Program, width: int, n: int, reach: float, promised: float | None = None
) -> float:
    """Error of a product per unit of sum |v|: its certificate, and rounding of s and of the sum."""
    u = torch.finfo(program.dtype).eps / 2
    promised = program.certificate.sup_error if promised is None else promised
    return promised + u * (2 * width + 2 * n + 16) * reach
