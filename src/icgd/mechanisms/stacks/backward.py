"""The (2N+4)-layer stack: one step of full-batch gradient descent by reverse-mode differentiation.

N layers compute p(1)..p(N), one r'(1)..r'(N), one the slope of the loss, N the signals s(N)..s(1),
one the update, one clears and projects. The same layers make every step. Without multiplication
layers (`products="attention"`) each signal takes an attention and a feed-forward layer: 3N+4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from icgd.mechanisms.stacks.layout import (
    inputs_of,
    one_of,
    own_coordinates,
    reverse_layout,
    rows_of,
)
from icgd.mechanisms.stacks.parts import Units, end_of_step, loss_layer, loss_units
from icgd.problems import NetworkSpec
from icgd.problems.activations import Activation
from icgd.transformer.certificate import Certificate, worst_of
from icgd.transformer.gadgets.fits.relu_sum import (
    Knots,
    ReluSum,
    constant_one,
    fit_relu_sum,
    identity_sum,
    relu_itself,
    step_ramp,
)
from icgd.transformer.layout import Layout
from icgd.transformer.nn.stack.head_family import Feature, HeadFamily
from icgd.transformer.nn.stack.stack import (
    AttentionSublayer,
    MlpSublayer,
    ProductSublayer,
    Stack,
    Sublayer,
    UnitGroup,
)


@dataclass(frozen=True)
class StackOptions:
    """All a stack depends on besides the network.

    n_relu   units of every sum that is fitted
    radius   range of pre-activations in which fits are certified
    gate     range of everything that is computed exactly; shuts tokens that ask out of the loss
    ramp     width of the step r' of a ReLU, a power of two
    n_examples  rows the prompt holds beside one token that asks; None: any number, and none that asks
    """

    lr: float
    box: float | None
    n_relu: int
    knots: Knots
    products: str
    radius: float
    signal_radius: float
    target_radius: float
    gate: float
    ramp: float
    n_examples: int | None
    dtype: torch.dtype

    @property
    def mean_factor(self) -> float:
        """Turns the mean over all tokens into the mean over examples."""
        n = self.n_examples
        return 1.0 if n is None else (n + 1) / n


@dataclass(frozen=True)
class LayerFits:
    """Sums of ReLUs for r and r' of one layer, and the range in which both hold."""

    value: ReluSum
    slope: ReluSum
    reach: float


def layer_fits(act: Activation, o: StackOptions) -> LayerFits:
    """r and r' as sums of ReLUs; exact where the activation is made of ReLUs itself."""
    if act.name == "linear":
        return LayerFits(identity_sum(o.gate), constant_one(o.gate), o.gate)
    if act.name == "relu":
        return LayerFits(relu_itself(o.gate), step_ramp(o.ramp, o.gate), o.gate)
    _, second, third, fourth, _ = act.bounds
    segments = o.n_relu - 1
    value = fit_relu_sum(
        act.apply, o.radius, segments, second=second, third=third, knots=o.knots, name=act.name
    )
    slope = fit_relu_sum(
        act.derivative,
        o.radius,
        segments,
        second=third,
        third=fourth,
        knots=o.knots,
        name=f"{act.name}'",
    )
    return LayerFits(value, slope, o.radius)


