"""What every kind of attention layer can do, whatever its heads are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType

from torch import Tensor, nn

from icgd.transformer.layout import Layout
from icgd.transformer.nn.limits import Limits
from icgd.transformer.nn.symbolic import Builder
from icgd.transformer.nn.views import Grid


class DenseAttention(nn.Module, ABC):
    """Attention with literal matrices, tokens as rows, the residual included."""

    limits: Mapping[str, Limits] = MappingProxyType({})

    @abstractmethod
    def asked(self, tokens: Tensor) -> list[tuple[str, str, Tensor]]:
        """(head, slot, numbers) the heads ask, for the range watch."""

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: (..., column, entry)."""


class AttentionLayer(nn.Module, ABC):
    """Attention in compact named form; `dense` writes it out, `emit` describes its effect.

    layout  named slots of the tokens it works on
    limits  where its heads may be asked, by the label they are watched under; within the radius unless listed
    """

    layout: Layout
    limits: Mapping[str, Limits] = MappingProxyType({})

    @property
    @abstractmethod
    def like(self) -> Tensor:
        """A weight, for its dtype and device."""

    @abstractmethod
    def layouts(self) -> dict[str, Layout]:
        """Named layouts, saved with the weights."""

    @abstractmethod
    def emit(self, b: Builder, radius: float) -> None:
        """Describe the whole layer, residual included, on symbolic values."""

    @abstractmethod
    def grids(self) -> dict[str, Grid]:
        """The tokens that banks of heads attend over, by the label they are watched under."""

    @abstractmethod
    def dense(self, n_columns: int) -> DenseAttention:
        """The literal matrices for blocks of `n_columns` tokens."""

    @abstractmethod
    def dense_parameters(self, n_columns: int) -> int:
        """Entries of the literal matrices."""

    @abstractmethod
    def dense_flops(self, n_columns: int) -> int:
        """Multiply-adds of one call with literal matrices."""
