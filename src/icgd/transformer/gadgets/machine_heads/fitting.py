"""Values of the tokens for which a head is a given function, and a proof of how well.

The fit is least squares with steps of refinement on an exactly computed residual: what is left is the rounding
of the values themselves. The proof: the error e(s) = head(s) - f(s) is analytic, and on an ellipse around
[-R, R] with semi-axes R (r +- 1/r) / 2 it is at most M. So it is within 2 M r^-d / (r - 1) of a polynomial of
degree d, which between 4 d Chebyshev points exceeds its values there by at most 1 / cos(pi / 8). The values at
these points are computed exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.transformer.gadgets.heads.spectral_theory import GridGeometry, make_geometry
from icgd.transformer.gadgets.machine_heads.families import Family, exactly
from icgd.transformer.gadgets.machine_heads.grid_sums import GridSums

LARGEST_VALUE = 64.0
"""Larger token values would cost more digits by cancellation than a wider grid costs tokens."""
STEPS = 6
CUTOFF = {torch.float64: 1e-16, torch.float32: 5e-10}
"""Smallest singular value kept, relative to the largest: the kernel damps fast oscillations of the values."""
SMALL = {torch.float64: 1e-20, torch.float32: 1e-12}
"""What may remain between the samples of a proof."""


@dataclass(frozen=True)
class Fit:
    """A head that computes a family's function in exact arithmetic.

    error      sup |head - f| for |s| <= radius
    relative   sup |head - f| / |f|; infinite if f has a zero and is not odd
    """

    family: Family
    sums: GridSums
    dtype: torch.dtype
    error: float
    relative: float

    @property
    def largest_value(self) -> float:
        """Of the values of the tokens."""
        return float(self.values().abs().max())

    def values(self) -> Tensor:
        """c, in the order of the geometry's levels: +- pairs from the inside out."""
        odd = torch.tensor(self.sums.odd, dtype=torch.float64)
        even = torch.tensor(self.sums.even, dtype=torch.float64) if self.sums.even else 0 * odd
        return torch.stack([even + odd, even - odd], dim=-1).reshape(-1)


Values = tuple[tuple[float, ...], tuple[float, ...]]
"""Even and odd values of the tokens of a fitted head."""


def fit(
    family: Family,
    grid: tuple[int, float, float],
    dtype: torch.dtype,
    values: Values | None = None,
) -> Fit:
    """Fit the family's function to a head with (tokens, rho, margin).

    values  of an earlier fit, kept: linear algebra rounds otherwise on another machine. They are proved anew
    """
    n_grid, rho, margin = grid
    with exactly():
        geometry = make_geometry(n_grid, rho, margin, family.radius, "spectral")
        return _fitted(family, geometry, dtype, values)


def _fitted(
    family: Family, geometry: GridGeometry, dtype: torch.dtype, values: Values | None
) -> Fit:
    if family.levels_are_values:
        sums = GridSums(geometry, (), tuple(geometry.levels()[0::2]))
    else:
        sums = (
            _refined(family, geometry, dtype)
            if values is None
            else _restored(family, geometry, values)
        )
        largest = max(map(abs, (*sums.even, *sums.odd)))
        if not largest <= LARGEST_VALUE:
            raise AssumptionViolated(
                f"The head of {family.name} with {geometry.n_grid} tokens would need values up to "
                f"{largest:.3g}; at most {LARGEST_VALUE:g} keep their digits. Give it more tokens."
            )
    return Fit(family, sums, dtype, *_proof(family, sums, dtype))


def _restored(family: Family, geometry: GridGeometry, values: Values) -> GridSums:
    even, odd = values
    n = geometry.n_grid // 2
    if (len(even), len(odd)) != (0 if family.odd else n, n):
        raise InvalidParameter(
            f"values of {family.name}",
            (len(even), len(odd)),
            f"be as many as the head has tokens: {(0 if family.odd else n, n)}",
        )
    return GridSums(geometry, even, odd)


def _refined(family: Family, geometry: GridGeometry, dtype: torch.dtype) -> GridSums:
    n, radius = geometry.n_grid // 2, family.radius
    angle = (torch.arange(6 * n, dtype=torch.float64) + 0.5) * math.pi / (6 * n)
    s = radius * torch.cos(angle)
    s = s[s > 0] if family.odd else s
    wanted = [family.exact(Decimal(value)) for value in s.tolist()]
    size = torch.tensor([abs(float(value)) for value in wanted], dtype=torch.float64)
    weight = 1 / size if family.relative else torch.ones_like(s)
    x = torch.outer(s, 2 * torch.arange(n, dtype=torch.float64) + 1)
    blank = GridSums(geometry, (), (0.0,) * n)
    x = x * float(blank.base)
    mass = torch.tensor([float(m) for m in blank.masses], dtype=torch.float64)
    cosh, sinh = mass * torch.cosh(x), mass * torch.sinh(x)
    columns = sinh if family.odd else torch.cat([cosh + sinh, cosh - sinh], dim=1) / 2
    system = columns / cosh.sum(1, keepdim=True) * weight.unsqueeze(-1)
    U, S, Vh = torch.linalg.svd(system, full_matrices=False)
    keep = S / S[0] > CUTOFF[dtype]
    pseudo_inverse = (Vh.T * torch.where(keep, 1 / S, 0.0)) @ U.T
    values, best, smallest = torch.zeros(columns.shape[1], dtype=torch.float64), blank, math.inf
    for _ in range(STEPS):
        sums = _as_sums(geometry, values.to(dtype).double(), odd=family.odd)
        residual = [f - sums(Decimal(point)) for f, point in zip(wanted, s.tolist(), strict=True)]
        step = torch.tensor([float(r) for r in residual], dtype=torch.float64) * weight
        if float(step.abs().max()) < smallest:
            best, smallest = sums, float(step.abs().max())
        values = values + pseudo_inverse @ step
    return best


