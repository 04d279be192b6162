"""The spectral softmax head in its four forms, each one ordinary softmax head over the grid.

identity / dot      keys L_k w, values L_k          -> w.x
product             values L_k v                    -> s v      (exactly linear in v)
function            values c_k, fitted              -> f(s)
function-product    values c_k v                    -> f(s) v
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from icgd.base.preflight import Part, require_room
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.fits.smooth_functions import SMOOTH_FUNCTIONS, SmoothFunction
from icgd.transformer.gadgets.heads.spectral_theory import (
    GridGeometry,
    Temperature,
    gaussian_moments,
    head_error,
    inflation,
    make_geometry,
    score_roundoff,
    summing,
)
from icgd.transformer.nn.attention import attention
from icgd.transformer.nn.feedforward import frozen


def head_certificate(g: GridGeometry, dtype: torch.dtype) -> Certificate:
    """What an identity or product head (with |v| <= 1) promises on |s| <= radius."""
    u = torch.finfo(dtype).eps / 2
    return Certificate(
        name=f"spectral_head[{g.temperature}]",
        domain=g.radius,
        sup_error=head_error(g, g.radius, u),
        lipschitz=1.0,
        weight_norm=max(2 * g.beta * g.half_width, g.beta * g.half_width**2, g.half_width),
        n_tokens=g.n_grid,
    )


class SpectralHead(nn.Module):
    """A single head with its grid tokens, evaluated literally: softmax(q k) v over the grid.

    Statement: [COT] Lemma A.5

    Differs from the paper: the temperature is that of a Gaussian kernel, so a few dozen tokens give
    machine precision; "hard" is the paper's nearest-token reading.

    >>> head = SpectralHead(radius=2.0)
    >>> s = torch.tensor([1.25], dtype=torch.float64)
    >>> float((head(s) - s).abs()) <= head.certificate().sup_error
    True
    """

    def __init__(
        self,
        radius: float,
        *,
        n_grid: int = 32,
        rho: float = 1.4,
        margin: float = 8.25,
        temperature: Temperature = "spectral",
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        self.geometry = make_geometry(n_grid, rho, margin, radius, temperature)
        require_room("A spectral head", [Part("n_grid", n_grid, 140 * n_grid, 4e-7 * n_grid)])
        level = torch.tensor(self.geometry.levels(), dtype=torch.float64)
        beta = self.geometry.beta
        self.levels = frozen(level, level.shape, dtype)
        table = torch.stack([2 * beta * level, -beta * level * level], dim=-1)
        self.table = frozen(table, table.shape, dtype)

    def certificate(self, *, value_bound: float = 1.0) -> Certificate:
        """Identity form, or product form with |v| <= value_bound."""
        return head_certificate(self.geometry, self.levels.dtype).scaled(value_bound)

    def forward(self, s: Tensor) -> Tensor:
        """Identity form: s -> s."""
        return self._attend(s, self.levels.unsqueeze(-1)).squeeze(-1)

    def product(self, s: Tensor, v: Tensor) -> Tensor:
        """Product form: (s, v) -> s v, one head for a whole vector."""
        return self._attend_vector(s, self.levels, v)

    def _attend(self, s: Tensor, values: Tensor) -> Tensor:
        self._check(s)
        query = torch.stack([s, torch.ones_like(s)], dim=-1)
        return attention(query.reshape(-1, 2), self.table, values).reshape(
            *s.shape, values.shape[-1]
        )

    def _attend_vector(self, s: Tensor, weights: Tensor, v: Tensor) -> Tensor:
        self._check(s)
        query = torch.stack([s, torch.ones_like(s)], dim=-1).unsqueeze(-2)
        values = weights.unsqueeze(-1) * v.unsqueeze(-2)
        keys = self.table.expand(*v.shape[:-1], -1, -1)
        return attention(query, keys, values).squeeze(-2)

    def _check(self, s: Tensor) -> None:
        largest = float(s.detach().abs().max()) if s.numel() else 0.0
        # A radius that this precision cannot hold may round up.
        if not largest <= self.geometry.radius * (1 + torch.finfo(self.levels.dtype).eps):
            raise AssumptionViolated(
                f"spectral_head is certified on |s| <= {self.geometry.radius:g}. Got {largest:g}. "
                f"Build it with radius >= {largest:g}."
            )


@dataclass(frozen=True)
class FunctionFit:
    """Values c_k for which the softmax mean of c equals f, and how well it does."""

    values: Tensor
    certificate: Certificate


class FunctionHead(SpectralHead):
    """One softmax head that applies a smooth function: s -> f(s), or (s, v) -> f(s) v.

    Statement: [COT] Lemma 3.1

    The values are fitted so that sum_k w_k(s) c_k = f(s); c_k = f(L_k) would smooth f by the kernel
    and is used in hard mode only.

    Differs from the paper: one head for any smooth f, where Lemma 3.1 sums many ReLU-like heads.

    >>> head = FunctionHead("sigmoid", radius=4.0, n_grid=64)
    >>> s = torch.linspace(-4, 4, 101, dtype=torch.float64)
    >>> float((head(s) - torch.sigmoid(s)).abs().max()) <= head.certificate().sup_error < 1e-11
    True
    """

    def __init__(
        self,
        function: str | SmoothFunction,
        radius: float,
        *,
        n_grid: int = 128,
        rho: float = 1.4,
        margin: float = 8.25,
        temperature: Temperature = "spectral",
        dtype: torch.dtype = torch.float64,
        max_error: float | None = None,
    ) -> None:
        super().__init__(
            radius, n_grid=n_grid, rho=rho, margin=margin, temperature=temperature, dtype=dtype
        )
        if isinstance(function, str):
            if function not in SMOOTH_FUNCTIONS:
                raise InvalidParameter(
                    "function",
                    function,
                    f"be one of {sorted(SMOOTH_FUNCTIONS)} or a SmoothFunction",
                )
            function = SMOOTH_FUNCTIONS[function]
        self.function = function
        if temperature != "hard":
            solving = Part("n_grid", n_grid, 260 * n_grid**2, 2.5e-9 * n_grid**3)
            require_room("Fitting a function head", [solving])
        if temperature == "hard":
            fit = _hard_fit(self, function)
        else:
            fit = _spectral_fit(self, function)
        self.values = frozen(fit.values, fit.values.shape, dtype)
        self._certificate = fit.certificate
        if max_error is not None and fit.certificate.sup_error > max_error:
            raise AssumptionViolated(
                f"function_head({function.name}) with n_grid={n_grid} on |s| <= {radius:g} is certified to "
                f"{fit.certificate.sup_error:.2g} (largest value {float(fit.values.abs().max()):.2g}); the "
                f"wanted error is {max_error:.2g}. Raise n_grid, shrink the radius, or accept the error."
            )

    def certificate(self, *, value_bound: float = 1.0) -> Certificate:
        """Function form, or function-product with |v| <= value_bound."""
        return self._certificate.scaled(value_bound)

    def forward(self, s: Tensor) -> Tensor:
        """Function form: s -> f(s)."""
        return self._attend(s, self.values.unsqueeze(-1)).squeeze(-1)

    def product(self, s: Tensor, v: Tensor) -> Tensor:
        """Function-product form: (s, v) -> f(s) v."""
        return self._attend_vector(s, self.values, v)


def _weights_at(head: SpectralHead, s: Tensor) -> Tensor:
    """The weights to almost full precision: -beta (s - L)^2 is small wherever the weight is not."""
    level = head.levels.to(torch.float64)
    return torch.softmax(-head.geometry.beta * (s.unsqueeze(-1) - level) ** 2, dim=-1)


KINKED_RCOND = 1e-3
"""Smallest singular value kept when fitting a function with corners, relative to the largest."""


def _spectral_fit(head: SpectralHead, f: SmoothFunction) -> FunctionFit:
    radius = head.geometry.radius
    n_nodes = 8 * head.geometry.n_grid
    angle = torch.linspace(0, math.pi, n_nodes, dtype=torch.float64)
    nodes = torch.cat(
        [radius * torch.cos(angle), torch.linspace(-radius, radius, n_nodes, dtype=torch.float64)]
    )
    system = _weights_at(head, nodes)
    # The kernel damps fast oscillations of c, so the system is ill-conditioned on purpose: the
    # truncated solution is the one with small values. A corner is not worth large ones.
    rcond = KINKED_RCOND if f.kinked else 1e-14
    solved = torch.linalg.lstsq(system, f.apply(nodes).unsqueeze(-1), rcond=rcond, driver="gelsd")
    values = solved.solution.squeeze(-1).to(head.levels.dtype).to(torch.float64)
    return FunctionFit(values, _fit_certificate(head, f, values))


@dataclass(frozen=True)
class _Window:
    """The tokens near a query. All others together weigh less than 1e-27 and are bounded, not added up.

    levels, values  of all tokens, in ascending order of the levels
    n_tokens        tokens of a window
    reach           how far from a query a window extends at least, on both sides
    """

    levels: Tensor
    values: Tensor
    beta: float
    n_tokens: int
    reach: float

    EXPONENT: ClassVar[float] = 70.0
    """A token outside weighs at most exp(-EXPONENT) times the nearest one."""
    NUMBERS: ClassVar[int] = 2**17
    """Numbers of a temporary that stays in the cache."""

    @classmethod
    def of(cls, head: SpectralHead, values: Tensor) -> _Window:
        """Windows of a head; the nearest token is at most half a spacing away."""
        g = head.geometry
        levels, order = head.levels.to(torch.float64).sort()
        reach = math.sqrt((cls.EXPONENT + 2) / g.beta + (g.spacing / 2) ** 2)
        n_tokens = min(g.n_grid, math.ceil(2 * reach / g.spacing) + 2)
        return cls(levels, values[order], g.beta, n_tokens, reach)

    @property
    def nodes_at_a_time(self) -> int:
        """Queries whose windows are looked at together."""
        return max(1, self.NUMBERS // self.n_tokens)

    @property
    def share_outside(self) -> float:
        """The largest total weight of the tokens outside of a window."""
        outside = len(self.levels) - self.n_tokens
        return outside * math.exp(-self.EXPONENT)

    def at(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Levels, values and weights of the tokens around every query, (len(s), n_tokens) each."""
        first = torch.searchsorted(self.levels, s - self.reach)
        first = first.clamp(max=len(self.levels) - self.n_tokens)
        index = first.unsqueeze(-1) + torch.arange(self.n_tokens)
        level = self.levels[index]
        weight = torch.softmax(-self.beta * (s.unsqueeze(-1) - level) ** 2, dim=-1)
        return level, self.values[index], weight


