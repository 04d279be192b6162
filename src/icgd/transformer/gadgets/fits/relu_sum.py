"""Sums of ReLUs: a function of one number as a piecewise linear one, with a certificate.

f(t) ~ sum_h c_h relu(a_h . [t; 1]) with |a_h|_1 <= 1: one unit holds the value at the left end, the others
bend at the knots t_m,
    a_0 = (0, 1), c_0 = f(-R);   a_m = (1, -t_m) / (1 + |t_m|), c_m = (slope_m - slope_{m-1}) (1 + |t_m|).
Interpolating at the knots errs by h^2/8 |f''|, always to the same side; moving the knots' values by half
the defect in the middle halves that. Adaptive knots stand denser where f bends, by sqrt |f''|.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.transformer.certificate import Certificate

Knots = Literal["uniform", "adaptive"]
SAMPLES = 16
"""Points per segment, on average, at which the error is looked at."""
IN_CACHE = 2**17
"""Numbers of a temporary that stays in the cache; more would also grow with the square of the units."""


@dataclass(frozen=True)
class ReluSum:
    """sum_h c_h relu(a_h . [t; 1]).

    Statement: [DEEP] Definition 4

    a  (H, 2), rows of l1 norm <= 1     c  (H,)     C = sum |c_h|

    Differs from the paper: no; H grows like error^{-1/2}, where the cited theorem promises error^{-2}.
    """

    a: Tensor
    c: Tensor
    certificate: Certificate

    @property
    def n_relu(self) -> int:
        """The number H of units."""
        return self.c.numel()

    @property
    def C(self) -> float:  # noqa: N802
        """sum |c_h|."""
        return float(self.c.abs().sum())

    def __call__(self, t: Tensor) -> Tensor:
        """Evaluate, entry by entry."""
        return _evaluate(self.a.to(t), self.c.to(t), t)


def fit_relu_sum(
    f: Callable[[Tensor], Tensor],
    radius: float,
    n_segments: int,
    *,
    second: float,
    third: float,
    knots: Knots = "uniform",
    name: str = "f",
) -> ReluSum:
    """Fit a smooth f on [-radius, radius] by n_segments + 1 units.

    Statement: [DEEP] Lemma 2

    second, third  bounds on |f''| and |f'''| over the range

    Differs from the paper: knots and coefficients are written down, not shown to exist.

    >>> fit = fit_relu_sum(torch.tanh, 4.0, 64, second=0.77, third=2.0)
    >>> t = torch.linspace(-4, 4, 501, dtype=torch.float64)
    >>> float((fit(t) - torch.tanh(t)).abs().max()) <= fit.certificate.sup_error < 1e-3
    True
    """
    if n_segments < 1:
        raise InvalidParameter("n_relu", n_segments, "be an integer >= 1")
    if not (math.isfinite(radius) and radius > 0):
        raise InvalidParameter("radius", radius, "be a finite number > 0")
    t = _uniform(radius, n_segments)
    if knots == "adaptive":
        t = _adaptive(f, radius, n_segments)
    elif knots != "uniform":
        raise InvalidParameter("knots", knots, "be 'uniform' or 'adaptive'")
    values = _balanced(f, t)
    return from_knots(t, values, f, second=second, third=third, name=name)


def _as_sum(a: list[list[float]], c: list[float], certificate: Certificate) -> ReluSum:
    return ReluSum(
        torch.tensor(a, dtype=torch.float64), torch.tensor(c, dtype=torch.float64), certificate
    )


def identity_sum(radius: float = math.inf) -> ReluSum:
    """t = relu(t) - relu(-t), without any rounding."""
    certificate = Certificate("relu_sum[identity]", radius, 0.0, 1.0, 1.0)
    return _as_sum([[1.0, 0.0], [-1.0, 0.0]], [1.0, -1.0], certificate)


def relu_itself(radius: float = math.inf) -> ReluSum:
    """relu(t): one unit."""
    return _as_sum([[1.0, 0.0]], [1.0], Certificate("relu_sum[relu]", radius, 0.0, 1.0, 1.0))


def constant_one(radius: float = math.inf) -> ReluSum:
    """1 = relu(1)."""
    return _as_sum([[0.0, 1.0]], [1.0], Certificate("relu_sum[one]", radius, 0.0, 0.0, 1.0))


def step_ramp(width: float, radius: float) -> ReluSum:
    """1 for t >= width, 0 for t <= 0, a ramp between: (relu(t) - relu(t - width)) / width.

    Statement: [DEEP] Lemma 3

    For a width that is a power of two and |t| <= width 2^52 no operation rounds: the difference of the
    two units is 1 to the last bit. The certificate holds outside the ramp; inside it the error is < 1.

    Differs from the paper: its Lemma needs a smooth r'; this is the one of a ReLU network.

    >>> step_ramp(2.0**-20, 1024.0)(torch.tensor([-0.3, 0.0, 0.7, 123.4], dtype=torch.float64)).tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    if math.frexp(width)[0] != 0.5:
        raise InvalidParameter("width", width, "be a power of two", remedy="For example 2**-20.")
    certificate = Certificate("relu_sum[step]", radius, 0.0, 1 / width, 2 / width)
    return _as_sum([[0.5, 0.0], [0.5, -width / 2]], [2 / width, -2 / width], certificate)


def from_knots(
    t: Tensor,
    values: Tensor,
    f: Callable[[Tensor], Tensor],
    *,
    second: float,
    third: float,
    name: str = "f",
) -> ReluSum:
    """The sum of ReLUs through (t_m, values_m), certified against f."""
    slopes = (values[1:] - values[:-1]) / (t[1:] - t[:-1])
    bends = torch.cat([slopes[:1], slopes[1:] - slopes[:-1]])
    size = 1 + t[:-1].abs()
    a = torch.cat([t.new_tensor([[0.0, 1.0]]), torch.stack([1 / size, -t[:-1] / size], dim=1)])
    c = torch.cat([values[:1], bends * size])
    return ReluSum(a, c, _certify(a, c, t, f, second, third, name))


def _uniform(radius: float, n: int) -> Tensor:
    return torch.linspace(-radius, radius, n + 1, dtype=torch.float64)


def _adaptive(f: Callable[[Tensor], Tensor], radius: float, n: int) -> Tensor:
    """Knots with equal integrals of sqrt |f''| between them, a floor keeping the flat parts covered."""
    grid = torch.linspace(-radius, radius, 20_001, dtype=torch.float64)
    density = _bend(f, grid).abs().sqrt()
    density = density + 0.05 * density.mean() + 1e-12
    mass = torch.cumulative_trapezoid(density, grid)
    mass = torch.cat([mass.new_zeros(1), mass]) / mass[-1]
    wanted = torch.linspace(0, 1, n + 1, dtype=torch.float64)
    right = torch.searchsorted(mass, wanted).clamp(1, len(mass) - 1)
    share = (wanted - mass[right - 1]) / (mass[right] - mass[right - 1])
    t = grid[right - 1] + share * (grid[right] - grid[right - 1])
    t[0], t[-1] = -radius, radius
    return t


def _balanced(f: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
    """Values at the knots, moved by half the defect in the middle of the segments beside them."""
    values, middle = f(t), f((t[1:] + t[:-1]) / 2)
    defect = middle - (values[1:] + values[:-1]) / 2
    beside = torch.cat([defect[:1], (defect[1:] + defect[:-1]) / 2, defect[-1:]])
    return values + beside / 2


def _bend(f: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The second derivative by automatic differentiation, entry by entry."""
    point = at.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        value = f(point)
        for _ in range(2):
            if not value.requires_grad:  # a polynomial of lower degree
                return torch.zeros_like(at)
            (value,) = torch.autograd.grad(value.sum(), point, create_graph=True)
    bend = value.detach()
    if not bool(bend.isfinite().all()):
        where = float(at[int((~bend.isfinite()).to(torch.int8).argmax())])
        raise AssumptionViolated(
            "A sum of ReLUs cannot be certified for a function whose second derivative is not finite, here "
            f"at s = {where:.3g}. Smooth the loss or link there: its slope needs two finite derivatives."
        )
    return bend


def _certify(
    a: Tensor,
    c: Tensor,
    t: Tensor,
    f: Callable[[Tensor], Tensor],
    second: float,
    third: float,
    name: str,
) -> Certificate:
    """Sample densely, knots included; between samples d apart the error is d^2/8 sup|f''| at most above.

    sup|f''| there is its size at the samples plus d/2 times the bound on the third derivative.
    """
    radius = float(t[-1])
    fine = torch.linspace(-radius, radius, SAMPLES * len(t) + 1, dtype=torch.float64)
    points = torch.cat([fine, t]).unique()
    some = max(1, IN_CACHE // len(c))
    fitted = torch.empty_like(points)
    for part, into in zip(points.split(some), fitted.split(some), strict=True):
        into.copy_(_evaluate(a, c, part))  # results kept one by one would scatter over the heap
    miss, bend = (fitted - f(points)).abs(), _bend(f, points).abs()
    gap = points[1:] - points[:-1]
    steepest = (torch.maximum(bend[1:], bend[:-1]) + gap / 2 * third).clamp(max=second)
    between = torch.maximum(miss[1:], miss[:-1]) + gap.square() / 8 * steepest
    # Every term is at most |c| (radius + 1); sums of H terms, once here and once wherever it is used.
    rounding = 2 * (len(c) + 6) * 2.0**-53 * float(c.abs().max()) * (radius + 1)
    slope = float((c * a[:, 0]).cumsum(0).abs().max())
    return Certificate(
        f"relu_sum[{name}]",
        radius,
        float(between.max()) + rounding,
        slope,
        float(c.abs().max()),
        rigorous=math.isfinite(second),
    )


def _evaluate(a: Tensor, c: Tensor, t: Tensor) -> Tensor:
    return torch.relu(t.unsqueeze(-1) * a[:, 0] + a[:, 1]) @ c