def _as_sums(geometry: GridGeometry, values: Tensor, *, odd: bool) -> GridSums:
    if odd:
        return GridSums(geometry, (), tuple(values.tolist()))
    right, left = values.chunk(2)
    return GridSums(
        geometry, tuple(((right + left) / 2).tolist()), tuple(((right - left) / 2).tolist())
    )


@dataclass(frozen=True)
class _Ellipse:
    """r of the ellipse, and bounds on |head - f| there and on what divides it."""

    ratio: float
    largest: float
    relative: float

    def degree(self, small: float) -> int:
        """Of a polynomial that close to both errors."""
        size = max(self.largest, self.relative)
        return math.ceil(math.log(2 * size / (self.ratio - 1) / small) / math.log(self.ratio)) + 1


def _proof(family: Family, sums: GridSums, dtype: torch.dtype) -> tuple[float, float]:
    """Bounds on the absolute and the relative error over the whole interval."""
    small = SMALL[dtype]
    candidates = [_ellipse(family, sums, half / 2) for half in range(1, 13)]
    usable = [e for e in candidates if e is not None]
    if not usable:
        raise AssumptionViolated(
            f"The head of {family.name} cannot be certified: its function is singular too close to its "
            "range. Give it more tokens."
        )
    degree = min(e.degree(small) for e in usable)
    n_points = 4 * degree
    absolute = relative = Decimal(0)
    for i in range(n_points // 2 if family.odd else n_points):
        s = Decimal(family.radius * math.cos((i + 0.5) * math.pi / n_points))
        f = family.exact(s)
        error = abs(sums(s) - f)
        absolute = max(absolute, error)
        if family.relative:
            relative = max(relative, error / abs(s if family.odd else f))
    # The points are rounded: they lie within 1e-16 of Chebyshev points, which 1.01 covers.
    rise = 1.01 / math.cos(math.pi / 8)
    sup = (float(absolute) + small) * rise + small
    if not family.relative:
        return sup, math.inf
    slope = (float(relative) + small) * rise + small
    if not family.odd:
        return sup, slope
    # |e| <= min(slope |s|, sup), and s / f(s) and 1 / f(s) are monotone: largest where both are equal.
    s = Decimal(min(sup / slope, family.radius))
    return sup, float(Decimal(slope) * s / family.exact(s)) * 1.001


def _ellipse(family: Family, sums: GridSums, width: float) -> _Ellipse | None:
    """The ellipse of height `width` sigma, if nothing is singular in it.

    At s + i a sigma the weights turn by exp(i a t). By Poisson summation their sum is at least
    exp(-a^2/2) (1 - 2 sum q^(n^2) exp(2 pi rho n a)) less the missing tails, relative to the Gaussian's.
    """
    g = sums.geometry
    height = width * g.sigma
    ratio = height / g.radius + math.hypot(1, height / g.radius)
    reach = g.radius * (ratio + 1 / ratio) / 2
    margin = (g.half_width - reach) / g.sigma
    powers = range(1, 8)
    q = [-2 * (math.pi * g.rho * n) ** 2 for n in powers]
    alias = 2 * sum(
        math.exp(min(e + 2 * math.pi * g.rho * n * width, 50))
        for n, e in zip(powers, q, strict=True)
    )
    least = math.exp(-(width**2) / 2) * (1 - alias) - math.erfc(margin / math.sqrt(2))
    if alias >= 1 or margin <= 0 or least <= 0:
        return None
    largest_value = max(map(abs, sums.odd)) + max(map(abs, sums.even), default=0.0)
    head = largest_value * (1 + 2 * sum(math.exp(e) for e in q)) / least
    largest = head + family.largest(reach, height)
    if family.odd:
        relative = largest / min(height, g.radius)
    else:
        smallest = family.least(reach, height) if family.least else 1.0
        relative = largest / smallest if smallest > 0 and family.least else 0.0
        if family.least and not (0 < smallest < math.inf):
            return None
    if not math.isfinite(largest):
        return None
    return _Ellipse(ratio, largest, relative)