MOST_NODES = 400_001
"""Samples of a certificate; a function with corners needs all of them."""


def _fit_certificate(head: SpectralHead, f: SmoothFunction, values: Tensor) -> Certificate:
    """Sample the error and its slope, bound it in between by the cubic Hermite remainder.

    Between nodes h apart, |e| <= max|e_j| + h/4 max|e'_j| + h^4/384 sup|e''''|. The
    head's fourth derivative is a joint cumulant of (c, L, L, L, L) over sigma^8, bounded by moments.
    """
    g = head.geometry
    u = torch.finfo(head.levels.dtype).eps / 2
    m = gaussian_moments(g.rho, g.margin)
    largest = float(values.abs().max())
    # Cumulants are about the mean, the moments about s: by Minkowski the centres' distance adds on.
    second, fourth_moment = (
        (moment ** (1 / power) + m.mean_error) ** power
        for moment, power in ((m.second, 2), (m.fourth, 4))
    )
    cumulant = 2 * fourth_moment + 4 * (second * second * fourth_moment) ** 0.5 + 12 * second**2
    fourth = largest * cumulant / g.sigma**4
    rigorous = f.fourth_bound is not None or f.kinked
    if f.kinked:
        fourth = math.inf
    else:
        fourth += f.fourth_bound(g.radius) if f.fourth_bound else _estimate_fourth(f, g.radius)
    wanted = (
        2 * g.radius * (fourth / 384 / 1e-14) ** 0.25
    )  # infinite for a kernel too narrow to certify
    n_nodes = math.ceil(min(MOST_NODES, max(2_001, wanted)))
    s = torch.linspace(-g.radius, g.radius, n_nodes, dtype=torch.float64)
    window = _Window.of(head, values)
    worst = slope_max = rounding = 0.0
    for part in s.split(window.nodes_at_a_time):
        level, value, w = window.at(part)
        mean = (w * value).sum(-1)
        worst = max(worst, float((mean - f.apply(part)).abs().max()))
        centred = level - (w * level).sum(-1, keepdim=True)
        slope = (w * centred * value).sum(-1) / g.sigma**2
        slope_max = max(slope_max, float((slope - f.derivative(part)).abs().max()))
        a = part.abs().unsqueeze(-1)
        size = 4 * g.beta * (2 * a * level.abs() + level**2 + a**2) + 3
        deviation = w * (value - mean.unsqueeze(-1)).abs()
        literal = u * (deviation * size).sum(-1)
        # The samples themselves: scores of size t^2 / 2 in float64.
        distance = 4 * g.beta * (part.unsqueeze(-1) - level) ** 2 + 3
        sampled = 2**-53 * (deviation * distance).sum(-1)
        sums = (summing(g, u) + summing(g, 2**-53)) * 2 * (w * value.abs()).sum(-1)
        rounding = max(rounding, float((literal + sampled + sums).max()))
    far = window.share_outside * 2 * largest  # what all tokens outside the window can add
    worst, rounding = worst + far, rounding + far * (4 * g.beta * (2 * g.half_width) ** 2 + 3)
    slope_max += far * 2 * g.half_width / g.sigma**2
    step = 2 * g.radius / (n_nodes - 1)
    inflate = inflation(score_roundoff(g, u))
    if f.kinked:
        # |d/ds sum w c| = |Cov(c, L)| / sigma^2 <= largest * E|t| / sigma, about the mean.
        steepest = f.slope_bound(g.radius) + largest * (m.first + m.mean_error) / g.sigma
        between = step / 2 * steepest
    else:
        between = step / 4 * slope_max + step**4 / 384 * fourth
    error = worst + between + inflate * rounding
    return Certificate(
        f"function_head[{f.name}]",
        g.radius,
        error,
        f.slope_bound(g.radius),
        max(largest, g.beta * g.half_width**2),
        g.n_grid,
        rigorous,
    )


def _estimate_fourth(f: SmoothFunction, radius: float) -> float:
    """Twice the largest fourth derivative seen on a sample: an estimate, flagged as such."""
    s = torch.linspace(-radius, radius, 4001, dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        value = f.apply(s)
        for _ in range(4):
            if not value.requires_grad:  # a polynomial of lower degree
                return 0.0
            (value,) = torch.autograd.grad(value.sum(), s, create_graph=True)
    return 2 * float(value.detach().abs().max())


def _hard_fit(head: SpectralHead, f: SmoothFunction) -> FunctionFit:
    g = head.geometry
    values = f.apply(head.levels.to(torch.float64))
    u = torch.finfo(head.levels.dtype).eps / 2
    slope = f.slope_bound(g.half_width)
    sums = (g.n_grid + 4) * u * 2 * float(values.abs().max())
    error = slope * head_error(g, g.radius, u) + sums
    certificate = Certificate(
        f"function_head[{f.name}, hard]",
        g.radius,
        error,
        slope,
        max(float(values.abs().max()), g.beta * g.half_width**2),
        g.n_grid,
    )
    return FunctionFit(values, certificate)
