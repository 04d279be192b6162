"""Targets that are functions of one linear form: regression, classification, counts, quadratics."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.lab.tasks.base import PairTask
from icgd.lab.tasks.distributions import STANDARD, Sparse, Vectors
from icgd.problems.regression import positive

THREE_WEIGHTS = Sparse(3)


@dataclass(frozen=True)
class LinearRegression(PairTask):
    """y = scale * w.x, with w drawn anew for every prompt: Var(y) = d_x scale^2 for standard normals.

    >>> task = LinearRegression(3)
    >>> task.sample(2, 4, generator=torch.Generator().manual_seed(0)).xs.shape
    torch.Size([2, 4, 3])
    """

    name: ClassVar[str] = "linear_regression"

    _: KW_ONLY
    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("scale", self.scale)

    def targets(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        """scale * w.x."""
        return self.scale * (xs @ self.columns(xs.shape[2], self.d_y, len(xs), generator))


@dataclass(frozen=True)
class SparseLinearRegression(LinearRegression):
    """Linear regression with 3 weights that are not zero, or as many as `weights` says."""

    name: ClassVar[str] = "sparse_linear_regression"

    _: KW_ONLY
    weights: Vectors = THREE_WEIGHTS


@dataclass(frozen=True)
class NoisyLinearRegression(LinearRegression):
    """Linear regression with standard normal noise, or what `noise` says."""

    name: ClassVar[str] = "noisy_linear_regression"

    _: KW_ONLY
    noise: Vectors | None = STANDARD


@dataclass(frozen=True)
class QuadraticRegression(LinearRegression):
    """y = scale * w.x^2 / sqrt(3), squares coordinate by coordinate: E y^2 = d_x scale^2 for normals."""

    name: ClassVar[str] = "quadratic_regression"

    def targets(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        """scale * w.x^2 / sqrt(3)."""
        return super().targets(xs.square(), generator) / math.sqrt(3)


@dataclass(frozen=True)
class LinearClassification(LinearRegression):
    """y = sign(w.x + noise), in {-1, +1}: noise moves points across the border, never the labels.

    A point on the border is +1.
    """

    name: ClassVar[str] = "linear_classification"

    def targets(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        """The side of the hyperplane."""
        scores = super().targets(xs, generator)
        if self.noise is not None:
            scores = scores + self.draw(self.noise, tuple(scores.shape), generator)
        return torch.where(scores >= 0, 1.0, -1.0).to(self.dtype)

    def added_noise(self) -> Vectors | None:
        """None: it has been added to the scores."""
        return None


@dataclass(frozen=True)
class _Generalized(PairTask):
    """Targets drawn around the mean of a generalized linear model in eta = scale * w.x / sqrt(d).

    d        coordinates in use, so that eta has variance scale^2 for standard normals
    observe  "sample": targets are drawn; "mean": the conditional mean itself
    """

    _: KW_ONLY
    scale: float = 1.0
    observe: Literal["sample", "mean"] = "sample"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("scale", self.scale)
        if self.observe not in ("sample", "mean"):
            raise InvalidParameter("observe", self.observe, 'be "sample" or "mean"')
        if self.noise is not None:
            raise InvalidParameter(
                "noise",
                self.noise,
                f"be left out of {self.name}",
                remedy="Its targets are random already.",
            )

    def _eta(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        weights = self.columns(xs.shape[2], self.d_y, len(xs), generator)
        return (self.scale / math.sqrt(xs.shape[2])) * (xs @ weights)


@dataclass(frozen=True)
class LogisticRegression(_Generalized):
    """y is 1 with probability sigmoid(eta), else 0; eta = scale * w.x / sqrt(d).

    scale    deviation of eta for standard normal inputs and weights
    observe  "sample": 0 or 1; "mean": the probability
    """

    name: ClassVar[str] = "logistic_regression"

    def targets(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        """Labels, or their probabilities."""
        mean = torch.sigmoid(self._eta(xs, generator))
        return mean if self.observe == "mean" else torch.bernoulli(mean, generator=generator)


@dataclass(frozen=True)
class PoissonRegression(_Generalized):
    """y is a count with mean exp(eta); eta = scale * w.x / sqrt(d).

    scale    deviation of eta for standard normal inputs and weights
    observe  "sample": counts; "mean": their mean
    """

    name: ClassVar[str] = "poisson_regression"

    def targets(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        """Counts, or their means."""
        mean = torch.exp(self._eta(xs, generator))
        return mean if self.observe == "mean" else torch.poisson(mean, generator=generator)
