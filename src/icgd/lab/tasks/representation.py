"""Tasks that are linear in a fixed representation: regression, and autoregressive series."""

from __future__ import annotations

import itertools
import math
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from icgd.base.numbers import whole_number
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.lab.tasks.base import PairTask, Task
from icgd.lab.tasks.batch import Batch
from icgd.lab.tasks.distributions import STANDARD, Vectors
from icgd.problems.regression import (
    Representation,
    apply_representation,
    check_slope,
    positive,
)

N_MEASURED = 4096
"""Inputs on which a fixed representation is measured once, to normalise it."""
SHRINK = 0.8
MAX_SHRINKS = 60


def make_representation(
    widths: tuple[int, ...], slope: float, seed: int, init: Literal["gaussian", "orthogonal"]
) -> Representation:
    """A random leaky-ReLU network in float64, always the same for one seed.

    gaussian    variance 2 / ((1 + slope^2) fan_in), which keeps mean squares
    orthogonal  rows (or columns) of orthonormal matrices, times sqrt(2 / (1 + slope^2))
    """
    generator = torch.Generator().manual_seed(seed)
    gain = math.sqrt(2 / (1 + slope**2))
    layers = []
    for n_in, n_out in itertools.pairwise(widths):
        W = torch.randn(n_out, n_in, generator=generator, dtype=torch.float64)
        if init == "orthogonal":
            tall = W if n_out >= n_in else W.T
            Q, R = torch.linalg.qr(tall)
            Q = Q * torch.where(R.diagonal() >= 0, 1.0, -1.0)
            W = gain * math.sqrt(max(n_out, n_in) / n_in) * (Q if n_out >= n_in else Q.T)
        else:
            W = (gain / math.sqrt(n_in)) * W
        layers.append((W, torch.zeros(n_out, dtype=torch.float64)))
    return tuple(layers)


@dataclass(frozen=True)
class _Represented(Task):
    _: KW_ONLY
    n_layers: int = 3
    slope: float = 0.1
    n_features: int | None = None
    representation_init: Literal["gaussian", "orthogonal"] = "gaussian"
    representation_seed: int = 0
    layers: Representation = field(init=False, repr=False, compare=False)
    phi_scale: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("n_layers", self.n_layers)
        check_slope(self.slope)
        whole_number("representation_seed", self.representation_seed, 0)
        if self.representation_init not in ("gaussian", "orthogonal"):
            raise InvalidParameter(
                "representation_init", self.representation_init, 'be "gaussian" or "orthogonal"'
            )
        out = (
            whole_number("n_features", self.n_features) if self.n_features is not None else self.d_x
        )
        n_in = self._n_lags() * self.d_x
        layers = make_representation(
            (n_in, *[out] * self.n_layers),
            self.slope,
            self.representation_seed,
            self.representation_init,
        )
        object.__setattr__(
            self, "layers", tuple((W.to(self.dtype), b.to(self.dtype)) for W, b in layers)
        )
        object.__setattr__(self, "phi_scale", self._root_mean_square(layers))

    def _n_lags(self) -> int:
        return 1

    def _reference_inputs(self) -> Vectors:
        return self.inputs

    def _root_mean_square(self, layers: Representation) -> float:
        """sqrt(E |phi(x)|^2) over reference inputs, measured with numbers of its own."""
        generator = torch.Generator().manual_seed(self.representation_seed + 1)
        shape = (N_MEASURED, self._n_lags(), self.d_x)
        xs = self._reference_inputs().draw(shape, generator, torch.float64).flatten(1)
        return float(apply_representation(layers, self.slope, xs).square().sum(1).mean().sqrt())

    def phi(self, xs: Tensor) -> Tensor:
        """The fixed representation, with E |phi|^2 = 1 over the reference inputs."""
        return apply_representation(self.layers, self.slope, xs) / self.phi_scale


@dataclass(frozen=True)
class RepresentationRegression(_Represented, PairTask):
    """y = A phi(x) + noise with one network phi for all prompts, and A drawn for each.

    Statement: [ALGO] Section 5.1

    n_layers, slope  of phi, a leaky-ReLU network (after every layer) without biases
    n_features       its width, d_x unless given
    representation_init, representation_seed  how phi's weights are made: `make_representation`
    weights          of the rows of A

    Differs from the paper: it gives neither slope, widths and weights of phi nor the scale of A. Here
    E |phi(x)|^2 = 1, so that Var(y) = 1 without noise for A ~ N(0, I).
    """

    name: ClassVar[str] = "representation_regression"

    def targets(self, xs: Tensor, generator: torch.Generator) -> Tensor:
        """A phi(x)."""
        phi = self.phi(pad(xs, (0, self.d_x - xs.shape[2])))
        return phi @ self.columns(phi.shape[2], self.d_y, len(xs), generator)

    def features(self, batch: Batch) -> Tensor:
        """phi(x)."""
        return self.phi(batch.xs)


