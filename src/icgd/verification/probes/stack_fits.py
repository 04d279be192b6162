"""What a stack stores, part by part, against what each part promises on its whole range.

A run and probes meet the numbers they happen to meet. Here every family of heads is evaluated as the
function it stands for, up to the ends of its certified range, and every feed-forward layer on tokens
whose slots are filled to the ends of theirs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.mechanisms.stacks.backward import StackBuilder
from icgd.mechanisms.stacks.builders import builder_of
from icgd.mechanisms.stacks.codec import StackCodec
from icgd.mechanisms.stacks.forward_mode import ForwardBuilder
from icgd.problems.activations import activation
from icgd.transformer.gadgets.fits.feature_fit import FeatureFit, fit_error
from icgd.transformer.gadgets.fits.relu_sum import ReluSum
from icgd.transformer.gadgets.fits.sample_points import FINE, uniform
from icgd.transformer.nn.stack.head_family import ACTIVATIONS, HeadFamily
from icgd.transformer.nn.stack.stack import (
    AttentionSublayer,
    MlpSublayer,
    ProductSublayer,
    Stack,
    unwatched,
)
from icgd.transformer.program import Program
from icgd.verification.probes.stack_wiring import FitCheck, check_wiring

CHUNK, ROWS = 2**13, 2**9
"""Points and tokens worked off at a time."""
ROOM = 2**22
"""Numbers all tokens together may hold."""


@dataclass(frozen=True)
class Promise:
    """scale * f on a box, up to scale * error; of the last variable an interval may be left out."""

    f: Callable[[Tensor], Tensor]
    box: tuple[float, ...]
    error: float
    scale: float = 1.0
    blind: tuple[float, float] | None = None


def check_stack_fits(program: Program) -> list[FitCheck]:
    """Every part of the layers of a step and of those that predict."""
    codec = program.codec
    assert isinstance(codec, StackCodec)
    promises: _Promises
    builder = builder_of(program.blueprint)
    if isinstance(builder, StackBuilder):
        promises = _ReversePromises(program, builder)
    else:
        promises = _ForwardPromises(program, builder)
    checks = []
    built = {"step": promises.builder.step(), "readout": promises.builder.prediction()}
    with torch.no_grad():
        for name, stack in (("step", program.step), ("readout", program.readout)):
            assert isinstance(stack, Stack)
            checks.append(check_wiring(name, stack, built[name]))
            if checks[-1].passed:  # else parts are not what their names say
                checks += _check_stack(name, stack, promises)
    return checks


def _check_stack(stack_name: str, stack: Stack, promises: _Promises) -> list[FitCheck]:
    checks = []
    for name, layer in stack.each():
        where = f"{stack_name}.{name}"
        if isinstance(layer, AttentionSublayer):
            for label, family in layer.families.items():
                assert isinstance(family, HeadFamily)
                checks.append(promises.check_family(f"{where}.{label}", name, label, family))
        elif isinstance(layer, ProductSublayer):
            checks.append(FitCheck(where, float((layer.coef - 1).abs().max()), 0.0))
        else:
            assert isinstance(layer, MlpSublayer)
            checks.append(promises.check_units(where, name, layer))
    return checks


class _Promises(ABC):
    """What the parts of both kinds of stack share."""

    def __init__(self, program: Program, builder: StackBuilder | ForwardBuilder) -> None:
        self.builder = builder
        self.o, self.spec, self.layout = builder.o, builder.spec, builder.layout
        self.loss_error = builder.loss_certificate.sup_error
        self.exact_loss = math.isinf(builder.loss_certificate.domain)
        self.dtype, self.u = program.dtype, torch.finfo(program.dtype).eps / 2
        self.rate = -self.o.lr * self.o.mean_factor / 2
        self._seen = dict[object, tuple[HeadFamily, float]]()

    @abstractmethod
    def of(self, layer: str, label: str) -> Promise:
        """What the heads of this name promise."""

    # -- heads ------------------------------------------------------------------------------------

    def check_family(self, where: str, layer: str, label: str, family: HeadFamily) -> FitCheck:
        """A family as a function of its features, times its scale."""
        promise = self.of(layer, label)
        unit = float(abs(promise.scale))
        scale_off = abs(float(family.scale) - promise.scale)
        allowed = 4 * self.u * unit
        if scale_off > allowed:
            return FitCheck(f"{where}.scale", scale_off, allowed)
        return FitCheck(
            where, unit * self._miss(family, promise), unit * self._room(family, promise)
        )

    def _room(self, family: HeadFamily, promise: Promise) -> float:
        # Sums are taken here in another order than where the certificate was measured.
        size = torch.ones_like(family.c).double()
        if family.activation == "relu":
            reach = torch.tensor([*promise.box, 1.0][: family.n_features], dtype=torch.float64)
            size = family.a.abs().double() @ reach
        return promise.error + 8 * self.u * float(family.c.abs().double() @ size)

    def _miss(self, family: HeadFamily, promise: Promise) -> float:
        """Families made of one fit are alike: looked at once."""
        key = (promise.f, promise.box)
        kept = self._seen.get(key)
        if kept and torch.equal(kept[0].a, family.a) and torch.equal(kept[0].c, family.c):
            return kept[1]
        a, c = family.a.double(), family.c.double()
        points = _points(promise, a)
        one = torch.ones(len(points), 1, dtype=torch.float64)
        features = torch.cat([points, one], 1)[:, : family.n_features]
        act = ACTIVATIONS[family.activation]
        worst = 0.0
        for part, at in zip(features.split(CHUNK), points.split(CHUNK), strict=True):
            off = (act(part @ a.T) @ c - promise.f(at)).abs()
            worst = max(worst, float(_nan_is_worst(off).max()))
        self._seen[key] = (family, worst)
        return worst

    # -- feed-forward layers ----------------------------------------------------------------------

    def check_units(self, where: str, name: str, layer: MlpSublayer) -> FitCheck:
        """A feed-forward layer on tokens filled to the ends of its range."""
        tokens, wanted, allowed = self.expected(name)
        parts = tokens.to(self.dtype).split(ROWS)
        computed = torch.cat([layer.collapsed(part, unwatched) for part in parts])
        off = (computed.double() - wanted).abs()
        over = _nan_is_worst(off - allowed)
        worst = int(over.argmax())
        limit = float(allowed.expand_as(off).reshape(-1)[worst])
        return FitCheck(where, float(off.reshape(-1)[worst]), limit)

    def expected(self, name: str) -> tuple[Tensor, Tensor, Tensor]:
        """(tokens, what the layer must make of them, how far off it may be)."""
        if name == "loss":
            return self._loss()
        assert name == "end"
        return self._end()

    def blank(self, n: int) -> Tensor:
        """Tokens that hold nothing but the 1."""
        tokens = torch.zeros(n, self.layout.width, dtype=torch.float64)
        tokens[:, self.layout.index("one")] = 1.0
        return tokens

    def rounded(self, t: Tensor) -> Tensor:
        """The nearest numbers of the program's precision."""
        return t.to(self.dtype).double()

    @abstractmethod
    def output_slot(self) -> str:
        """The slot the loss reads."""

    def _loss(self) -> tuple[Tensor, Tensor, Tensor]:
        reach = self.o.gate / 4 if self.exact_loss else self.o.radius
        target = min(self.o.target_radius, self.o.gate / 4)
        if self.spec.loss.form == "joint":  # on the points it was certified on
            axes = (uniform(reach, FINE[2][0])[::3], uniform(target, FINE[2][1])[::2])
        else:
            n = max(65, min(1601, ROOM // (10 * self.layout.width)))
            axes = (uniform(reach, n), uniform(target, 5))
        o, y = (self.rounded(t) for t in torch.cartesian_prod(*axes).T)
        teaching, asking = self.blank(len(o)), self.blank(len(o))
        teaching[:, self.layout.index("train")] = 1.0
        both = torch.cat([teaching, asking])
        both[:, self.layout.index(self.output_slot())] = o.repeat(2).unsqueeze(1)
        both[:, self.layout.index("y")] = y.repeat(2).unsqueeze(1)
        wanted, slope = both.clone(), self.spec.loss.slope_of(o, y)
        wanted[: len(o), self.layout.index("residual")] = 2 * slope.unsqueeze(1)
        allowed = torch.zeros_like(both)
        rounding = 16 * self.u * (o.abs() + y.abs() + slope.abs() + 1)
        allowed[: len(o)] = (2 * self.loss_error + rounding).unsqueeze(1)
        return both, wanted, allowed

    def _end(self) -> tuple[Tensor, Tensor, Tensor]:
        n = 256
        draw = torch.Generator().manual_seed(0)
        sign = torch.randint(0, 2, (n, self.layout.width), generator=draw).mul(2).sub(1)
        size = 10 ** (8 * torch.rand(n, self.layout.width, generator=draw, dtype=torch.float64) - 6)
        tokens = self.rounded(sign * size)
        tokens[:, self.layout.index("one")] = 1.0
        wanted, box = tokens.clone(), self.o.box
        for slot in self.layout:
            part = self.layout.slice(slot.name)
            if slot.name.startswith(("weight", "bias")):
                if box is not None:
                    room = torch.rand(
                        n, part.stop - part.start, generator=draw, dtype=torch.float64
                    )
                    tokens[:, part] = self.rounded((4 * room - 2) * box)
                    wanted[:, part] = tokens[:, part].clamp(-box, box)
            elif slot.name not in ("x", "y", "one", "train"):
                wanted[:, part] = 0.0
        allowed = torch.zeros(1, self.layout.width, dtype=torch.float64)
        if box is not None and self.dtype != torch.float64:
            allowed += 4 * self.u * box  # the box itself rounds
        return tokens, wanted, allowed


class _ReversePromises(_Promises):
    """mechanisms/stacks/backward.py."""

    def __init__(self, program: Program, builder: StackBuilder) -> None:
        super().__init__(program, builder)
        self.b = builder
        self._known = dict[str, Promise]()
        self._fits = {f"{stem}{j}": (stem, j) for j in builder.layers for stem in ("out", "slope")}
        self._updates = {f"weight{j}" for j in builder.layers}
        self._products = {f"multiply{j}": j for j in builder.layers}

    def output_slot(self) -> str:
        """See _Promises."""
        return f"out{self.spec.n_layers}"

    def of(self, layer: str, label: str) -> Promise:
        """See _Promises."""
        if label == "carry":
            return Promise(_first, (self.b.o.signal_radius,), 0.0)
        if label in self._updates:
            return Promise(_first, (self.o.gate,), 0.0, self.rate)
        stem, j = self._fits[label]
        fits, act = self.b.fits[j], self.spec.activation_of(j)
        slope = stem == "slope"
        fit: ReluSum = fits.slope if slope else fits.value
        f = act.derivative if slope else act.apply
        promise = self._known.get(act.name + stem)
        if promise is None:
            promise = Promise(
                lambda t: f(t[:, 0]),
                (min(fit.certificate.domain, self.o.gate),),
                fit.certificate.sup_error,
                blind=(0.0, self.b.o.ramp) if slope and not act.smooth else None,
            )
            self._known[act.name + stem] = promise
        return promise

    def expected(self, name: str) -> tuple[Tensor, Tensor, Tensor]:
        """See _Promises."""
        if name not in self._products:
            return super().expected(name)
        j, size = self._products[name], self.b.o.signal_radius
        act, square = self.spec.activation_of(j), self.b.square
        if square is None or act.name in ("relu", "linear"):
            second, error = torch.tensor([0.0, 1.0], dtype=torch.float64), 0.0
        else:
            reach = act.bounds[0] + self.b.fits[j].slope.certificate.sup_error
            second, error = uniform(reach, 33), square.certificate.sup_error / 2
        s, v = (self.rounded(t) for t in torch.cartesian_prod(uniform(size, 157), second).T)
        tokens = self.blank(len(s))
        tokens[:, self.layout.index(f"signal{j}")] = s.unsqueeze(1)
        tokens[:, self.layout.index(f"slope{j}")] = v.unsqueeze(1)
        wanted = tokens.clone()
        wanted[:, self.layout.index(f"signal{j}")] = (s * v).unsqueeze(1)
        return tokens, wanted, torch.full_like(tokens[:, :1], error + 16 * self.u * size)


class _ForwardPromises(_Promises):
    """mechanisms/stacks/forward_mode.py."""

    def __init__(self, program: Program, builder: ForwardBuilder) -> None:
        super().__init__(program, builder)
        self.b, act = builder, activation(self.spec.activation)
        self._value = self._fitted(builder.value, lambda t: act.apply(t[:, 0]))
        self._product = self._fitted(builder.product, lambda t: t[:, 0] * act.derivative(t[:, 1]))
        self._identity = self._fitted(builder.identity, _first)
        stems = {
            "out": self._value,
            "new": self._product,
            "old": self._product,
            "z": self._identity,
        }
        layers = range(1, self.spec.n_layers + 1)
        self._fits = {f"{stem}{p}": fit for p in layers for stem, fit in stems.items()}
        self._biases = {f"bias{p}" for p in layers}

    def _fitted(self, fit: FeatureFit, f: Callable[[Tensor], Tensor]) -> Promise:
        return Promise(f, fit.box, fit_error(fit, self.u), blind=fit.blind)

    def output_slot(self) -> str:
        """See _Promises."""
        return f"z{self.spec.n_layers}"

    def of(self, layer: str, label: str) -> Promise:
        """See _Promises."""
        rated = {"sums": self._identity, "weight1": self._product, "weight2": self._value}
        if label in rated:
            p = rated[label]
            return Promise(p.f, p.box, p.error, self.rate, p.blind)
        if label in self._biases:
            # One head whose score is 1 everywhere.
            return Promise(_one, (), 8 * self.u, self.rate if layer == "descend" else 1.0)
        return self._fits[label]


def _first(t: Tensor) -> Tensor:
    return t[:, 0]


def _one(t: Tensor) -> Tensor:
    return torch.ones(len(t), dtype=t.dtype)


def _points(promise: Promise, a: Tensor) -> Tensor:
    """The grid a fit is certified on, ends included, and beside the bends of stored ReLUs."""
    if not promise.box:
        return torch.zeros(1, 0, dtype=torch.float64)
    axes = [uniform(half, n) for half, n in zip(promise.box, FINE[len(promise.box)], strict=True)]
    if len(axes) == 1 and a.shape[1] == 2:
        half = promise.box[0]
        bends = -a[:, 1] / a[:, 0]
        beside = [bends + shift for shift in (0.0, -1e-3, 1e-3)]
        extra = torch.cat(beside)
        axes[0] = torch.cat([axes[0], extra[extra.abs() <= half]])
    points = torch.cartesian_prod(*axes).reshape(-1, len(axes))
    if promise.blind is None:
        return points
    low, high = promise.blind
    outside = (points[:, -1] <= low) | (points[:, -1] >= high)
    return points[outside]


def _nan_is_worst(value: Tensor) -> Tensor:
    """NaN keeps no promise."""
    return torch.where(value.isnan(), torch.inf, value)
