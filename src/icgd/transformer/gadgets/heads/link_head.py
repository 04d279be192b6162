"""The head that turns a linear predictor into the slope of a loss, as a table of grid tokens.

A head with scores a_k s + c_k over its tokens and values v_k computes f(s) = sum_k w_k v_k. Which
table serves depends on the function:
    identity        a_k = 2 beta L_k, c_k = -beta L_k^2, v_k = L_k       the spectral head
    any smooth f    the same scores, v fitted (transformer/gadgets/heads/spectral_head.py)
    sigmoid         two tokens, scores (s, 0), values (1, 0)             no grid, no range, no fit
    exp             two tokens, scores (s, M), values (e^M, 0)           relative error e^{s - M}
    f(s, y)         a product grid, scores a_k s + c_k + a'_m y + c'_m, values V_km fitted
The last three are softmax at its most ordinary: the first two are what a softmax is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.problems.entrywise import check_entrywise
from icgd.problems.losses import LOSSES, Loss
from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.fits.smooth_functions import SMOOTH_FUNCTIONS, SmoothFunction
from icgd.transformer.gadgets.heads.spectral_head import (
    FunctionHead,
    SpectralHead,
    head_certificate,
)
from icgd.transformer.gadgets.heads.spectral_theory import Temperature, make_geometry


@dataclass(frozen=True)
class GridOptions:
    """How grid heads are built."""

    n_grid: int
    rho: float
    margin: float
    radius: float
    temperature: Temperature
    dtype: torch.dtype

    def as_dict(self) -> dict[str, object]:
        """Arguments of a spectral head."""
        return {
            "n_grid": self.n_grid,
            "rho": self.rho,
            "margin": self.margin,
            "temperature": self.temperature,
            "dtype": self.dtype,
        }


@dataclass(frozen=True)
class HeadTable:
    """Tokens of a head: how much each weighs a query s (and y), and what it holds.

    rates   per number that is read, the rates a_k by which a token's score follows it
    offset  c_k
    values  v_k
    radius  the head is certified for |s| <= radius (infinite for a native head)
    """

    rates: tuple[Tensor, ...]
    offset: Tensor
    values: Tensor
    radius: float
    certificate: Certificate
    relative: bool = False
    """Whether the certificate's error is relative to f(s)."""

    @property
    def n_tokens(self) -> int:
        """How many tokens a head attends over."""
        return self.offset.numel()


def identity_table(options: GridOptions) -> HeadTable:
    """s -> s.

    Statement: [COT] Lemma A.5

    Differs from the paper: finite temperature; see SpectralHead.
    """
    g = make_geometry(
        options.n_grid, options.rho, options.margin, options.radius, options.temperature
    )
    level = torch.tensor(g.levels(), dtype=torch.float64)
    certificate = head_certificate(g, options.dtype)
    return HeadTable(
        (2 * g.beta * level,), -g.beta * level * level, level, options.radius, certificate
    )


def function_table(f: SmoothFunction, options: GridOptions) -> HeadTable:
    """s -> f(s) by fitted values, or by f(L_k) in hard mode.

    Statement: [COT] Lemma 3.1

    Differs from the paper: one head for f, where the lemma sums many.
    """
    head = FunctionHead(f, options.radius, **options.as_dict())  # type: ignore[arg-type]
    table = head.table.double()
    return HeadTable(
        (table[:, 0],), table[:, 1], head.values.double(), options.radius, head.certificate()
    )


