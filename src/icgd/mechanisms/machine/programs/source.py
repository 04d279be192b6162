"""The live objects a program was traced from: its initial weights, and what it is verified against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


class _Live:
    """Never copied: a step is a closure over these very objects."""

    def __deepcopy__(self, memo: object) -> Any:
        return self


@dataclass(frozen=True, eq=False)
class FunctionSource(_Live):
    """A function of tensors, in this process only."""

    function: Callable[..., Any]
    example: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Source(_Live):
    """A step with its model and optimizer, in this process only; programs in files have none."""

    step: Callable[..., Any]
    model: nn.Module
    optimizer: torch.optim.Optimizer | None
    example: tuple[Any, ...]
    hyper: tuple[str, ...]
    loss: Callable[..., Tensor] | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the example."""
        return next(len(v) for v in self.example if isinstance(v, Tensor) and v.dim())

    def example_of(self, n_rows: int) -> tuple[Any, ...]:
        """The example with so many rows, repeated from the start where it has fewer."""
        rows = torch.arange(n_rows) % self.n_rows

        def sized(value: Any) -> Any:
            whole = isinstance(value, Tensor) and value.dim() and len(value) == self.n_rows
            return value[rows] if whole else value

        return tuple(sized(value) for value in self.example)

    def forward(self, *inputs: Any) -> Any:
        """The model's predictions."""
        return self.model(*inputs)

    def parameter_names(self) -> list[list[str]]:
        """Names of the parameters of each group of the optimizer, in its order."""
        if self.optimizer is None:
            return []
        names = {id(p): name for name, p in self.model.named_parameters()}
        return [[names[id(p)] for p in g["params"]] for g in self.optimizer.param_groups]

    def settings(self) -> list[Mapping[str, Any]]:
        """Settings of every parameter group that are numbers or names."""
        groups = self.optimizer.param_groups if self.optimizer is not None else []
        plain = (bool, int, float, str, type(None))

        def written(value: Any) -> Any:
            return list(value) if isinstance(value, tuple) else value

        return [
            {
                k: written(v)
                for k, v in group.items()
                if k != "params"
                and (
                    isinstance(v, plain)
                    or (isinstance(v, tuple) and all(isinstance(x, plain) for x in v))
                )
            }
            for group in groups
        ]

    def state(self) -> dict[str, Tensor]:
        """Parameters and buffers by name, as the tapes call them."""
        values = {f"param.{n}": p.detach() for n, p in self.model.named_parameters()}
        return values | {f"buffer.{n}": b.detach() for n, b in self.model.named_buffers()}
