"""How far one step of a stack can be from an exact step of gradient descent, from the same weights.

Every quantity of the step is carried as (exact value, bound on its error), from the inputs to the
update, with the certificates of the fits, the suprema of |r'| and |r''|, and rounding. Weights may be
uncertain as well: then the result bounds the distance to exact descent from any weights that near.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.mechanisms.stacks.backward import StackBuilder
from icgd.problems import NetworkSpec, Weights
from icgd.problems.activations import Activation


@dataclass(frozen=True)
class Near:
    """A tensor and a bound on the error of every entry."""

    value: Tensor
    error: Tensor

    @property
    def size(self) -> Tensor:
        """How large the computed number can be."""
        return self.value.abs() + self.error

    def times(self, other: Near) -> Near:
        """Entry by entry: |xy - x'y'| <= |x| e_y + |y| e_x + e_x e_y."""
        error = self.value.abs() * other.error + self.error * other.size
        return Near(self.value * other.value, error)

    def plus(self, extra: Tensor | float) -> Near:
        """The same value, less certain."""
        return Near(self.value, self.error + extra)


def near_weights(weights: Weights, spread: Weights | None) -> list[tuple[Near, Near | None]]:
    """Weights in double precision with their uncertainty."""
    layers = []
    for j, (W, b) in enumerate(weights):
        e_W, e_b = (None, None) if spread is None else spread[j]
        vector = None if b is None else _near(b, e_b)
        layers.append((_near(W, e_W), vector))
    return layers


def _near(value: Tensor, error: Tensor | None) -> Near:
    value = value.double()
    return Near(value, torch.zeros_like(value) if error is None else error.double())


def affine(x: Near, W: Near, b: Near | None, u: float) -> Near:
    """x W^T + b for tokens as rows, rounding included."""
    value = x.value @ W.value.T
    error = x.error @ W.value.abs().T + x.size @ W.error.T
    rounding = (W.value.shape[1] + 3) * u * (x.size @ (W.value.abs() + W.error).T)
    if b is not None:
        value, error = value + b.value, error + b.error
        rounding = rounding + 3 * u * b.size
    return Near(value, error + rounding)


class StepBound(ABC):
    """Bounds for one kind of stack; `kinks` counts units that rounding or a fit could have decided.

    u      unit round-off          literal  whether every pair of tokens is summed up
    """

    def __init__(
        self, spec: NetworkSpec, lr: float, u: float, gate: float, *, literal: bool
    ) -> None:
        self.spec, self.lr, self.u, self.gate, self.literal = spec, lr, u, gate, literal
        self.kinks = 0

    def __call__(
        self, weights: Weights, X: Tensor, Y: Tensor, spread: Weights | None = None
    ) -> Weights:
        """The bound for every weight after the step."""
        near = near_weights(weights, spread)
        self.kinks = 0
        grads = self.gradients(near, X.double(), Y.double())
        out: Weights = []
        for (W, b), (g_W, g_b) in zip(near, grads, strict=True):
            new_b = None if b is None or g_b is None else self._descended(b, g_b)
            out.append((self._descended(W, g_W), new_b))
        return out

    @abstractmethod
    def gradients(
        self, near: list[tuple[Near, Near | None]], X: Tensor, Y: Tensor
    ) -> list[tuple[Near, Near | None]]:
        """The gradient of every weight with its error."""

    @abstractmethod
    def output(self, near: list[tuple[Near, Near | None]], X: Tensor) -> Near:
        """What the stack predicts, with its error."""

    def _descended(self, w: Near, gradient: Near) -> Tensor:
        # The oracle rounds as well; projecting on a box brings no two points apart.
        return w.error + self.lr * gradient.error + 8 * self.u * (w.size + self.lr * gradient.size)

    def activate(self, act: Activation, z: Near, fit_error: float) -> Near:
        """r(z) by a fit of r."""
        steepest = 1.0 if not act.smooth else act.bounds[0]
        return Near(act.apply(z.value), fit_error + steepest * z.error)

    def mean_product(self, signal: Near, x: Near) -> Near:
        """Mean over tokens of signal x^T, (units, inputs)."""
        n = len(signal.value)
        value = signal.value.T @ x.value / n
        error = signal.value.abs().T @ x.error / n + signal.error.T @ x.size / n
        rounding = (n + 6) * self.u * (signal.size.T @ x.size) / n
        return Near(value, error + rounding)

    def loss_slope(self, out: Near, Y: Tensor, fit_error: float, radius: float) -> Near:
        """dl/do by a fit of it."""
        loss = self.spec.loss
        steepest = 1.0
        if loss.name != "squared":
            steepest = max(map(abs, loss.bends(radius, float(Y.abs().max()))))
        value = loss.slope_of(out.value, Y)
        rounding = 8 * self.u * (out.size + Y.abs() + value.abs() + 1)
        if self.literal:  # the gate for tokens that ask cancels in whatever order matrices add
            rounding = rounding + 16 * self.u * self.gate
        return Near(value, fit_error + steepest * out.error + rounding)

    def with_one(self, x: Near) -> Near:
        """Inputs with the 1 that a bias is multiplied with."""
        if not self.spec.bias:
            return x
        one = torch.ones_like(x.value[:, :1])
        return Near(torch.cat([x.value, one], 1), torch.cat([x.error, 0 * one], 1))

    def split(self, rows: Near) -> tuple[Near, Near | None]:
        """Gradient rows into matrix and bias."""
        if not self.spec.bias:
            return rows, None
        cut = (
            Near(rows.value[:, :-1], rows.error[:, :-1]),
            Near(rows.value[:, -1], rows.error[:, -1]),
        )
        return cut


class ReverseBound(StepBound):
    """One step of mechanisms/stacks/backward.py.

    Statement: [DEEP] Lemma 6
    Statement: [DEEP] Theorem 1

    Differs from the paper: at the weights and data of the step instead of the worst case over all of
    them, which from three layers on says nothing.
    """

    def __init__(
        self, spec: NetworkSpec, builder: StackBuilder, lr: float, u: float, *, literal: bool
    ) -> None:
        super().__init__(spec, lr, u, builder.o.gate, literal=literal)
        self.b = builder

    def forward(
        self, near: list[tuple[Near, Near | None]], X: Tensor
    ) -> tuple[list[Near], list[Near]]:
        """(x, p(1) .. p(N)) and (z_1 .. z_N)."""
        outs, zs = [Near(X, torch.zeros_like(X))], list[Near]()
        for j, (W, b) in enumerate(near, 1):
            zs.append(affine(outs[-1], W, b, self.u))
            fit = self.b.fits[j].value.certificate.sup_error
            outs.append(self.activate(self.spec.activation_of(j), zs[-1], fit))
        return outs, zs

    def output(self, near: list[tuple[Near, Near | None]], X: Tensor) -> Near:
        """See StepBound."""
        return self.forward(near, X)[0][-1]

    def gradients(
        self, near: list[tuple[Near, Near | None]], X: Tensor, Y: Tensor
    ) -> list[tuple[Near, Near | None]]:
        """See StepBound: forward, slopes, loss, signals, update."""
        inputs, zs = self.forward(near, X)
        slopes = [self.slope(j, z) for j, z in enumerate(zs, 1)]
        x = inputs[-1]
        signal = self.loss_slope(x, Y, self.b.loss_certificate.sup_error, self.b.o.radius)
        grads = list[tuple[Near, Near | None]]()
        for j in range(self.spec.n_layers, 0, -1):
            delta = signal.times(slopes[j - 1]).plus(4 * self.u * signal.size)
            delta = delta.plus(self.product_error(j, signal))
            grads.append(self.split(self.mean_product(delta, self.with_one(inputs[j - 1]))))
            W = near[j - 1][0]
            signal = affine(delta, Near(W.value.T, W.error.T), None, self.u)
        return grads[::-1]

    def slope(self, j: int, z: Near) -> Near:
        """r'(z) by a fit of r'; a ReLU's ramp may be wrong by 1 inside it, and is exact outside."""
        act, fit = self.spec.activation_of(j), self.b.fits[j].slope
        value = act.derivative(z.value)
        if act.smooth:
            return Near(value, fit.certificate.sup_error + act.bounds[1] * z.error)
        unsure = (z.value + z.error > 0) & (z.value - z.error < self.b.o.ramp)
        self.kinks += int(unsure.sum())
        error = unsure.to(value)
        if self.literal:  # summing over tokens rounds the two large halves of the ramp
            error = error + (len(value) + 8) * self.u * fit.C * z.size
        return Near(value, error)

    def product_error(self, j: int, signal: Near) -> Tensor | float:
        """What multiplying by ReLUs adds: quarter squares, or a gate that was not quite 0 or 1."""
        if self.b.o.products == "exact":
            return 0.0
        if self.spec.activation_of(j).smooth and self.spec.activation_of(j).name != "linear":
            assert self.b.square is not None
            return self.b.square.certificate.sup_error / 2
        rounded = (len(signal.value) + 8) * self.u * self.b.fits[j].slope.C * self.b.o.gate
        return self.b.o.signal_radius * rounded if self.literal else 4 * self.u * signal.size