@dataclass(frozen=True)
class Autoregression(_Represented):
    """A series x_{t+1} = A phi(x_{t-q+1}, .., x_t) + noise: xs are x_1 .. x_n, ys are x_2 .. x_{n+1}.

    Statement: [ALGO] Section 5.1

    order   q; the first q entries are drawn from `inputs`, so positions before q do not count
    gain    A = gain * draw, where phi is scaled so that E |phi|^2 = 1 on windows of standard normals. So A phi
            has `gain` times the size of its window on average over A
    limit   a prompt whose series has |x_t|^2 > d_x limit^2 somewhere gets 0.8 A instead, and again, with the
            same start and noise, until it has not: some A explode however small the gain (about 7% of them in
            41 steps at d_x = 20)
    noise   N(0, I) unless given

    Differs from the paper: it draws A ~ N(0, I), whose series explode (10^11 and more after 40 steps); see
    gain and limit. It does not say how the series starts.
    """

    name: ClassVar[str] = "autoregression"

    _: KW_ONLY
    d_y: int = 0
    noise: Vectors | None = STANDARD
    order: int = 3
    gain: float = 0.7
    limit: float = 10.0

    def __post_init__(self) -> None:
        if self.d_y not in (0, self.d_x):
            raise InvalidParameter(
                "d_y", self.d_y, f"be d_x = {self.d_x}: targets are entries of the series"
            )
        object.__setattr__(self, "d_y", self.d_x)
        whole_number("order", self.order)
        positive("gain", self.gain)
        positive("limit", self.limit)
        super().__post_init__()

    def _n_lags(self) -> int:
        return self.order

    def _reference_inputs(self) -> Vectors:
        return STANDARD  # windows are made of noise and A phi, whatever the series starts from

    def sample(
        self,
        batch_size: int,
        n_points: int,
        *,
        generator: torch.Generator,
        n_dims: int | None = None,
    ) -> Batch:
        """Series of n_points + 1 entries."""
        active = self._check(batch_size, n_points, generator, n_dims)
        if n_points < self.order:
            raise InvalidParameter(
                "n_points",
                n_points,
                f"be >= order = {self.order}",
                remedy="Shorter series have nothing to predict.",
            )
        start = self.draw(self.inputs, (batch_size, self.order, active), generator)
        A = self.columns(self.layers[-1][0].shape[0], active, batch_size, generator) * self.gain
        shape = (batch_size, n_points + 1 - self.order, active)
        noise = torch.zeros(shape, dtype=self.dtype)
        if self.noise is not None:
            noise = self.draw(self.noise, shape, generator)
        series = self._bounded(start, A, noise)
        counted = torch.arange(n_points) >= self.order - 1
        return Batch(series[:, :-1], series[:, 1:], "series", counted)

    def features(self, batch: Batch) -> Tensor:
        """phi of the window that ends at each position, (B, n, n_features); zeros before the start."""
        lagged = [pad(batch.xs, (0, 0, lag, 0))[:, : batch.n_points] for lag in range(self.order)]
        return self.phi(torch.cat(lagged[::-1], -1))

    def _bounded(self, start: Tensor, A: Tensor, noise: Tensor) -> Tensor:
        series = self._run(start, A, noise)
        for _ in range(MAX_SHRINKS):
            # "Not small" rather than "large": overflow makes NaN, which is neither.
            small = (series.square().sum(-1) <= self.d_x * self.limit**2).all(-1)
            wild = (~small).nonzero().squeeze(-1)
            if not len(wild):
                return series
            A = A.clone()
            A[wild] *= SHRINK
            series[wild] = self._run(start[wild], A[wild], noise[wild])
        raise AssumptionViolated(
            f"The start or the noise of an autoregression alone exceeds limit = {self.limit} (root mean "
            "square). Raise `limit`, or take smaller inputs and noise."
        )

    def _run(self, start: Tensor, A: Tensor, noise: Tensor) -> Tensor:
        outside = self.d_x - start.shape[2]
        entries = [pad(x, (0, outside)) for x in start.unbind(1)]
        for epsilon in noise.unbind(1):
            window = torch.cat(entries[-self.order :], -1)
            # phi has E|phi|^2 = 1 where a window's entries have mean square 1 per coordinate.
            moved = torch.einsum("bf,bfd->bd", self.phi(window), A) + epsilon
            entries.append(pad(moved, (0, outside)))
        return torch.stack(entries, 1)