class StackBuilder:
    """Writes the layers of one step, or those of a prediction, on named slots."""

    def __init__(self, spec: NetworkSpec, options: StackOptions) -> None:
        self.spec, self.o = spec, options
        self.layout: Layout = reverse_layout(spec)
        self.own = own_coordinates(self.layout)
        self.layers = range(1, spec.n_layers + 1)
        by_activation = {
            act: layer_fits(act, options) for act in {spec.activation_of(j) for j in self.layers}
        }
        self.fits = {j: by_activation[spec.activation_of(j)] for j in self.layers}
        self.loss_units: Units
        self.loss_units, self.loss_certificate = loss_units(
            spec.loss, options.n_relu, options.radius, options.target_radius
        )
        n = spec.n_layers
        if math.isfinite(
            self.loss_certificate.domain
        ):  # the loss is fitted: outputs must stay where it is
            last = self.fits[n]
            self.fits[n] = replace(last, reach=min(last.reach, options.radius))
        exact = all(spec.activation_of(j).name in ("relu", "linear") for j in self.layers)
        self.square = None if exact or options.products == "exact" else self._square()

    def certificate(self) -> Certificate:
        """The worst of all fits."""
        fits = [c for f in self.fits.values() for c in (f.value.certificate, f.slope.certificate)]
        if self.square is not None:
            fits.append(self.square.certificate)
        return worst_of([*fits, self.loss_certificate])

    def step(self) -> Stack:
        """All layers of one step of gradient descent.

        Statement: [DEEP] Theorem 1
        Statement: [DEEP] Theorem 5

        Differs from the paper: weights start in the prompt and not at zero, and the last layer clears
        what the next step writes anew.
        """
        layers: dict[str, Sublayer] = {f"forward{j}": self.forward(j) for j in self.layers}
        layers["slopes"] = AttentionSublayer(
            {f"slope{j}": self.reader(j, self.fits[j].slope, f"slope{j}") for j in self.layers}
        )
        n = self.spec.n_layers
        layers["loss"] = loss_layer(
            self.layout, self.layout.index(f"out{n}"), self.loss_units, self.o.gate, self.o.dtype
        )
        for j in reversed(self.layers):
            if self.o.products == "attention":
                layers[f"carry{j}"], layers[f"multiply{j}"] = self.carry(j), self.multiply(j)
            else:
                layers[f"signal{j}"] = self.signal(j)
        layers["descend"] = self.descend()
        stems = ("out", "slope", "signal")
        scratch = [f"{stem}{j}" for stem in stems for j in self.layers] + ["residual"]
        weights = [s.name for s in self.layout if s.name.startswith(("weight", "bias"))]
        layers["end"] = end_of_step(self.layout, scratch, weights, self.o.box, self.o.dtype)
        return self.stack(layers)

    def prediction(self) -> Stack:
        """The N forward layers alone."""
        return self.stack({f"forward{j}": self.forward(j) for j in self.layers})

    def stack(self, layers: dict[str, Sublayer]) -> Stack:
        """Layers that are counted one by one, as the paper does."""
        relu = [j for j in self.layers if self.spec.activation_of(j).name == "relu"]
        return Stack(
            self.layout,
            layers,
            n_layers=len(layers),
            radius=self.o.radius,
            kinks=frozenset(f"slope{j}" for j in relu),
        )

    def forward(self, j: int) -> AttentionSublayer:
        """p(j)[k] = r(v_jk . p(j-1)), one head per unit and ReLU.

        Statement: [DEEP] Lemma 2

        Differs from the paper: the radius is checked while it runs, where R_1 lacks a factor sqrt(K).
        """
        return AttentionSublayer({f"out{j}": self.reader(j, self.fits[j].value, f"out{j}")})

    def reader(self, j: int, fit: ReluSum, target: str) -> HeadFamily:
        """Heads that apply a sum of ReLUs to v_jk . p(j-1).

        Statement: [DEEP] Lemma 3

        Differs from the paper: r' is read at the same numbers as r, so its radius is that of r.
        """
        keys = rows_of(self.spec, self.layout, j)
        queries = inputs_of(self.spec, self.layout, j).expand_as(keys)
        one = one_of(self.layout).expand(len(keys), 1)
        written = self.layout.index(target).unsqueeze(1)
        features = [
            Feature(target, queries, keys, self.fits[j].reach, layer=j),
            Feature("one", one, one),
        ]
        return self.family(features, fit.a, fit.c, one, written)

    def family(
        self,
        features: list[Feature],
        a: Tensor,
        c: Tensor,
        source: Tensor,
        target: Tensor,
        scale: float = 1.0,
    ) -> HeadFamily:
        """A family on this stack's tokens."""
        return HeadFamily(features, a, c, source, target, self.own, scale=scale, dtype=self.o.dtype)

    def signal(self, j: int) -> ProductSublayer:
        """s(j) = r'(j) * (V_{j+1}^T s(j+1)), and s(N) = r'(N) * g.

        Statement: [DEEP] Lemma 5

        Differs from the paper: no; (D.15) asks with column k of V_{j+1}, only Lemma 6 takes a row. The
        display after it has a ReLU and another token's values, which (3.17) has not.
        """
        query, key = self._upstream(j)
        slope, signal = self.layout.index(f"slope{j}"), self.layout.index(f"signal{j}")
        return ProductSublayer(query, key, slope, signal, dtype=self.o.dtype)

    def _upstream(self, j: int) -> tuple[Tensor, Tensor]:
        """Coordinates whose inner product is the signal that arrives at unit k of layer j."""
        if j == self.spec.n_layers:
            residual = self.layout.index("residual").unsqueeze(1)
            return residual, one_of(self.layout).expand_as(residual)
        columns = self.layout.index(f"weight{j + 1}").T
        return self.layout.index(f"signal{j + 1}").expand_as(columns), columns.contiguous()

    def carry(self, j: int) -> AttentionSublayer:
        """V_{j+1}^T s(j+1) by two heads a unit, relu(z) - relu(-z): no multiplication layer needed.

        Statement: [DEEP] Remark 3

        Differs from the paper: it holds that attention and feed-forward layers cannot do this.
        """
        query, key = self._upstream(j)
        one = one_of(self.layout).expand(len(query), 1)
        written = self.layout.index(f"signal{j}").unsqueeze(1)
        sign = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
        reach = self.o.signal_radius
        feature = [Feature(f"signal{j}", query, key, reach, layer=j, option="signal_radius")]
        return AttentionSublayer({"carry": self.family(feature, sign, sign[:, 0], one, written)})

    def multiply(self, j: int) -> MlpSublayer:
        """s <- s r' by ReLUs.

        Where r' is 0 or 1 a gate does it exactly: relu(s - G(1 - r')) - relu(-s - G(1 - r')). Else by
        uv = S ((u/S + v)^2 - (u/S - v)^2) / 4 with squares as sums of ReLUs, S the range of u: scaled, both
        arguments stay near 1, which costs S/M^2 and not S^2/M^2.
        """
        u, v = self.layout.index(f"signal{j}"), self.layout.index(f"slope{j}")
        sign = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(len(u))
        both = torch.cat([u, u])
        erase = UnitGroup(both.unsqueeze(1), sign.unsqueeze(1), both, -sign, dtype=self.o.dtype)
        if self.square is None or self.spec.activation_of(j).name in ("relu", "linear"):
            gate = torch.full_like(sign, self.o.signal_radius)
            read = torch.stack([one_of(self.layout).expand_as(both), v.repeat(2), both], dim=1)
            w_in = torch.stack([-gate, gate, sign], dim=1)
            passed = UnitGroup(read, w_in, both, sign, dtype=self.o.dtype)
            return MlpSublayer({"passed": passed, "erase": erase})
        return MlpSublayer({**self._quarter_squares(u, v, self.square), "erase": erase})

    def _quarter_squares(self, u: Tensor, v: Tensor, square: ReluSum) -> dict[str, UnitGroup]:
        a, c, size = square.a, square.c, self.o.signal_radius
        one, n = one_of(self.layout), len(c)
        groups = {}
        for name, sign in (("plus", 1.0), ("minus", -1.0)):
            read = torch.stack([u, v, one.expand_as(u)], dim=1).repeat_interleave(n, dim=0)
            w_in = torch.stack([a[:, 0] / size, sign * a[:, 0], a[:, 1]], dim=1).repeat(len(u), 1)
            outer = (sign / 4 * c).repeat(len(u))
            groups[name] = UnitGroup(read, w_in, u.repeat_interleave(n), outer, dtype=self.o.dtype)
        return groups

    def _square(self) -> ReluSum:
        """S t^2, for t = u/S +- r'."""
        size = self.o.signal_radius
        steepest = max(
            self.spec.activation_of(j).bounds[0] + fit.slope.certificate.sup_error
            for j, fit in self.fits.items()
        )
        return fit_relu_sum(
            lambda t: size * t * t,
            1 + steepest,
            self.o.n_relu - 1,
            second=2 * size,
            third=0.0,
            name="square",
        )

    def descend(self) -> AttentionSublayer:
        """w <- w - lr * mean of s(j) p(j-1)^T / 2, two heads per unit: relu(s) - relu(-s) = s."""
        families = {}
        sign = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
        for j in self.layers:
            rows = rows_of(self.spec, self.layout, j)
            inputs = inputs_of(self.spec, self.layout, j).expand_as(rows)
            one = one_of(self.layout).expand(len(rows), 1)
            signal = self.layout.index(f"signal{j}").unsqueeze(1)
            families[f"weight{j}"] = self.family(
                [Feature(f"update{j}", one, signal, layer=j)],
                sign,
                sign[:, 0],
                inputs,
                rows,
                scale=-self.o.lr * self.o.mean_factor / 2,
            )
        return AttentionSublayer(families)
