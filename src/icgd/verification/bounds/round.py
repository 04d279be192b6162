"""The per-round bound: one transformer round against one exact SGD round from the same state.

Affine arithmetic: the difference of every vector from its exact value is written as G eps with
unknown signs |eps_j| <= 1, one column of G per head error and per rounding. Columns are carried
through W and W^T with their signs, so that errors cancel and damp as they do in the network. Norm
products would be rigorous too, and useless: they multiply over layers.

A hidden unit is certainly open if z - e > 1/k and certainly closed if z + e <= 0. Otherwise rounding
may decide it: it is counted as near the kink and pays with the whole signal it could let through.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.problems import NetworkSpec, Weights

SLACK = 1.0 + 1e-9
"""Covers rounding inside this computation, which is in float64 while the bound is about 1e-11."""


@dataclass(frozen=True)
class Arithmetic:
    """What the bound has to know of the machine.

    head_error    |s| -> bound on |head(s) - s|, entry by entry
    unit_roundoff of the program; the oracle is charged with the same
    slope         k of the closed units
    exact_zero    whether a head asked 0 answers exactly 0 (true of the structured executor)
    """

    head_error: Callable[[Tensor], Tensor]
    unit_roundoff: float
    slope: float
    exact_zero: bool = True


@dataclass(frozen=True)
class RoundBound:
    """Bound on every entry of every W and b after the round, and on those of each (W, b)."""

    bound: float
    near_kink: int
    parts: tuple[tuple[float, float], ...]


@dataclass
class _Form:
    """A vector with its error: centre + generators @ eps."""

    centre: Tensor
    generators: Tensor

    @property
    def radius(self) -> Tensor:
        return self.generators.abs().sum(dim=-1) * SLACK

    def after_head(self, machine: Arithmetic) -> _Form:
        """What the head reads: one new column per entry."""
        size = self.centre.abs() + self.radius
        error = machine.head_error(size)
        if machine.exact_zero:
            error = torch.where(size == 0, 0.0, error)
        return _Form(self.centre, torch.cat([self.generators, torch.diag(error)], dim=-1))

    def times(self, matrix: Tensor, offset: Tensor | None, u: float) -> _Form:
        """matrix @ v + offset, rounded: by us and by the oracle, hence twice."""
        centre = matrix @ self.centre
        size = matrix.abs() @ (self.centre.abs() + self.radius)
        if offset is not None:
            centre, size = centre + offset, size + offset.abs()
        rounding = 2 * (matrix.shape[1] + 2) * u * size
        return _Form(centre, torch.cat([matrix @ self.generators, torch.diag(rounding)], dim=-1))

    def keep(self, on: Tensor, off: Tensor, doubtful_size: Tensor) -> _Form:
        """Rows that are open keep their columns, closed ones lose them, doubtful ones get a new one."""
        doubtful = ~(on | off)
        columns = torch.diag(torch.where(doubtful, doubtful_size, 0.0))
        generators = torch.where(on.unsqueeze(-1), self.generators, 0.0)
        if bool(doubtful.any()):
            generators = torch.cat([generators, columns[:, doubtful]], dim=-1)
        return _Form(self.centre, generators)


@dataclass
class _Layer:
    read: _Form
    on: Tensor
    off: Tensor


def round_bound(
    spec: NetworkSpec, weights: Weights, x: Tensor, y: Tensor, lr: float, machine: Arithmetic
) -> RoundBound:
    """Bound on |transformer round - exact SGD round| from the same weights; infinite if unbounded.

    Statement: [COT] Proposition 4.4

    Differs from the paper: C.9 adds up step errors inside a round without propagating them; here
    they are carried through the round.
    """
    double = [(W.double(), None if b is None else b.double()) for W, b in weights]
    layers, output, near_kink = _forward(spec, double, x.double(), machine)
    unbounded = RoundBound(math.inf, near_kink, ((math.inf, math.inf),) * spec.n_layers)
    if not bool(torch.isfinite(output.radius).all()):
        return unbounded
    u = machine.unit_roundoff
    error = _Form(output.centre - y.double(), output.generators)
    error = _rounded(error, 2 * u)
    parts = list[tuple[float, float]]()
    for i in range(spec.n_layers, 0, -1):
        W, b = double[i - 1]
        layer = layers[i - 1]
        delta = error.keep(layer.on, layer.off, error.centre.abs() + error.radius)
        delta.centre = torch.where(layer.off, 0.0, delta.centre)
        update = _update_bound(W, b, delta, layer.read, lr, u)
        if not all(map(math.isfinite, update)):  # a head could be asked out of its range
            return unbounded
        parts.append((update[0] * SLACK, update[1] * SLACK))
        if i > 1:
            error = delta.after_head(machine).times(W.T, None, u)
    return RoundBound(max(map(max, parts)), near_kink, tuple(parts[::-1]))


def output_bound(
    spec: NetworkSpec, weights: Weights, x: Tensor, machine: Arithmetic
) -> tuple[Tensor, float]:
    """The exact output of the network, and a bound on |transformer's prediction - exact|."""
    double = [(W.double(), None if b is None else b.double()) for W, b in weights]
    _, output, _ = _forward(spec, double, x.double(), machine)
    return output.centre, float(output.radius.max())


def _forward(
    spec: NetworkSpec, weights: Weights, x: Tensor, machine: Arithmetic
) -> tuple[list[_Layer], _Form, int]:
    value = _Form(x, x.new_zeros(x.shape[0], 0))
    layers, near_kink = [], 0
    for i, (W, b) in enumerate(weights, 1):
        read = value.after_head(machine)
        z = read.times(W, b, machine.unit_roundoff)
        if spec.is_linear(i):
            on = torch.ones_like(z.centre, dtype=torch.bool)
            off = ~on
            value = z
        else:
            on = z.centre - z.radius > 1 / machine.slope
            off = (z.centre + z.radius <= 0) & ~on
            near_kink += int((~(on | off)).sum())
            value = z.keep(on, off, z.radius)
            value.centre = z.centre.relu()
        layers.append(_Layer(read, on, off))
    return layers, value, near_kink


def _rounded(form: _Form, relative: float) -> _Form:
    size = relative * (form.centre.abs() + form.radius)
    return _Form(form.centre, torch.cat([form.generators, torch.diag(size)], dim=-1))


def _update_bound(
    W: Tensor, b: Tensor | None, delta: _Form, read: _Form, lr: float, u: float
) -> tuple[float, float]:
    """W - lr delta o^T and b - lr delta with both factors uncertain, and rounding on both sides."""
    size = delta.centre.abs().unsqueeze(-1) * read.centre.abs()
    e_delta, e_read = delta.radius.unsqueeze(-1), read.radius
    product = delta.centre.abs().unsqueeze(-1) * e_read + e_delta * (read.centre.abs() + e_read)
    rounding = 2 * u * (W.abs() + 4 * lr * (size + product))
    matrix = float((lr * product + rounding).max())
    if b is None:
        return matrix, 0.0
    step = lr * (delta.centre.abs() + delta.radius)
    return matrix, float((lr * delta.radius + 2 * u * (b.abs() + 3 * step)).max())
