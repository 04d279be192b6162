"""What every frozen layer can say of itself, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from torch import Tensor, nn

from icgd.transformer.layout import Layout
from icgd.transformer.nn.rounding import Rounding
from icgd.transformer.nn.views import Grid, StageOutline


class FrozenLayer(nn.Module, ABC):
    """The part of a program that is applied again and again.

    radius    the range |s| <= radius in which what it computes is certified
    slope     of the ramp that stands for a step: 0 < z < 1/slope is neither open nor shut
    rounding  how far off its sums may be
    smaller   how to make its literal matrices smaller, as advice in an error
    """

    radius: float
    slope: float = 1.0
    rounding: Rounding = Rounding()
    smaller: str = "fewer tokens or smaller widths"

    def watched(
        self, *, slope: float | None = None, rounding: Rounding | None = None, smaller: str = ""
    ) -> Self:
        """The same layer, with what the range watch and the executors have to know of it."""
        self.slope = self.slope if slope is None else slope
        self.rounding = rounding or self.rounding
        self.smaller = smaller or self.smaller
        return self

    @property
    @abstractmethod
    def like(self) -> Tensor:
        """A weight, for its dtype and device."""

    @abstractmethod
    def layouts(self) -> dict[str, Layout]:
        """Named layouts beside the block's own, saved with the weights."""

    @abstractmethod
    def stages(self) -> list[StageOutline]:
        """What a token goes through, in order."""

    def grids(self) -> dict[str, Grid]:
        """Grid tokens of its banks of heads, where it has any, by label."""
        return {}

    @abstractmethod
    def dense_parameters(self, n_columns: int) -> int:
        """Entries of the literal matrices."""

    @abstractmethod
    def dense_flops(self, n_columns: int) -> int:
        """Operations of one call with literal matrices: every column, every head."""
