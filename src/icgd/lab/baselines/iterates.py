"""Exact iterates of gradient descent and of Newton's method for the inverse, on the prefix.

Every iterate is a polynomial of S = X^T X / m times c = X^T y / m. So one eigendecomposition per position
gives them all, and each eigenvalue runs through the recursion alone: nothing accumulates.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import InvalidParameter
from icgd.lab.baselines.prefix import Baseline, Prefix
from icgd.lab.tasks.batch import Batch
from icgd.problems.regression import positive


@dataclass(frozen=True)
class _Iterates(Baseline):
    n_steps: int = 10

    def __post_init__(self) -> None:
        whole_number("n_steps", self.n_steps, 0)

    def predict(self, prefix: Prefix) -> Tensor:
        """Predictions of the last iterate."""
        return self._all(prefix)[-1]

    def iterates(self, batch: Batch) -> Tensor:
        """(n_steps + 1, B, n, d_y): predictions of every iterate, the start included."""
        return self._all(self.prefix(batch)).to(batch.ys.dtype)

    def _all(self, prefix: Prefix) -> Tensor:
        m = prefix.counts()[:, None, None]
        S = prefix.sums(torch.einsum("bnp,bnq->bnpq", prefix.xs, prefix.xs)).detach() / m
        c = prefix.sums(torch.einsum("bnp,bno->bnpo", prefix.xs, prefix.ys)).detach() / m
        values, vectors = torch.linalg.eigh(S)
        largest = values[..., -1:].clamp(min=0)
        # What is 0 up to rounding has no share in c, and must not be amplified.
        tiny = values <= largest * values.shape[-1] * torch.finfo(values.dtype).eps * 8
        values = torch.where(tiny, 0.0, values)
        inside = torch.einsum("bnpk,bnpo->bnko", vectors, c)
        inside = torch.where(tiny.unsqueeze(-1), 0.0, inside)
        query = torch.einsum("bnpk,bnp->bnk", vectors, prefix.xs)
        largest = torch.where(largest > 0, largest, 1.0)
        # Not differentiated through the fit: the prediction at i is linear in x_i.
        return torch.stack(
            [
                torch.einsum("bnk,bnk,bnko->bno", query, factor, inside)
                for factor in self.factors(values, largest)
            ]
        )

    @abstractmethod
    def factors(self, values: Tensor, largest: Tensor) -> list[Tensor]:
        """For every iterate, the eigenvalues of the matrix that takes c to w, by eigenvalues of S."""


@dataclass(frozen=True)
class GradientDescent(_Iterates):
    """w_0 = 0, w_{k+1} = w_k - lr (S w_k - c), on 1/(2m) |X w - y|^2 over the m examples before i.

    lr  step size; None: 1 / (largest eigenvalue of S), for each prompt and position
    """

    lr: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("lr", self.lr)

    def factors(self, values: Tensor, largest: Tensor) -> list[Tensor]:
        """f_{k+1} = f_k + lr (1 - s f_k)."""
        lr = 1 / largest if self.lr is None else self.lr
        factors = [torch.zeros_like(values)]
        for _ in range(self.n_steps):
            factors.append(factors[-1] + lr * (1 - values * factors[-1]))
        return factors


@dataclass(frozen=True)
class NewtonIterations(_Iterates):
    """w_k = M_k c with M_0 = start * S / |S|^2, M_{k+1} = 2 M_k - M_k S M_k, over the examples before i.

    Statement: [ALGO] Equation 4

    start  in (0, 2): at 2 the iteration stalls, above it diverges

    Differs from the paper: S and c are means over examples, which cancels; start < 2, as at the paper's end of
    the interval, 2 / |S S^T|, the iteration stalls.
    """

    start: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.start < 2:
            raise InvalidParameter("start", self.start, "lie in (0, 2)")

    def factors(self, values: Tensor, largest: Tensor) -> list[Tensor]:
        """f_{k+1} = (2 - s f_k) f_k."""
        factors = [self.start * values / largest.square()]
        for _ in range(self.n_steps):
            factors.append((2 - values * factors[-1]) * factors[-1])
        return factors
