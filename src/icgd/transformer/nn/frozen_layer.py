"""What every frozen layer can say of itself, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from icgd.transformer.layout import Layout
from icgd.transformer.nn.views import Grid, StageOutline


class FrozenLayer(nn.Module, ABC):
    """The part of a program that is applied again and again.

    radius  the range |s| <= radius in which what it computes is certified
    """

    radius: float

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
