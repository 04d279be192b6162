"""Sums of tanh, sigmoid or ReLU units that fit a function of one or two numbers.

f(t) ~ sum_m c_m sigma(a_m . [t; 1]): the inner weights a are written down (random, or evenly spaced),
the outer ones c solve a least-squares problem on a grid dense at the edges. The error is then MEASURED
in sup norm on another, finer grid; what wins is looked at once more, with what it may do between points
(fits/sup_error.py): an upper bound from measured slopes, and a certificate that is not rigorous.
Least squares with many alike units gives large weights c; what they cost in rounding is part of the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.problems.activations import Activation
from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.fits.inner_weights import even_units, ladder, own_units, random_units
from icgd.transformer.gadgets.fits.relu_sum import fit_relu_sum
from icgd.transformer.gadgets.fits.sample_points import (
    FINE,
    cosines,
    first_samples,
    grid_points,
    uniform,
)
from icgd.transformer.gadgets.fits.sup_error import largest_between

UNITS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}
RCOND = 1e-12
ROUNDING = 4 * 2.0**-53
"""Times sum |c_m|: what summing the units in another order may change."""
_CHUNK = 2**14
_GRIDS = {1: (801,), 2: (29, 97)}
"""Points per variable on which weights are found; ReLUs need more than there are knots."""
_RELU_GRIDS = {1: (4001,), 2: (15, 401)}


@dataclass(frozen=True)
class FeatureFit:
    """sum_m c_m sigma(a_m . [t_1 .. t_{F-1}; 1]).

    Statement: [BRIDGE] Lemma 5

    a, c  (M, F), (M,)    activation  the name of sigma    box  half-widths of the certificate's domain
    odd   the units are pairs (+a_1, c), (-a_1, -c), one after the other: f(0, t) = 0
    blind an interval of the last variable that the certificate leaves out
    way   how a and c were found

    Differs from the paper: weights are computed, not shown to exist; the error is in sup norm, the lemma's
    is in L2, which composing layers cannot use. Measured errors fall far faster than M^-1/2.
    """

    a: Tensor
    c: Tensor
    activation: str
    certificate: Certificate
    box: tuple[float, ...] = field(kw_only=True)
    odd: bool = field(default=False, kw_only=True)
    blind: tuple[float, float] | None = field(default=None, kw_only=True)
    way: str = field(default="", kw_only=True)

    @property
    def n_units(self) -> int:
        """The number M of units."""
        return self.c.numel()

    def __call__(self, t: Tensor) -> Tensor:
        """Evaluate at t of shape (..., F-1); an odd fit is exactly 0 where its first variable is."""
        flat = t.reshape(-1, self.a.shape[1] - 1)
        a, c = self.a.to(t), self.c.to(t)
        if self.odd:
            parts = [_odd_units(p, a[::2], self.activation) @ c[::2] for p in flat.split(_CHUNK)]
        else:
            parts = [_units(p, a, self.activation) @ c for p in flat.split(_CHUNK)]
        return torch.cat(parts).reshape(t.shape[:-1])


def fit_features(
    f: Callable[[Tensor], Tensor],
    box: Sequence[float],
    n_units: int,
    activation: str = "tanh",
    seed: int = 0,
    *,
    odd: bool = False,
    name: str = "f",
) -> FeatureFit:
    """Fit f on a box of one or two variables by random units and one constant unit.

    Statement: [BRIDGE] Lemma 5

    f      maps (..., F-1) to (...)    box  half-width of each variable
    odd    use pairs of units that are odd in the first variable, as f must be

    ReLUs of one variable bend at even knots instead; `relu_sum` certifies those rigorously.

    Differs from the paper: outer weights by least squares, not by sampling a measure.

    >>> fit = fit_features(lambda t: t[..., 0] * t[..., 1], (1.0, 1.0), 100)
    >>> fit.n_units, fit.certificate.sup_error < 1e-5
    (100, True)
    """
    check_units(n_units, activation)
    box = check_box(box)
    return settled(f, random_fit(f, box, n_units, activation, seed, odd=odd, name=name))


def random_fit(
    f: Callable[[Tensor], Tensor],
    box: tuple[float, ...],
    n_units: int,
    activation: str,
    seed: int = 0,
    *,
    odd: bool = False,
    name: str = "f",
) -> FeatureFit:
    """The same with its error on the grid alone, to be compared with others."""
    pairs = n_units // 2 if odd else n_units
    a = random_units(pairs if odd else pairs - 1, box, activation, seed)
    if not odd:
        constant = a.new_zeros(1, len(box) + 1)
        constant[0, -1] = 1.0
        a = torch.cat([a, constant])
    return fit_outer(f, box, a, activation, odd=odd, name=name, way="random units")


def fit_outer(
    f: Callable[[Tensor], Tensor],
    box: tuple[float, ...],
    a: Tensor,
    activation: str,
    *,
    odd: bool = False,
    name: str = "f",
    way: str = "",
) -> FeatureFit:
    """Outer weights for given inner ones (for an odd fit: one unit of every pair), error measured."""
    return certified(
        f, box, a, outer_weights(f, box, a, activation, odd), activation, odd, name, way
    )


def outer_weights(
    f: Callable[[Tensor], Tensor], box: tuple[float, ...], a: Tensor, activation: str, odd: bool
) -> Tensor:
    """c by least squares on a grid that is dense at the edges; half of it if all is odd."""
    grid = (_RELU_GRIDS if activation == "relu" else _GRIDS)[len(box)]
    axes = [cosines(half, n) for half, n in zip(box, grid, strict=True)]
    if odd:
        axes[0] = axes[0][axes[0] > 1e-9 * box[0]]
    points = grid_points(axes)
    columns = (_odd_units if odd else _units)(points, a, activation)
    solved = torch.linalg.lstsq(columns, f(points).unsqueeze(1), driver="gelsd", rcond=RCOND)
    return solved.solution[:, 0]


def certified(
    f: Callable[[Tensor], Tensor],
    box: tuple[float, ...],
    a: Tensor,
    c: Tensor,
    activation: str,
    odd: bool = False,
    name: str = "f",
    way: str = "",
) -> FeatureFit:
    """A fit with its error measured on the finer grid: enough to choose by, not to promise (`settled`)."""
    if odd:
        a, c = torch.stack([a, _mirror(a)], 1).flatten(0, 1), torch.stack([c, -c], 1).flatten()
    axes = [uniform(half, n) for half, n in zip(box, FINE[len(box)], strict=True)]
    points = grid_points(axes)
    blank = Certificate(f"feature_fit[{name}]", min(box), 0.0, 0.0, 0.0, rigorous=False)
    fit = FeatureFit(a, c, activation, blank, box=box, odd=odd, way=way)
    fitted = fit(points)
    grid = fitted.reshape([len(axis) for axis in axes])
    slopes = [
        float((grid.diff(dim=k).abs().max()) / (axis[1] - axis[0])) for k, axis in enumerate(axes)
    ]
    error = float((fitted - f(points)).abs().max()) + ROUNDING * float(c.abs().sum())
    weight = max(float(c.abs().max()), float(a.abs().max()))
    promise = replace(blank, sup_error=error, lipschitz=sum(slopes), weight_norm=weight)
    return replace(fit, certificate=promise)


def settled(f: Callable[[Tensor], Tensor], fit: FeatureFit) -> FeatureFit:
    """The fit that was chosen, its error bounded between the points of a grid as well."""
    rounding = ROUNDING * float(fit.c.abs().sum())
    axes = first_samples(fit.a, fit.box, smooth=fit.activation != "relu", odd=fit.odd)
    error = largest_between(lambda points: fit(points) - f(points), axes, rounding) + rounding
    return replace(fit, certificate=replace(fit.certificate, sup_error=error))


# -- the functions of one variable a network needs ---------------------------------------------------


@lru_cache(maxsize=256)
def fit_function(
    activation: Activation, radius: float, n_units: int, attention: str = "relu"
) -> FeatureFit:
    """The network's activation r on [-radius, radius] by at most n_units units of the attention's.

    Statement: [BRIDGE] Theorem 2

    tanh and sigmoid are each other's: 1 or 2 units, exact to rounding; so is ReLU by ReLU.

    Differs from the paper: no; M_1 is far below error^-2.

    >>> from icgd.problems.activations import ACTIVATIONS
    >>> fit_function(ACTIVATIONS["softplus"], 4.0, 50, "tanh").certificate.sup_error < 1e-9
    True
    """
    check_units(n_units, attention)
    (radius,) = check_box((radius,))
    if activation.name == "linear":
        return fit_identity(radius, n_units, attention)
    refuse_corner(activation, attention)

    def f(t: Tensor) -> Tensor:
        return activation.apply(t[..., 0])

    own = own_units(activation.name, attention)
    if own is not None:
        fit = certified(f, (radius,), *own, attention, name=activation.name, way="its own units")
        return settled(f, fit)
    if attention == "relu":
        second, third = activation.bounds[1:3]
        bent = fit_relu_sum(
            activation.apply,
            radius,
            max(1, n_units - 1),
            second=second,
            third=third,
            knots="adaptive",
            name=activation.name,
        )
        return FeatureFit(bent.a, bent.c, attention, bent.certificate, box=(radius,), way="knots")
    tried = []
    for n in sorted({n_units, min(n_units, ENOUGH)}):
        by_chance = random_fit(f, (radius,), n, attention, name=activation.name)
        tried.append(by_chance)
        for scale in SCALES:
            a = torch.cat([even_units(n - 1, radius, scale), by_chance.a[-1:]])
            way = f"even units x {scale:g}"
            tried.append(fit_outer(f, (radius,), a, attention, name=activation.name, way=way))
    return settled(f, min(tried, key=lambda fit: fit.certificate.sup_error))


@lru_cache(maxsize=256)
def fit_identity(radius: float, n_units: int = 12, attention: str = "relu") -> FeatureFit:
    """t on [-radius, radius] by pairs of units, odd exactly; two ReLUs do it without error.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: it fits the product g v; one factor on the value side leaves the identity.

    >>> t = torch.tensor([[-0.3], [0.0]], dtype=torch.float64)
    >>> fit_identity(2.0, 2, "relu")(t).tolist()
    [-0.3, 0.0]
    """
    check_units(n_units, attention, least=2)
    (radius,) = check_box((radius,))

    def f(t: Tensor) -> Tensor:
        return t[..., 0]

    if attention == "relu":
        a, c = torch.tensor([[1.0, 0.0]]).double(), torch.ones(1).double()
        fit = certified(f, (radius,), a, c, attention, True, "t", "exact")
        return replace(fit, certificate=replace(fit.certificate, sup_error=0.0, rigorous=True))
    pairs = attention != "tanh"  # tanh is odd itself: no need of a second unit
    tried = []
    for n in range(1, min(n_units // 2 if pairs else n_units, 8) + 1):
        for reach in REACHES:
            slopes = ladder(n, reach / radius)
            a = torch.stack([slopes, torch.zeros_like(slopes)], 1)
            way = f"{n} slopes up to {reach:g}/radius"
            tried.append(fit_outer(f, (radius,), a, attention, odd=pairs, name="t", way=way))
    return settled(f, min(tried, key=lambda fit: fit.certificate.sup_error))


ENOUGH = 64
"""Units of one variable beyond which least squares mostly gains rounding."""
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
REACHES = tuple(2.0**-k for k in range(-1, 12, 2))
"""How far the units of a difference quotient are moved: little is accurate, very little is all rounding."""


def refuse_corner(activation: Activation, attention: str) -> None:
    """A ReLU network needs ReLU attention."""
    if not activation.smooth and attention != "relu":
        raise AssumptionViolated(
            f"A sum of {attention} units is smooth and cannot follow the corner of `{activation.name}`: "
            'its slope would be off by 1/2 beside 0. Use attention="relu", or a smooth activation.'
        )


def check_units(n_units: int, activation: str, least: int = 1) -> None:
    """Complain about a count or a name that can never be right."""
    if activation not in UNITS:
        raise InvalidParameter("attention", activation, f"be one of {sorted(UNITS)}")
    if n_units < least:
        raise InvalidParameter("n_units", n_units, f"be an integer >= {least}")


def check_box(box: Sequence[float]) -> tuple[float, ...]:
    """The half-widths as floats, or a complaint."""
    if len(box) not in _GRIDS:
        raise InvalidParameter("box", box, "have one or two half-widths")
    if not all(math.isfinite(half) and half > 0 for half in box):
        raise InvalidParameter("radius", box, "be finite numbers > 0")
    return tuple(float(half) for half in box)


# -- parts -----------------------------------------------------------------------------------------


def _units(points: Tensor, a: Tensor, activation: str) -> Tensor:
    return UNITS[activation](points @ a[:, :-1].T + a[:, -1])


def _odd_units(points: Tensor, a: Tensor, activation: str) -> Tensor:
    """One column per pair. The rest of the argument is shared, so that a pair cancels at 0."""
    rest = points[:, 1:] @ a[:, 1:-1].T + a[:, -1]
    first = points[:, :1] * a[:, 0]
    return UNITS[activation](rest + first) - UNITS[activation](rest - first)


def _mirror(a: Tensor) -> Tensor:
    return torch.cat([-a[:, :1], a[:, 1:]], 1)


def fit_error(fit: FeatureFit, u: float) -> float:
    """The error a fit promises, in arithmetic that rounds by u.

    In single precision its weights and the arguments of its units round too, times weights c that are large.
    """
    if u <= 2.0**-53:
        return fit.certificate.sup_error
    reach = fit.a.new_tensor([*fit.box, 1.0])
    argument = fit.a.abs() @ reach
    return fit.certificate.sup_error + u * float(fit.c.abs() @ (8 + 4 * argument))
