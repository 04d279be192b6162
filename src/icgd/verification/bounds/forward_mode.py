"""The same for stacks that differentiate forward: one more thing to carry, dz_p/dw."""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.mechanisms.stacks.forward_mode import ForwardBuilder
from icgd.problems import NetworkSpec
from icgd.transformer.gadgets.fits.feature_fit import fit_error
from icgd.verification.bounds.stack import Near, StepBound, affine


class ForwardBound(StepBound):
    """One step of mechanisms/stacks/forward_mode.py.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: sup norm instead of L^2, and numbers instead of an order.
    """

    def __init__(
        self, spec: NetworkSpec, builder: ForwardBuilder, lr: float, u: float, *, literal: bool
    ) -> None:
        super().__init__(spec, lr, u, builder.o.gate, literal=literal)
        self.b = builder
        self.value_error = fit_error(builder.value, u)
        self.product_error = fit_error(builder.product, u)
        self.identity_error = fit_error(builder.identity, u)

    def output(self, near: list[tuple[Near, Near | None]], X: Tensor) -> Near:
        """See StepBound."""
        z = affine(Near(X, torch.zeros_like(X)), *near[0], self.u)
        if self.spec.n_layers == 1:
            return z.plus(self.identity_error)
        for layer in near[1:]:
            hidden = self.activate(self.spec.activation_of(1), z, self.value_error)
            z = affine(hidden, *layer, self.u)
        return z

    def gradients(
        self, near: list[tuple[Near, Near | None]], X: Tensor, Y: Tensor
    ) -> list[tuple[Near, Near | None]]:
        """See StepBound."""
        n, act = self.spec.n_layers, self.spec.activation_of(1)
        x = Near(X, torch.zeros_like(X))
        z, derivative = affine(x, *near[0], self.u), None
        inputs = x
        if n == 1:
            z = z.plus(self.identity_error)
        for p in range(1, n):
            if n > 2:
                derivative = self.chain(near[p][0], derivative, self.with_one(inputs), z)
            hidden = z
            inputs = self.activate(act, z, self.value_error)
            z = affine(inputs, *near[p], self.u)
        residual = self.loss_slope(z, Y, self.b.loss_certificate.sup_error, self.b.o.radius)
        if n == 2:
            return self.two_layers(near, x, hidden, inputs, residual)
        read = residual.plus(self.identity_error / 2)
        return self.sums(read, derivative, inputs)

    def product(self, s: Near, z: Near) -> Near:
        """P(s, z) = s r'(z) by a fit of it; for a ReLU wrong near its kink, else up to rounding."""
        act, fit = self.spec.activation_of(1), self.b.product
        slope = act.derivative(z.value)
        if act.smooth:
            error = self.product_error + act.bounds[0] * s.error
            return Near(s.value * slope, error + s.size * act.bounds[1] * z.error)
        assert fit.blind is not None
        low, high = fit.blind
        unsure = (z.value + z.error > low) & (z.value - z.error < high)
        self.kinks += int(unsure.sum())
        n = len(z.value) if self.literal else 1
        rounding = (
            (n + 8) * self.u * (fit.certificate.weight_norm * z.size + s.size + 2 * fit.box[0])
        )
        # Where z is not positive both units are shut: exactly 0.
        rounding = torch.where(z.value + z.error > low, rounding, 0.0)
        return Near(s.value * slope, torch.where(unsure, s.size, s.error) + rounding)

    def chain(self, W: Near, derivative: Near | None, inputs: Near, z: Near) -> Near:
        """dz_{p+1}/dw of layers up to p, (tokens, units of layer p+1, weights)."""
        tokens, width = z.value.shape
        s = Near(inputs.value.unsqueeze(1), inputs.error.unsqueeze(1))
        at = Near(z.value.unsqueeze(2), z.error.unsqueeze(2))
        own = self.product(s, at)  # (tokens, k, l)
        value = torch.einsum("rk,tkl->trkl", W.value, own.value)
        error = torch.einsum("rk,tkl->trkl", W.value.abs() + W.error, own.error)
        error = error + torch.einsum("rk,tkl->trkl", W.error, own.value.abs())
        fresh = Near(value.flatten(2), error.flatten(2) + 6 * self.u * value.abs().flatten(2))
        if derivative is None:
            return fresh
        old = self.product(derivative, at)
        carried = Near(old.value.mT.reshape(-1, width), old.error.mT.reshape(-1, width))
        moved = affine(carried, W, None, self.u)

        def back(t: Tensor) -> Tensor:
            return t.reshape(tokens, -1, W.value.shape[0]).mT

        return Near(
            torch.cat([back(moved.value), fresh.value], dim=2),
            torch.cat([back(moved.error), fresh.error], dim=2),
        )

    def sums(
        self,
        residual: Near,
        derivative: Near | None,
        inputs: Near,
    ) -> list[tuple[Near, Near | None]]:
        """Mean over tokens of g[r] dz_N[r]/dw, cut into the layers' shapes."""
        n_tokens = len(residual.value)
        grads = list[tuple[Near, Near | None]]()
        if derivative is not None:
            g = Near(residual.value.unsqueeze(2), residual.error.unsqueeze(2))
            each = g.times(derivative)
            rounding = (n_tokens + 8) * self.u * each.size.sum(dim=(0, 1)) / n_tokens
            value = each.value.sum(dim=(0, 1)) / n_tokens
            error = each.error.sum(dim=(0, 1)) / n_tokens + rounding
            start = 0
            for j in range(1, self.spec.n_layers):
                out, inp = self.spec.widths[j], self.spec.widths[j - 1] + self.spec.bias
                part = slice(start, start + out * inp)
                start += out * inp
                rows = Near(value[part].reshape(out, inp), error[part].reshape(out, inp))
                grads.append(self.split(rows))
        last = self.mean_product(residual, self.with_one(inputs))
        return [*grads, self.split(last)]

    def two_layers(
        self, near: list[tuple[Near, Near | None]], x: Near, z: Near, hidden: Near, residual: Near
    ) -> list[tuple[Near, Near | None]]:
        """Layer 1 from P(W_2^T g, z) output by output, layer 2 from r(z) g."""
        W = near[1][0]
        total = Near(torch.zeros_like(z.value), torch.zeros_like(z.value))
        for r in range(W.value.shape[0]):
            row = Near(W.value[r : r + 1], W.error[r : r + 1])
            g = Near(residual.value[:, r : r + 1], residual.error[:, r : r + 1])
            doubled = g.times(row)  # the heads read twice of it: g is twice the slope
            s = Near(2 * doubled.value, 2 * doubled.error + 8 * self.u * doubled.size)
            term = self.product(s, z)
            total = Near(total.value + term.value / 2, total.error + term.error / 2)
        first = self.split(self.mean_product(total, self.with_one(x)))
        return [first, self.split(self.mean_product(residual, self.with_one(hidden)))]
