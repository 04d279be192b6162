"""P(s, t) = s r'(t) as one sum of units of (s, t, 1): the product that carries a gradient through a layer.

Three ways are tried and the one with the smallest measured error is kept:
  random units     outer weights by least squares on a grid, nothing assumed
  random pairs     the same with pairs of units, odd in s as P is
  quotients        pairs sigma(b_m(t) + k s) - sigma(b_m(t) - k s), k <= delta: central difference quotients
                   of the units b_m of a fit of r. Several k at once extrapolate (Richardson), several m fit
                   r'; the weights of all are found together.
The last wins by orders of magnitude: a product that is linear in s needs no variety in the direction of s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from icgd.problems.activations import Activation
from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.fits.feature_fit import (
    REACHES,
    SCALES,
    FeatureFit,
    certified,
    check_box,
    check_units,
    fit_identity,
    outer_weights,
    random_fit,
    refuse_corner,
    settled,
)
from icgd.transformer.gadgets.fits.inner_weights import even_units, ladder, own_units
from icgd.transformer.gadgets.fits.sample_points import uniform

SHARPNESS = 2.0**26
"""C of s 1[t > 0] = relu(C t + s - B) - relu(C t - B); rounding grows with it, the blind interval shrinks."""
_GLANCE = {"tanh": (17, 61), "sigmoid": (17, 61), "relu": (27, 331)}
"""Points on which candidates are compared, those with s > 0."""
_LARGE = 2.0**-45
"""Times sum |c_m|, added to a candidate's error: of two alike, the one with smaller weights."""

Product = Callable[[Tensor], Tensor]


