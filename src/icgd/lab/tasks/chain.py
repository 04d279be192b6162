"""Chains of states: every state is the next layer of a network applied to the one before."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, pad

from icgd.base.numbers import whole_number
from icgd.errors import InvalidParameter
from icgd.lab.tasks.base import Task
from icgd.lab.tasks.batch import Batch
from icgd.problems.regression import check_slope


@dataclass(frozen=True)
class MLPChain(Task):
    """Tokens x_1 s_1^1 .. s_1^L x_2 s_2^1 ..: the states of an L-layer leaky-ReLU network, one per prompt.

    Statement: [ALGO] Section 5.1

        s^0 = x,  s^l = leaky_relu(c W_l s^{l-1}),  c = sqrt(2 / ((1 + slope^2) d))

    n_layers  L; a chain has L + 1 tokens
    slope     of the leaky ReLU below zero
    weights   of the rows of all W_l

    `n_points` of `sample` are positions, not chains: N whole chains have N (L + 1) - 1. The last position of
    a chain is followed by a new x, which nothing predicts: it is not counted. With n_dims, states live in the
    first n_dims coordinates, and d = n_dims.

    Differs from the paper: it gives neither slope nor weights; c keeps the mean square of the states. Its
    N = 40 samples are 40 * 7 - 1 positions.
    """

    name: ClassVar[str] = "mlp_chain"

    _: KW_ONLY
    d_y: int = 0
    n_layers: int = 6
    slope: float = 0.1

    def __post_init__(self) -> None:
        if self.d_y not in (0, self.d_x):
            raise InvalidParameter("d_y", self.d_y, f"be d_x = {self.d_x}: targets are states")
        object.__setattr__(self, "d_y", self.d_x)
        super().__post_init__()
        whole_number("n_layers", self.n_layers)
        check_slope(self.slope)
        if self.noise is not None:
            raise InvalidParameter(
                "noise", self.noise, "be left out of mlp_chain", remedy="States are exact."
            )

    @property
    def period(self) -> int:
        """Tokens of a chain, L + 1."""
        return self.n_layers + 1

    def sample(
        self,
        batch_size: int,
        n_points: int,
        *,
        generator: torch.Generator,
        n_dims: int | None = None,
    ) -> Batch:
        """Prompts of n_points + 1 tokens; the last chain may be cut short."""
        active = self._check(batch_size, n_points, generator, n_dims)
        n_chains = math.ceil((n_points + 1) / self.period)
        states = [self.draw(self.inputs, (batch_size, n_chains, active), generator)]
        for _ in range(self.n_layers):
            states.append(self.targets(states[-1], generator))
        tokens = torch.stack(states, 2).flatten(1, 2)[:, : n_points + 1]
        tokens = pad(tokens, (0, self.d_x - active))
        counted = torch.arange(n_points) % self.period != self.n_layers
        return Batch(tokens[:, :-1], tokens[:, 1:], "series", counted)

    def targets(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        """One more layer, with weights drawn for it."""
        n_dims = xs.shape[2]
        factor = math.sqrt(2 / ((1 + self.slope**2) * n_dims))
        return leaky_relu(
            factor * xs @ self.columns(n_dims, n_dims, len(xs), generator), self.slope
        )
