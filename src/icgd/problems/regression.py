"""Regression problems that looped transformers solve: dimensions, radii and fixed representations.

Loss of all of them: f(A) = 1/(2N) sum_i |A phi(x_i) - y_i|^2 + lam/2 |A|^2, the mean over N examples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icgd.base.numbers import is_finite, whole_number
from icgd.errors import InvalidParameter
from icgd.problems.arrays import plain_tensor
from icgd.problems.radii import checked_radius

Representation = tuple[tuple[Tensor, Tensor], ...]
"""(W, b) of every layer of a fixed leaky-ReLU network phi; empty for phi(x) = x."""


def positive(name: str, value: float | None, *, zero: bool = False) -> float | None:
    """A finite number > 0 (or >= 0), or None."""
    if value is None:
        return None
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and is_finite(value)
    if not good or value < 0 or (value == 0 and not zero):
        raise InvalidParameter(name, value, f"be a finite number {'>= 0' if zero else '> 0'}")
    return float(value)


def usual_radius(width: int, represented: bool) -> float:
    """A range that standard normal vectors keep to, and representations of them with unit variance.

    >>> usual_radius(4, False), usual_radius(4, True)
    (5.0, 6.0)
    """
    return 2 * math.sqrt(width) + 2.0 if represented else math.sqrt(width) + 3.0


def check_slope(slope: float) -> float:
    """The slope of a leaky ReLU below zero: at 0 nothing could be undone."""
    if not (isinstance(slope, (int, float)) and is_finite(slope) and 0 < slope <= 1):
        raise InvalidParameter(
            "slope", slope, "lie in (0, 1]", remedy="A leaky ReLU with slope 0 has no inverse."
        )
    return float(slope)


def as_representation(layers: Sequence[Any], n_features: int) -> Representation:
    """Layers W or (W, b) as float64 matrices whose widths fit together."""
    pairs, width = [], n_features
    for i, layer in enumerate(layers):
        pair = isinstance(layer, (tuple, list)) and len(layer) == 2
        W, b = layer if pair else (layer, None)
        W = plain_tensor(f"representation[{i}]", W).to(torch.float64)
        b = W.new_zeros(W.shape[:1]) if b is None else plain_tensor(f"representation[{i}] b", b)
        if W.dim() != 2 or W.shape[1] != width or tuple(b.shape) != (W.shape[0],):
            raise InvalidParameter(
                f"representation[{i}]",
                (tuple(W.shape), tuple(b.shape)),
                f"be a matrix with {width} columns, and a bias with one entry per row",
            )
        if not (bool(W.isfinite().all()) and bool(b.isfinite().all())):
            raise InvalidParameter(f"representation[{i}]", "NaN or infinity", "be finite")
        pairs.append((W, b.to(torch.float64)))
        width = W.shape[0]
    return tuple(pairs)


def as_lists(layers: Representation) -> list[list[Any]]:
    """A representation as a file holds it."""
    return [[W.tolist(), b.tolist()] for W, b in layers]


def apply_representation(layers: Representation, slope: float, x: Tensor) -> Tensor:
    """phi(x): leaky ReLU after every layer."""
    for W, b in layers:
        x = torch.nn.functional.leaky_relu(x @ W.to(x).T + b.to(x), slope)
    return x


@dataclass(frozen=True, eq=False)
class RepresentationRegression:
    """Fit A in y = A phi(x) with a fixed representation phi, an L-layer leaky-ReLU network.

    Statement: [ALGO] Theorem 3.1

    n_features, n_examples, n_outputs  dimensions of x, of the prompt and of y
    representation  layers W or (W, b) of phi; empty for phi(x) = x
    slope           of the leaky ReLU below zero
    lam             weight of a ridge penalty
    x_radius        bound on |phi(x)| (Euclidean) of all tokens; by `usual_radius` unless given

    Differs from the paper: no; phi is part of the problem, as its theorem has it.

    >>> RepresentationRegression(3, 10, representation=[torch.eye(3)]).n_representation
    3
    """

    n_features: int
    n_examples: int
    n_outputs: int = 1
    representation: Any = ()
    slope: float = 0.1
    lam: float = 0.0
    x_radius: float | None = None

    def __post_init__(self) -> None:
        for name in ("n_features", "n_examples", "n_outputs"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        check_slope(self.slope)
        positive("lam", self.lam, zero=True)
        checked_radius("x_radius", self.x_radius)
        layers = as_representation(self.representation, self.n_features)
        object.__setattr__(self, "representation", layers)

    @property
    def n_representation(self) -> int:
        """The dimension of phi(x)."""
        return self.representation[-1][0].shape[0] if self.representation else self.n_features

    @property
    def radius(self) -> float:
        """Bound on |phi(x)|."""
        return self.x_radius or usual_radius(self.n_representation, bool(self.representation))

    def phi(self, x: Tensor) -> Tensor:
        """The representation of every row."""
        return apply_representation(self.representation, self.slope, x)

    @property
    def title(self) -> str:
        """In a few words."""
        return f"a regression of {self.n_features} features"

    def to_config(self) -> dict[str, Any]:
        """All of it as numbers and lists; a fixed representation is part of it."""
        return {
            "n_features": self.n_features,
            "n_examples": self.n_examples,
            "n_outputs": self.n_outputs,
            "representation": as_lists(self.representation),
            "slope": self.slope,
            "lam": self.lam,
            "x_radius": self.radius,
        }

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> RepresentationRegression:
        """The problem `to_config` describes; without a representation it is linear."""
        if config.get("representation"):
            return RepresentationRegression(**config)
        plain = {k: v for k, v in config.items() if k not in ("representation", "slope")}
        return LinearRegression(**plain)


class LinearRegression(RepresentationRegression):
    """Fit w in y = w.x: the case phi(x) = x.

    >>> LinearRegression(n_features=5, n_examples=20)
    LinearRegression(n_features=5, n_examples=20, n_outputs=1, lam=0.0)
    """

    def __init__(
        self,
        n_features: int,
        n_examples: int,
        n_outputs: int = 1,
        *,
        lam: float = 0.0,
        x_radius: float | None = None,
    ) -> None:
        super().__init__(n_features, n_examples, n_outputs, lam=lam, x_radius=x_radius)

    def __repr__(self) -> str:
        return (
            f"LinearRegression(n_features={self.n_features}, n_examples={self.n_examples}, "
            f"n_outputs={self.n_outputs}, lam={self.lam})"
        )


@dataclass(frozen=True, eq=False)
class Autoregression:
    """Predict x_{t+1} = A phi(x_{t-q+1}, .., x_t) of a series x_0 .. x_N with a fixed representation phi.

    Statement: [ALGO] Theorem 3.2

    n_features, order, n_steps  dimension d of x_t, q, and N: the series has N + 1 entries
    representation  layers W or (W, b) of phi on the q d numbers (oldest first); empty for the identity
    x_radius        bound on |phi|; by `usual_radius` unless given

    Differs from the paper: with He-scaled layers A must be scaled, or the series explodes.
    """

    n_features: int
    order: int
    n_steps: int
    representation: Any = ()
    slope: float = 0.1
    x_radius: float | None = None

    def __post_init__(self) -> None:
        for name in ("n_features", "order", "n_steps"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        if self.n_steps < self.order:
            raise InvalidParameter("n_steps", self.n_steps, f"be >= order = {self.order}")
        check_slope(self.slope)
        checked_radius("x_radius", self.x_radius)
        layers = as_representation(self.representation, self.order * self.n_features)
        object.__setattr__(self, "representation", layers)

    @property
    def n_representation(self) -> int:
        """The dimension of phi."""
        last = self.order * self.n_features
        return self.representation[-1][0].shape[0] if self.representation else last

    @property
    def n_examples(self) -> int:
        """Windows with a known successor, N - q + 1."""
        return self.n_steps - self.order + 1

    @property
    def radius(self) -> float:
        """Bound on |phi|."""
        return self.x_radius or usual_radius(self.n_representation, bool(self.representation))

    def windows(self, series: Tensor) -> Tensor:
        """(x_{t-q+1}, .., x_t) for t = q-1 .. N, (..., N - q + 2, q d)."""
        q = self.order
        parts = [series[..., i : series.shape[-2] - q + 1 + i, :] for i in range(q)]
        return torch.cat(parts, dim=-1)

    def phi(self, x: Tensor) -> Tensor:
        """The representation of every window."""
        return apply_representation(self.representation, self.slope, x)

    @property
    def title(self) -> str:
        """In a few words."""
        return f"a series of {self.n_features} numbers, each from the {self.order} before,"

    def to_config(self) -> dict[str, Any]:
        """All of it as numbers and lists; a fixed representation is part of it."""
        return {
            "n_features": self.n_features,
            "order": self.order,
            "n_steps": self.n_steps,
            "representation": as_lists(self.representation),
            "slope": self.slope,
            "x_radius": self.radius,
        }


@dataclass(frozen=True, eq=False)
class MLPChain:
    """Continue s^{l+1} = leaky(W_{l+1} s^l) from N complete chains s^0 .. s^L and the start of another.

    Statement: [ALGO] Theorem 3.3

    n_features, n_layers, n_chains  dimension d of every state, L, and N
    x_radius                        bound on |s|; sqrt(d) + 3 unless given

    Differs from the paper: the theorem's indices (s^l to s^{l+1}) are used, its appendix shifts them.
    """

    n_features: int
    n_layers: int
    n_chains: int
    slope: float = 0.1
    x_radius: float | None = None

    def __post_init__(self) -> None:
        for name in ("n_features", "n_layers", "n_chains"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        check_slope(self.slope)
        checked_radius("x_radius", self.x_radius)

    @property
    def radius(self) -> float:
        """Bound on |s|."""
        return self.x_radius or math.sqrt(self.n_features) + 3.0

    @property
    def title(self) -> str:
        """In a few words."""
        return f"chains of {self.n_layers} steps through {self.n_features} numbers"

    def to_config(self) -> dict[str, Any]:
        """All of it as numbers."""
        return {
            "n_features": self.n_features,
            "n_layers": self.n_layers,
            "n_chains": self.n_chains,
            "slope": self.slope,
            "x_radius": self.radius,
        }