def sigmoid_table(dtype: torch.dtype) -> HeadTable:
    """s -> sigmoid(s) exactly: the softmax over a token with score s and one with score 0.

    The only error is rounding: of s in the exponent, |s| sigmoid' u <= u/3, of exp, sum and quotient.
    """
    u = torch.finfo(dtype).eps / 2
    rate, flat = torch.tensor([1.0, 0.0], dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    certificate = Certificate("native_head[sigmoid]", math.inf, 8 * u, 0.25, 1.0, 2)
    return HeadTable((rate,), flat, rate.clone(), math.inf, certificate)


def exp_table(radius: float, dtype: torch.dtype) -> HeadTable:
    """s -> exp(s) for s <= radius: scores (s, M), values (e^M, 0) give e^s / (1 + e^{s - M}).

    M is chosen so that e^{radius - M} is below one rounding; what remains is a relative error of about
    (|s| + M) u, from rounding the scores.
    """
    u = torch.finfo(dtype).eps / 2
    # e^M must not overflow, and e^{-radius - M} not underflow.
    most = (-math.log(torch.finfo(dtype).tiny) + math.log(u)) / 2 - 1
    if radius > most:
        raise AssumptionViolated(
            f"`radius` of the exponential head must be <= {most:.3g} in {dtype}, or its weights underflow. "
            f"Got {radius:g}. Standardise the data."
        )
    top = radius - math.log(u)
    top = math.floor(top) + 1.0  # exactly representable, so that e^M is rounded once
    two = torch.tensor([1.0, 0.0], dtype=torch.float64)
    certificate = Certificate(
        "native_head[exp]",
        radius,
        math.exp(radius - top) + u * (2 * (radius + top) + 12),
        math.exp(radius),
        math.exp(top),
        2,
    )
    return HeadTable(
        (two,),
        torch.tensor([0.0, top], dtype=torch.float64),
        torch.tensor([math.exp(top), 0.0], dtype=torch.float64),
        radius,
        certificate,
        relative=True,
    )


def joint_table(
    f: Callable[[Tensor, Tensor], Tensor], options: GridOptions, y_radius: float
) -> HeadTable:
    """(s, y) -> f(s, y): a product grid, one softmax over p^2 tokens whose weights factorise.

    Statement: [COT] Lemma 3.1

    The values V solve A V B^T = f on Chebyshev nodes, A and B the weights at the nodes; the singular
    values of V count the separable terms a_r(s) b_r(y) it stands for. The certificate is the error
    measured on a fine mesh between the nodes, doubled: an estimate, and marked so.

    Differs from the paper: one head per sample with p^2 tokens for any smooth loss.
    """
    arguments = options.as_dict()
    head_s = SpectralHead(options.radius, **arguments)  # type: ignore[arg-type]
    head_y = SpectralHead(y_radius, **arguments)  # type: ignore[arg-type]
    p = options.n_grid
    if options.temperature == "hard":
        L, M = head_s.levels.double(), head_y.levels.double()
        values = f(L.unsqueeze(1).expand(p, p), M.expand(p, p))
    else:
        s, y = _nodes(options.radius, 4 * p), _nodes(y_radius, 4 * p)
        target = f(s.unsqueeze(1).expand(-1, len(y)), y.expand(len(s), -1))
        left = _solve(_weights(head_s, s), target)
        values = _solve(_weights(head_y, y), left.T).T
    values = values.to(options.dtype).double()
    error, rounding = _mesh_error(f, head_s, head_y, values)
    certificate = Certificate(
        "joint_head",
        options.radius,
        2 * error + rounding,
        math.inf,
        float(values.abs().max()),
        p * p,
        rigorous=False,
    )
    ts, ty = head_s.table.double(), head_y.table.double()
    return HeadTable(
        (ts[:, 0].repeat_interleave(p), ty[:, 0].repeat(p)),
        ts[:, 1].repeat_interleave(p) + ty[:, 1].repeat(p),
        values.reshape(-1),
        options.radius,
        certificate,
    )


def _nodes(radius: float, n: int) -> Tensor:
    angle = torch.linspace(0, math.pi, n, dtype=torch.float64)
    even = torch.linspace(-radius, radius, n, dtype=torch.float64)
    return torch.cat([radius * torch.cos(angle), even])


def _weights(head: SpectralHead, s: Tensor) -> Tensor:
    level = head.levels.double()
    return torch.softmax(-head.geometry.beta * (s.unsqueeze(-1) - level) ** 2, dim=-1)


def _solve(system: Tensor, target: Tensor) -> Tensor:
    return torch.linalg.lstsq(system, target, rcond=1e-13, driver="gelsd").solution


def _mesh_error(
    f: Callable[[Tensor, Tensor], Tensor],
    head_s: SpectralHead,
    head_y: SpectralHead,
    values: Tensor,
    n: int = 701,
) -> tuple[float, float]:
    """(largest error of the fit, bound on rounding) on an n x n mesh.

    Rounding a score of size t costs its weight a relative 4 t u, so a token counts for what it weighs.
    """
    mesh, weights, rounded = [], [], []
    for head in (head_s, head_y):
        g = head.geometry
        s = torch.linspace(-g.radius, g.radius, n, dtype=torch.float64)
        level = head.levels.double().abs()
        a = s.abs().unsqueeze(-1)
        w = _weights(head, s)
        mesh.append(s)
        weights.append(w)
        rounded.append(
            w * (4 * g.beta * (2 * a * level + level**2 + a**2) + 2 * math.sqrt(len(level)) + 6)
        )
    exact = f(mesh[0].unsqueeze(1).expand(n, n), mesh[1].expand(n, n))
    error = float((weights[0] @ values @ weights[1].T - exact).abs().max())
    size = values.abs()
    lost = rounded[0] @ size @ weights[1].T + weights[0] @ size @ rounded[1].T
    return error, torch.finfo(head_s.levels.dtype).eps / 2 * float(lost.max())


def slope_table(
    loss: Loss, options: GridOptions, *, y_radius: float = 1.0, native: bool = True
) -> HeadTable:
    """The table for a loss: the simplest head that computes its slope."""
    if loss not in LOSSES.values():
        check_entrywise(loss, options.radius, y_radius)
    if loss.form == "joint":
        return joint_table(loss.slope, options, y_radius)
    if loss.name == "squared":
        return identity_table(options)
    if native and options.temperature == "spectral":
        if loss.name == "logistic":
            return sigmoid_table(options.dtype)
        if loss.name == "poisson":
            return exp_table(options.radius, options.dtype)
    return function_table(smooth_slope(loss), options)


KNOWN = {"logistic": "sigmoid", "poisson": "exp"}


def smooth_slope(loss: Loss) -> SmoothFunction:
    """A loss's slope as a function to fit."""
    if loss.name in KNOWN:
        return SMOOTH_FUNCTIONS[KNOWN[loss.name]]

    def steepest(radius: float) -> float:
        low, high = loss.bends(radius)
        return max(abs(low), abs(high))

    return SmoothFunction(loss.name, loss.slope, steepest, kinked=loss.kinked)
