"""An exact algorithm beside a loop: its weights, its answers, and what the loop may be off by."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

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


def product_error(
    program: Program, width: int, n: int, reach: float, promised: float | None = None
) -> float:
    """Error of a product per unit of sum |v|: its certificate, and rounding of s and of the sum."""
    u = torch.finfo(program.dtype).eps / 2
    promised = program.certificate.sup_error if promised is None else promised
    return promised + u * (2 * width + 2 * n + 16) * reach
