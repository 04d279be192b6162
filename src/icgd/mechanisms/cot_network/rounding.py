"""What pre-activations of the chain of thought may be off by, and the weights that gates can still shut out."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.problems import NetworkSpec
from icgd.transformer.blocks import Block
from icgd.transformer.gadgets.heads.spectral_theory import (
    GridGeometry,
    head_error_polynomial,
    pairwise_error_polynomial,
)
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.rounding import Rounding


class GridRounding(Rounding):
    """The error of reading a number off the grid, times the largest row sum of the weights."""

    def __init__(
        self,
        spec: NetworkSpec,
        geometry: GridGeometry,
        capacity: float,
        dtype: torch.dtype,
        *,
        reads_pairs: bool,
    ) -> None:
        self.spec, self.geometry, self.capacity = spec, geometry, capacity
        self.reads_pairs, self._u = reads_pairs, torch.finfo(dtype).eps / 2

    def noise(self, live: Mapping[Address, Block], largest: float, *, literal: bool) -> float:
        """See Rounding; also the place where gate capacity is checked."""
        row_sum = 0.0
        for i in range(1, self.spec.n_layers + 1):
            value = live[("B", i)].value("weight")
            rows = (
                value if isinstance(value, Tensor) else torch.full((self.spec.d_model,) * 2, value)
            )
            size = float(rows.abs().max())
            if not size <= self.capacity:
                raise AssumptionViolated(
                    f"Weight W_{i} reached size {size:.6g}, above the gates' capacity {self.capacity:.6g}. "
                    "Training diverged: lower lr or standardise the data."
                )
            row_sum = max(row_sum, float(rows.abs().sum(dim=-1).max()))
        pairs = self.reads_pairs and not literal
        polynomial = pairwise_error_polynomial if pairs else head_error_polynomial
        c0, c1, c2 = polynomial(self.geometry, self._u)
        per_entry = c0 + c1 * largest + c2 * largest * largest
        return row_sum * (per_entry + (self.spec.d_model + 2) * self._u * largest)

    def exact_zero(self, *, literal: bool) -> bool:
        """See Rounding: literal heads do not read 0 as exactly 0."""
        return not literal
