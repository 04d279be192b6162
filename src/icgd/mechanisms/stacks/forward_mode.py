"""N layers a step: derivatives run forward through the network together with its values.

With P(s, t) = s r'(t) the chain rule is one family of heads per layer,
    dz_{p+1}/dtheta = W_{p+1} P(dz_p/dtheta, z_p),
so that N - 1 layers hold the output and its derivative by every weight, and one more sums over the
examples. Per-token numbers stand on the query side; sums over examples need the key side. For N = 2
nothing need be stored: the second layer reads everything off the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from icgd.mechanisms.stacks.layout import (
    data_slots,
    flag_slots,
    inputs_of,
    one_of,
    own_coordinates,
    rows_of,
    weight_slots,
)
from icgd.mechanisms.stacks.parts import end_of_step, loss_layer, loss_units
from icgd.problems import NetworkSpec
from icgd.problems.activations import activation
from icgd.transformer.certificate import Certificate, worst_of
from icgd.transformer.gadgets.fits.feature_fit import (
    FeatureFit,
    fit_error,
    fit_function,
    fit_identity,
)
from icgd.transformer.gadgets.fits.slope_product import fit_slope_product
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.stack.head_family import ACTIVATIONS, Feature, HeadFamily
from icgd.transformer.nn.stack.stack import AttentionSublayer, Stack, Sublayer


@dataclass(frozen=True)
class ForwardOptions:
    """All the construction depends on besides the network.

    attention      activation of the heads
    n_relu         units of every fit, whatever the activation
    radius         range of pre-activations   signal_radius  range of derivatives
    target_radius  range of targets           gate           range of what is computed exactly
    """

    lr: float
    box: float | None
    attention: str
    n_relu: int
    radius: float
    signal_radius: float
    target_radius: float
    gate: float
    n_examples: int | None
    dtype: torch.dtype

    @property
    def mean_factor(self) -> float:
        """Turns the mean over all tokens into the mean over examples."""
        n = self.n_examples
        return 1.0 if n is None else (n + 1) / n


def forward_layout(spec: NetworkSpec) -> Layout:
    """x | y | w | z(2..N) | a(1..N-1) | S(2..N) | g | 1 | t; for N <= 2 no a and no S.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: derivatives have an index for the unit they belong to (its s_ij lacks it).
    """
    n, width = spec.n_layers, spec.widths
    state = [Slot(f"z{p}", (width[p],), f"z_{p}", each=True) for p in range(min(2, n), n + 1)]
    if n > 2:
        state += [Slot(f"a{p}", (width[p],), f"r(z_{p})", each=True) for p in range(1, n)]
        state += [
            Slot(
                f"d{p}", (width[p], n_weights(spec, p - 1)), f"dz_{p}/dw of layers < {p}", each=True
            )
            for p in range(2, n + 1)
        ]
    return Layout(
        [
            *data_slots(spec),
            *weight_slots(spec),
            *state,
            Slot("residual", (width[-1],), "g: twice dl/do, 0 in a token that asks", each=True),
            *flag_slots(),
        ]
    )


def n_weights(spec: NetworkSpec, layers: int) -> int:
    """Weights of the first layers together, biases included."""
    width = spec.widths
    return sum(width[i] * (width[i - 1] + spec.bias) for i in range(1, layers + 1))


class ForwardBuilder:
    """Writes the layers of one step, or those of a prediction, on named slots."""

    def __init__(self, spec: NetworkSpec, options: ForwardOptions) -> None:
        self.spec, self.o = spec, options
        self.layout = forward_layout(spec)
        self.own = own_coordinates(self.layout)
        act, o = activation(spec.activation), options
        self.exact = act.name == "relu"
        self.value: FeatureFit = fit_function(act, o.radius, o.n_relu, o.attention)
        self.product: FeatureFit = fit_slope_product(
            act, o.signal_radius, o.radius, o.n_relu, o.attention
        )
        self.residual_radius = 2 * (o.radius + min(o.target_radius, o.radius))
        self.identity: FeatureFit = fit_identity(self.residual_radius, o.n_relu, o.attention)
        self.loss_units, self.loss_certificate = loss_units(
            spec.loss, o.n_relu, o.radius, o.target_radius
        )

    def certificate(self) -> Certificate:
        """The worst of all fits."""
        u = torch.finfo(self.o.dtype).eps / 2
        fits = [
            replace(fit.certificate, sup_error=fit_error(fit, u))
            for fit in (self.value, self.product, self.identity)
        ]
        return worst_of([*fits, self.loss_certificate])

    def step(self) -> Stack:
        """All layers of one step of gradient descent.

        Statement: [BRIDGE] Theorem 1
        Statement: [BRIDGE] Theorem 2

        Differs from the paper: N layers instead of O(N^2); per-token numbers on the query side, sums over
        examples on the key side, where the printed heads have it the other way round.
        """
        n, layers = self.spec.n_layers, dict[str, Sublayer]()
        for p in range(1, n):
            families = self.values(p)
            if n > 2:
                families |= self.derivatives(p)
            layers[f"attention{p}"] = AttentionSublayer(families)
        if n == 1:
            layers["attention0"] = AttentionSublayer({"z1": self.single_layer()})
        layers["loss"] = loss_layer(
            self.layout, self.layout.index(f"z{n}"), self.loss_units, self.o.gate, self.o.dtype
        )
        last = self.two_layer_sums() if n == 2 else self.sums()
        layers["descend"] = AttentionSublayer(last)
        weights = [s.name for s in weight_slots(self.spec)]
        keep = {*weights, "x", "y", "one", "train"}
        scratch = [s.name for s in self.layout if s.name not in keep]
        layers["end"] = end_of_step(self.layout, scratch, weights, self.o.box, self.o.dtype)
        return self.stack(layers, n_layers=max(n, 2))

    def prediction(self) -> Stack:
        """The layers that compute the output, without derivatives."""
        n = self.spec.n_layers
        layers: dict[str, Sublayer] = {
            f"attention{p}": AttentionSublayer(self.values(p)) for p in range(1, n)
        }
        if n == 1:
            layers["attention0"] = AttentionSublayer({"z1": self.single_layer()})
        return self.stack(layers, n_layers=len(layers))

    def stack(self, layers: dict[str, Sublayer], n_layers: int) -> Stack:
        """Attention and the feed-forward layer behind it count as one layer, as the paper has it."""
        kinks = frozenset(f"slope{p}" for p in range(1, self.spec.n_layers)) if self.exact else None
        return Stack(
            self.layout,
            layers,
            n_layers=n_layers,
            radius=self.o.radius,
            kinks=kinks or frozenset(),
        )

    # -- parts of heads ---------------------------------------------------------------------------

    def ones(self, n: int) -> Tensor:
        """The coordinate of 1 for n units."""
        return one_of(self.layout).expand(n, 1)

    def constant(self, n: int) -> Feature:
        """The feature 1."""
        return Feature("one", self.ones(n), self.ones(n))

    def argument(self, p: int, units: Tensor, label: str) -> Feature:
        """z_p[k] of the units k: stored from layer 2 on, an inner product in layer 1."""
        reach = self.o.gate if self.exact else self.o.radius
        if p == 1:
            keys = rows_of(self.spec, self.layout, 1)[units]
            inputs = inputs_of(self.spec, self.layout, 1).expand_as(keys)
            return Feature(label, inputs, keys, reach, layer=p)
        stored = self.layout.index(f"z{p}")[units].unsqueeze(1)
        return Feature(label, stored, self.ones(len(units)), reach, layer=p)

    def family(
        self,
        features: list[Feature],
        fit: FeatureFit,
        source: Tensor,
        target: Tensor,
        scale: float = 1.0,
    ) -> HeadFamily:
        """A family on this stack's tokens."""
        return HeadFamily(
            features,
            fit.a,
            fit.c,
            source,
            target,
            self.own,
            scale=scale,
            activation=self.o.attention,
            dtype=self.o.dtype,
        )

    def passing(self, source: Tensor, target: Tensor, scale: float = 1.0) -> HeadFamily:
        """One head that moves numbers: its score is 1 everywhere, its value is divided by act(1)."""
        score = torch.ones(1, 1, dtype=torch.float64)
        height = 1 / ACTIVATIONS[self.o.attention](score[0])
        return HeadFamily(
            [self.constant(1)],
            score,
            height,
            source.reshape(1, -1),
            target.reshape(1, -1),
            self.own,
            scale=scale,
            activation=self.o.attention,
            dtype=self.o.dtype,
        )

    # -- layers 1 .. N-1 --------------------------------------------------------------------------

    def values(self, p: int) -> dict[str, HeadFamily]:
        """z_{p+1} = W_{p+1} r(z_p) + b_{p+1}, and r(z_p) where it is needed later."""
        units = torch.arange(self.spec.widths[p])
        source = self.layout.index(f"weight{p + 1}").T
        target = self.layout.index(f"z{p + 1}").expand_as(source)
        if f"a{p}" in self.layout:
            source = torch.cat([source, self.ones(len(units))], dim=1)
            target = torch.cat([target, self.layout.index(f"a{p}").unsqueeze(1)], dim=1)
        features = [self.argument(p, units, f"out{p}"), self.constant(len(units))]
        families = {f"out{p}": self.family(features, self.value, source, target)}
        if self.spec.bias:
            bias = self.layout.index(f"bias{p + 1}")
            families[f"bias{p + 1}"] = self.passing(bias, self.layout.index(f"z{p + 1}"))
        return families

    def derivatives(self, p: int) -> dict[str, HeadFamily]:
        """S_{p+1}[., theta] = sum_k W_{p+1}[., k] P(dz_p[k]/dtheta, z_p[k]) for layers up to p."""
        width, inputs = self.spec.widths[p], inputs_of(self.spec, self.layout, p, stem="a")
        older = n_weights(self.spec, p - 1)
        written = self.layout.index(f"d{p + 1}")
        unit = torch.arange(width).repeat_interleave(len(inputs))
        families = {
            # Weights of layer p itself: dz_p[k]/dW_p[k, l] = a_{p-1}[l] needs no slot of its own.
            f"new{p}": self._derivative(p, unit, inputs.repeat(width), written[:, older:].T)
        }
        if p > 1:
            unit = torch.arange(width).repeat_interleave(older)
            stored = self.layout.index(f"d{p}").reshape(-1)
            families[f"old{p}"] = self._derivative(
                p, unit, stored, written[:, :older].T.repeat(width, 1)
            )
        return families

    def _derivative(self, p: int, unit: Tensor, read: Tensor, target: Tensor) -> HeadFamily:
        # The inputs of layer 1 are data: their range is checked like that of any derivative.
        derivative = Feature(
            f"derivative{p}",
            read.unsqueeze(1),
            self.ones(len(read)),
            self.o.signal_radius,
            layer=p,
            option="signal_radius",
        )
        features = [derivative, self.argument(p, unit, f"slope{p}"), self.constant(len(read))]
        source = self.layout.index(f"weight{p + 1}").T[unit]
        return self.family(features, self.product, source, target)

    def single_layer(self) -> HeadFamily:
        """z_1 = W_1 x + b_1 of a network without hidden layer, by the identity fit."""
        units = torch.arange(self.spec.widths[1])
        features = [self.argument(1, units, "out1"), self.constant(len(units))]
        target = self.layout.index("z1").unsqueeze(1)
        return self.family(features, self.identity, self.ones(len(units)), target)

    # -- layer N ----------------------------------------------------------------------------------

    @property
    def rate(self) -> float:
        """Factor of every update: g is twice the slope of the loss."""
        return -self.o.lr * self.o.mean_factor / 2

    def sums(self) -> dict[str, HeadFamily]:
        """w <- w - lr/2 mean of g[r] dz_N[r]/dw."""
        n, width = self.spec.n_layers, self.spec.widths[-1]
        layout = self.layout
        last = rows_of(self.spec, layout, n)
        inputs = inputs_of(self.spec, layout, n, stem="a").expand_as(last)
        source, target = inputs, last
        if n > 1:
            rows = [rows_of(self.spec, layout, i).reshape(-1) for i in range(1, n)]
            weights = torch.cat(rows).expand(width, -1)
            source = torch.cat([layout.index(f"d{n}"), inputs], dim=1)
            target = torch.cat([weights, last], dim=1)
        return {"sums": self._residual_family(source, target)}

    def _residual_family(self, source: Tensor, target: Tensor) -> HeadFamily:
        residual = self.layout.index("residual").unsqueeze(1)
        reach = self.o.gate if self.o.attention == "relu" else self.residual_radius
        features = [Feature("residual", self.ones(len(residual)), residual, reach)]
        features.append(self.constant(len(residual)))
        return self.family(features, self.identity, source, target, self.rate)

    def two_layer_sums(self) -> dict[str, HeadFamily]:
        """Both matrices of a two-layer network at once: w is in every token, x and g on the key side."""
        hidden, out = self.spec.widths[1], self.spec.widths[2]
        layout, first = self.layout, rows_of(self.spec, self.layout, 1)
        inputs = inputs_of(self.spec, layout, 1)
        residual, second = layout.index("residual"), layout.index("weight2")
        r, k = (
            t.reshape(-1)
            for t in torch.meshgrid(torch.arange(out), torch.arange(hidden), indexing="ij")
        )
        reach = self.o.gate if self.exact else self.o.radius
        signal = self.o.signal_radius

        def argument(unit: Tensor, label: str) -> Feature:
            # Weights on the query side, examples on the key side.
            return Feature(label, first[unit], inputs.expand(len(unit), -1), reach, layer=1)

        families = {
            "weight1": self.family(
                [
                    Feature(
                        "derivative1",
                        second[r, k].unsqueeze(1),
                        residual[r].unsqueeze(1),
                        signal,
                        layer=1,
                        option="signal_radius",
                    ),
                    argument(k, "slope1"),
                    self.constant(len(k)),
                ],
                self.product,
                inputs.expand(len(k), -1),
                first[k],
                self.rate,
            ),
            "weight2": self.family(
                [argument(torch.arange(hidden), "out1"), self.constant(hidden)],
                self.value,
                residual.expand(hidden, -1),
                second.T,
                self.rate,
            ),
        }
        if self.spec.bias:
            families["bias2"] = self.passing(residual, layout.index("bias2"), self.rate)
        return families
