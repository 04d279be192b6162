"""Distributions of inputs, weights and noise, as small values that configurations can name.

A draw of shape (..., d) is a stack of vectors of d numbers. Everything is drawn on the CPU, so that a
seed means the same numbers on every device.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import BeforeValidator, ConfigDict, Field
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import InvalidParameter
from icgd.problems.regression import positive

Shape = Sequence[int]


def _finite(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidParameter(name, value, "be a finite number")


@dataclass(frozen=True)
class Vectors(ABC):
    """A distribution of vectors."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    @abstractmethod
    def draw(self, shape: Shape, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Independent vectors: the last axis of `shape` is the dimension."""


@dataclass(frozen=True)
class Gaussian(Vectors):
    """Independent normal coordinates: coordinate i (from 1) has deviation std * i^(-decay) * scales[i].

    mean    of every coordinate
    std     common deviation; 0 gives a constant
    decay   > 0: a skewed covariance with eigenvalues std^2 i^(-2 decay)
    scales  one factor per coordinate, for at least as many coordinates as are drawn
    """

    mean: float = 0.0
    std: float = 1.0
    decay: float = 0.0
    scales: tuple[float, ...] | None = None
    kind: Literal["gaussian"] = "gaussian"

    def __post_init__(self) -> None:
        _finite("mean", self.mean)
        positive("std", self.std, zero=True)
        positive("decay", self.decay, zero=True)
        for i, scale in enumerate(self.scales or ()):
            positive(f"scales[{i}]", scale, zero=True)

    def draw(self, shape: Shape, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Normal vectors."""
        drawn = torch.randn(tuple(shape), generator=generator, dtype=dtype)
        if self.std != 1.0:
            drawn.mul_(self.std)
        if self.decay:
            drawn.mul_(torch.arange(1, shape[-1] + 1, dtype=dtype) ** -self.decay)
        if self.scales is not None:
            if len(self.scales) < shape[-1]:
                raise InvalidParameter(
                    "scales", self.scales, f"have a number for each of {shape[-1]} coordinates"
                )
            drawn.mul_(torch.tensor(self.scales[: shape[-1]], dtype=dtype))
        return drawn.add_(self.mean) if self.mean else drawn


@dataclass(frozen=True)
class Uniform(Vectors):
    """Independent coordinates, uniform on [low, high)."""

    low: float = -1.0
    high: float = 1.0
    kind: Literal["uniform"] = "uniform"

    def __post_init__(self) -> None:
        _finite("low", self.low)
        _finite("high", self.high)
        if self.high <= self.low:
            raise InvalidParameter("high", self.high, f"be > low = {self.low}")

    def draw(self, shape: Shape, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Uniform vectors."""
        unit = torch.rand(tuple(shape), generator=generator, dtype=dtype)
        return unit.mul_(self.high - self.low).add_(self.low)


@dataclass(frozen=True)
class Sphere(Vectors):
    """Uniform on the sphere; without a radius it is sqrt(d), where normal vectors are found."""

    radius: float | None = None
    kind: Literal["sphere"] = "sphere"

    def __post_init__(self) -> None:
        positive("radius", self.radius)

    def draw(self, shape: Shape, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Vectors of one length."""
        drawn = torch.randn(tuple(shape), generator=generator, dtype=dtype)
        radius = math.sqrt(shape[-1]) if self.radius is None else self.radius
        return drawn * (radius / drawn.norm(dim=-1, keepdim=True))


@dataclass(frozen=True)
class Sparse(Vectors):
    """Normal values on `n_nonzero` coordinates chosen at random, 0 elsewhere (all, if there are fewer)."""

    n_nonzero: int = 3
    std: float = 1.0
    kind: Literal["sparse"] = "sparse"

    def __post_init__(self) -> None:
        whole_number("n_nonzero", self.n_nonzero)
        positive("std", self.std)

    def draw(self, shape: Shape, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Vectors that are mostly zero."""
        values = torch.randn(tuple(shape), generator=generator, dtype=dtype).mul_(self.std)
        # Ranks of independent uniforms are a uniform permutation. Their ties do not matter: argsort
        # gives every coordinate its own rank.
        order = torch.rand(tuple(shape), generator=generator, dtype=torch.float64).argsort(dim=-1)
        kept = torch.zeros(tuple(shape), dtype=torch.bool)
        kept.scatter_(-1, order[..., : self.n_nonzero], True)
        return values * kept


@dataclass(frozen=True)
class StudentT(Vectors):
    """Independent coordinates, scale * t with `df` degrees of freedom: heavy tails.

    Its variance is scale^2 df / (df - 2), infinite for df <= 2.
    """

    df: float = 3.0
    scale: float = 1.0
    kind: Literal["student_t"] = "student_t"

    def __post_init__(self) -> None:
        positive("df", self.df)
        positive("scale", self.scale)

    def draw(self, shape: Shape, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Heavy-tailed vectors."""
        normal = torch.randn(tuple(shape), generator=generator, dtype=torch.float64)
        half = torch.full(tuple(shape), self.df / 2, dtype=torch.float64)
        chi2 = 2 * torch._standard_gamma(half, generator=generator)
        return (self.scale * normal * (self.df / chi2).sqrt()).to(dtype)


@dataclass(frozen=True)
class Mixture(Vectors):
    """Each vector comes from one of the components, chosen with probabilities `weights`."""

    components: tuple[AnyVectors, ...]
    weights: tuple[float, ...]
    kind: Literal["mixture"] = "mixture"

    def __post_init__(self) -> None:
        if not self.components:
            raise InvalidParameter("components", self.components, "have at least one distribution")
        if len(self.weights) != len(self.components):
            raise InvalidParameter(
                "weights",
                self.weights,
                f"have one number for each of {len(self.components)} components",
            )
        for i, weight in enumerate(self.weights):
            positive(f"weights[{i}]", weight, zero=True)
        if abs(sum(self.weights) - 1) > 1e-6:
            raise InvalidParameter("weights", self.weights, "sum to 1")

    def draw(self, shape: Shape, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Vectors of all components, mixed independently of each other."""
        pick = torch.rand(tuple(shape[:-1]), generator=generator, dtype=torch.float64)
        bounds = torch.tensor(self.weights, dtype=torch.float64).cumsum(0)[:-1]
        chosen = torch.bucketize(pick, bounds, right=True).unsqueeze(-1)
        drawn = torch.zeros(tuple(shape), dtype=dtype)
        for i, component in enumerate(self.components):
            # Drawn in full even where another one is chosen: the stream stays easy to reason about.
            drawn = torch.where(chosen == i, component.draw(shape, generator, dtype), drawn)
        return drawn


STANDARD = Gaussian()
"""N(0, I)."""


def two_gaussians(first: float = 1.0, second: float = 0.0, *, at: float = 2.0) -> Mixture:
    """The inputs first * N(-at, I) + second * N(at, I).

    Statement: [DEEP] Appendix G

    Differs from the paper: no.

    >>> two_gaussians(0.9, 0.1).weights
    (0.9, 0.1)
    """
    return Mixture((Gaussian(mean=-at), Gaussian(mean=at)), (first, second))


def _named(value: Any) -> Any:
    """A distribution may be given by its name alone."""
    return {"kind": value} if isinstance(value, str) else value


AnyVectors = Annotated[
    Annotated[
        Gaussian | Uniform | Sphere | Sparse | StudentT | Mixture, Field(discriminator="kind")
    ],
    BeforeValidator(_named),
]
"""Any of the distributions, or its name: what a field of a configuration is annotated with."""
