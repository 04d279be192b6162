"""What a task is: a source of prompts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from icgd.base.numbers import whole_number
from icgd.errors import InvalidParameter
from icgd.lab.tasks.batch import Batch
from icgd.lab.tasks.distributions import STANDARD, Vectors

FLOATS = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Task(ABC):
    """A distribution of prompts x_1 y_1 .. x_n y_n, each with a function of its own.

    d_x, d_y  dimensions of inputs and targets
    inputs    distribution of x
    weights   distribution of what differs from prompt to prompt
    noise     distribution added to the targets; None: exact targets
    dtype     float32, or float64 for comparisons
    """

    name: ClassVar[str]

    d_x: int
    _: KW_ONLY
    d_y: int = 1
    inputs: Vectors = STANDARD
    weights: Vectors = STANDARD
    noise: Vectors | None = None
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        whole_number("d_x", self.d_x)
        whole_number("d_y", self.d_y)
        if self.dtype not in FLOATS:
            raise InvalidParameter("dtype", self.dtype, "be torch.float32 or torch.float64")

    @abstractmethod
    def sample(
        self,
        batch_size: int,
        n_points: int,
        *,
        generator: torch.Generator,
        n_dims: int | None = None,
    ) -> Batch:
        """Prompts on the CPU; they depend on the arguments and the generator's state alone.

        batch_size, n_points  prompts, and positions of each
        n_dims                inputs and weights live in the first n_dims coordinates, the others are 0
        """

    def added_noise(self) -> Vectors | None:
        """The noise that `sample` adds to the targets."""
        return self.noise

    def features(self, batch: Batch) -> Tensor:
        """What the targets are linear in, for baselines that may know it: the inputs, unless said otherwise."""
        return batch.xs

    def draw(
        self, distribution: Vectors, shape: tuple[int, ...], generator: torch.Generator
    ) -> Tensor:
        """Vectors in the task's precision."""
        return distribution.draw(shape, generator, self.dtype)

    def columns(self, n_in: int, n_out: int, batch_size: int, generator: torch.Generator) -> Tensor:
        """Weights (B, n_in, n_out): every column is one vector of the weights' distribution."""
        return self.draw(self.weights, (batch_size, n_out, n_in), generator).transpose(1, 2)

    def _check(
        self, batch_size: int, n_points: int, generator: torch.Generator, n_dims: int | None
    ) -> int:
        whole_number("batch_size", batch_size)
        whole_number("n_points", n_points)
        if generator.device.type != "cpu":
            raise InvalidParameter(
                "generator",
                generator.device.type,
                "live on the CPU",
                remedy="Prompts are drawn there on every machine; then use batch.to(device).",
            )
        active = self.d_x if n_dims is None else whole_number("n_dims", n_dims)
        if active > self.d_x:
            raise InvalidParameter("n_dims", n_dims, f"be at most d_x = {self.d_x}")
        return active


@dataclass(frozen=True)
class PairTask(Task):
    """A task whose inputs are drawn first and whose targets are a function of them."""

    def sample(
        self,
        batch_size: int,
        n_points: int,
        *,
        generator: torch.Generator,
        n_dims: int | None = None,
    ) -> Batch:
        """See Task."""
        active = self._check(batch_size, n_points, generator, n_dims)
        xs = self.draw(self.inputs, (batch_size, n_points, active), generator)
        ys = self.targets(xs, generator)
        noise = self.added_noise()
        if noise is not None:
            ys = ys + self.draw(noise, tuple(ys.shape), generator)
        return Batch(pad(xs, (0, self.d_x - active)), ys)

    @abstractmethod
    def targets(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        """Targets without noise, (B, n, d_y), of (B, n, k) inputs in k <= d_x coordinates."""