@lru_cache(maxsize=256)
def fit_slope_product(
    activation: Activation, s_radius: float, z_radius: float, n_units: int, attention: str = "relu"
) -> FeatureFit:
    """s r'(t) on |s| <= s_radius, |t| <= z_radius by at most n_units units of (s, t, 1).

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: M_3 is far below error^-2, the error is in sup norm, P(0, t) = 0. A ReLU
    network's r' jumps: two units, an interval of t left out.

    >>> from icgd.problems.activations import ACTIVATIONS
    >>> fit = fit_slope_product(ACTIVATIONS["softplus"], 1.6, 4.0, 100, "tanh")
    >>> fit.n_units, fit.odd, fit.certificate.sup_error < 1e-6
    (100, True, True)
    """
    check_units(n_units, attention, least=2)
    box = check_box((s_radius, z_radius))
    refuse_corner(activation, attention)
    if not activation.smooth:
        return _step(box)
    if activation.name == "linear":
        return _alone(fit_identity(s_radius, n_units, attention), box)

    def product(point: Tensor) -> Tensor:
        return point[..., 0] * activation.derivative(point[..., 1])

    own = own_units(activation.name, attention)
    if own is not None:
        moving = own[0][own[0][:, 0] != 0]  # a constant has no slope
        stencils = [
            (
                f"own unit, {n} quotients up to {reach:g}",
                _stencil(moving, ladder(n, reach / s_radius)),
            )
            for n in range(1, min(n_units // 2, 8) + 1)
            for reach in REACHES
        ]
        return settled(product, _best(product, box, stencils, attention, f"s {activation.name}'"))
    ways = slope_product_ways(activation, product, box, n_units, attention)
    return settled(product, min(ways, key=lambda fit: fit.certificate.sup_error))


def slope_product_ways(
    activation: Activation, product: Product, box: tuple[float, ...], n_units: int, attention: str
) -> tuple[FeatureFit, FeatureFit, FeatureFit]:
    """Random units, random pairs, and the best difference quotients, with their errors on a grid."""
    name = f"s {activation.name}'"
    plain = random_fit(product, box, n_units, attention, name=name)
    pairs = random_fit(product, box, n_units, attention, odd=True, name=name)
    candidates = _quotients(activation, box, n_units, attention)
    quotients = _best(product, box, candidates, attention, name)
    return plain, replace(pairs, way="random pairs"), quotients


def _quotients(
    activation: Activation, box: tuple[float, ...], n_units: int, attention: str
) -> list[tuple[str, Tensor]]:
    """Candidates: how many quotients per unit, how wide, and which units they are taken of."""
    s_radius, z_radius = box
    candidates = []
    for n_quotients in (1, 2, 3, 4):
        n = n_units // (2 * n_quotients)
        # A kink is as sharp at every distance: with ReLUs there is nothing to extrapolate.
        if n < 1 or (attention == "relu" and n_quotients > 2):
            continue
        for reach in (0.0625, 0.125, 0.25, 0.5, 1.0)[: 5 if attention == "relu" else 3]:
            if attention == "relu":
                knots = uniform(z_radius + min(reach * s_radius, z_radius / 4), n)
                units, label = torch.stack([torch.ones_like(knots), -knots], 1), f"{n} even knots"
                widths = ladder(n_quotients, reach)
            else:
                units, label = _units_for_slope(activation, z_radius, n, attention)
                widths = ladder(n_quotients, reach / s_radius)
            way = f"{n_quotients} quotients of {label}, up to {reach:g}"
            candidates.append((way, _stencil(units, widths)))
    return candidates


@lru_cache(maxsize=64)
def _units_for_slope(
    activation: Activation, radius: float, n: int, attention: str
) -> tuple[Tensor, str]:
    """The n even units whose slopes fit r' best, found on a line."""
    tried = []
    line = uniform(radius, 401)
    exact = activation.derivative(line)
    for scale in SCALES:
        for pad in (0.0, 2.0):
            a = even_units(n, radius, scale, pad)
            bump = _slope(line.unsqueeze(1) * a[:, 0] + a[:, 1], attention) * a[:, 0]
            c = torch.linalg.lstsq(bump, exact.unsqueeze(1), driver="gelsd", rcond=1e-10).solution
            miss = float(
                (bump @ c).squeeze(1).sub(exact).abs().max() + 2**15 * _LARGE * c.abs().sum()
            )
            tried.append((miss, f"{n} even units x {scale:g}", a))
    _, label, units = min(tried, key=lambda item: item[0])
    return units, label


def _slope(z: Tensor, attention: str) -> Tensor:
    if attention == "tanh":
        return 1 / torch.cosh(z).square()
    return torch.sigmoid(z) * torch.sigmoid(-z)


def _stencil(units: Tensor, widths: Tensor) -> Tensor:
    """(k, a_1, a_2) for every unit and every width k."""
    return torch.cat([torch.cat([k.expand(len(units), 1), units], 1) for k in widths])


def _best(
    product: Product,
    box: tuple[float, ...],
    candidates: list[tuple[str, Tensor]],
    attention: str,
    name: str,
) -> FeatureFit:
    """The candidate with the smallest error at a glance, certified."""
    axes = [uniform(half, n) for half, n in zip(box, _GLANCE[attention], strict=True)]
    points = torch.cartesian_prod(axes[0][axes[0] > 0], axes[1])
    exact = product(points)
    blank = Certificate(name, 0.0, 0.0, 0.0, 0.0)

    def miss(a: Tensor) -> tuple[float, Tensor]:
        c = outer_weights(product, box, a, attention, True)
        both = torch.stack([a, a], 1).flatten(0, 1), torch.stack([c, c], 1).flatten()
        fit = FeatureFit(*both, attention, blank, box=box, odd=True)
        return float((fit(points) - exact).abs().max() + _LARGE * c.abs().sum()), c

    tried = [(*miss(a), way, a) for way, a in candidates]
    _, c, way, a = min(tried, key=lambda item: item[0])
    return certified(product, box, a, c, attention, True, name, way)


def _step(box: tuple[float, ...]) -> FeatureFit:
    """s 1[t > 0] by two ReLUs, 0 wherever t <= 0.

    With B >= |s| a power of two, relu(C t + s - B) - relu(C t - B) is 0 for t <= 0 (units that are off give
    t = 0 exactly) and s for t >= (B + |s|) / C. Between, it is anything between.
    """
    bar = 2.0 ** torch.tensor(box[0]).log2().ceil().item()
    size = 2.0 * max(SHARPNESS, bar, 1.0)
    # Scaled by a power of two, which costs no rounding: |a|_1 <= 1 if B <= C/2.
    rows = (
        torch.tensor([[1.0, SHARPNESS, -bar], [0.0, SHARPNESS, -bar]], dtype=torch.float64) / size
    )
    c = torch.tensor([size, -size], dtype=torch.float64)
    rounding = 8 * 2.0**-53 * (SHARPNESS * box[1] + box[0] + bar)
    promise = Certificate("feature_fit[s relu']", min(box), rounding, 1.0, size, rigorous=True)
    blind = (0.0, (bar + box[0]) / SHARPNESS)
    return FeatureFit(rows, c, "relu", promise, box=box, blind=blind, way="two ReLUs")


def _alone(fit: FeatureFit, box: tuple[float, ...]) -> FeatureFit:
    """A fit of s as one of (s, t) that ignores t."""
    a = torch.stack([fit.a[:, 0], torch.zeros_like(fit.c), fit.a[:, 1]], 1)
    return replace(fit, a=a, box=box)
