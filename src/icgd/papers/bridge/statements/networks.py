"""Networks that the depth statements of [BRIDGE] are about, with their units counted.

Balls: three layers written down (squares coordinate by coordinate, then a ramp), and trained ones.
Smooth functions: x^2 by a sawtooth folded m times, products from squares, local Taylor polynomials.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor


def in_ball(x: Tensor) -> Tensor:
    """1 where |x| <= 1."""
    return (x.norm(dim=-1) <= 1).to(x)


def draw(measure: str, n: int, d: int, seed: int) -> Tensor:
    """Samples of a distribution on R^d that makes the unit ball a matter of some doubt.

    "radial"  |x| even on [0, 2]     "gauss"  N(0, I/d), nearly all of it near the sphere
    "heavy"   Cauchy coordinates over 2d
    """
    source = torch.Generator().manual_seed(seed)
    g = torch.randn(n, d, dtype=torch.float64, generator=source)
    if measure == "gauss":
        return g / math.sqrt(d)
    if measure == "heavy":
        h = torch.randn(n, d, dtype=torch.float64, generator=source)
        return g / h / (2 * d)
    radius = 2 * torch.rand(n, 1, dtype=torch.float64, generator=source)
    return radius * g / g.norm(dim=1, keepdim=True)


@dataclass(frozen=True)
class BallNetwork:
    """relu(W_2 relu(W_1 x + b_1) + b_2) . (1, -1), a plain network of three layers."""

    W_1: Tensor
    b_1: Tensor
    W_2: Tensor
    b_2: Tensor

    @property
    def widths(self) -> tuple[int, int, int, int]:
        """(d, K_1, K_2, 1)."""
        return self.W_1.shape[1], self.W_1.shape[0], self.W_2.shape[0], 1

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate at (n, d)."""
        hidden = torch.relu(x @ self.W_1.T + self.b_1)
        first, second = torch.relu(hidden @ self.W_2.T + self.b_2).unbind(-1)
        return first - second


def ball_network(d: int, segments: int, ramp: float) -> BallNetwork:
    """The unit ball's indicator: q ~ |x|^2 within d/(4 segments^2), then 1 to 0 over |q - 1| <= ramp.

    Statement: [BRIDGE] Lemma 2

    x_i^2 is bent at even knots up to sqrt(2), to both sides, and linear beyond, where it only has to stay
    large; so no range of x is assumed. Exact off |q - 1| <= ramp + d/(4 segments^2), if this is at most 1.

    Differs from the paper: the network is written down: 2 d segments units, then 2.
    """
    h = math.sqrt(2) / segments
    eye = torch.eye(d, dtype=torch.float64)
    W_1 = torch.cat([eye, -eye]).repeat_interleave(segments, dim=0)
    b_1 = -h * torch.arange(segments, dtype=torch.float64).repeat(2 * d)
    bends = torch.full((segments,), 2 * h, dtype=torch.float64)
    bends[0] = h
    q = bends.repeat(2 * d)
    offset = d * h * h / 8  # interpolating errs to one side; half of that either way is better
    W_2 = -torch.stack([q, q]) / (2 * ramp)
    b_2 = torch.tensor([1 + ramp + offset, 1 - ramp + offset], dtype=torch.float64) / (2 * ramp)
    return BallNetwork(W_1, b_1, W_2, b_2)


def ball_network_for(delta: float, x: Tensor) -> BallNetwork:
    """A ramp so narrow that it and the error of q hold at most delta of the sample."""
    d = x.shape[1]
    distance = (x.square().sum(dim=1) - 1).abs()
    ramp = min(0.5, float(distance.quantile(0.9 * delta)) / 2)
    return ball_network(d, math.ceil(math.sqrt(d / (4 * ramp))), ramp)


def train_ball(
    widths: tuple[int, ...], x: Tensor, *, steps: int, seed: int
) -> Callable[[Tensor], Tensor]:
    """A ReLU network with biases fitted to the ball by Adam, on batches drawn from x."""
    source = torch.Generator().manual_seed(seed)
    weights = [
        math.sqrt(2 / before) * torch.randn(after, before, dtype=torch.float64, generator=source)
        for before, after in pairwise(widths)
    ]
    parameters = [*weights, *(torch.zeros(n, dtype=torch.float64) for n in widths[1:])]
    first = [torch.zeros_like(p) for p in parameters]
    second = [torch.zeros_like(p) for p in parameters]

    def network(points: Tensor) -> Tensor:
        depth, value = len(weights), points
        for layer in range(depth):
            value = torch.relu(value) if layer else value
            value = value @ parameters[layer].T + parameters[depth + layer]
        return value.squeeze(-1)

    for p in parameters:
        p.requires_grad_(True)
    # Adam by hand: torch.optim takes seconds to import.
    for step in range(1, steps + 1):
        batch = x[torch.randint(len(x), (256,), generator=source)]
        with torch.enable_grad():
            loss = (network(batch) - in_ball(batch)).square().mean()
            slopes = torch.autograd.grad(loss, parameters)
        rate = 0.005 * (1 + math.cos(math.pi * (step - 1) / steps))
        with torch.no_grad():
            for p, g, m, v in zip(parameters, slopes, first, second, strict=True):
                m.lerp_(g, 0.1)
                v.lerp_(g.square(), 0.001)
                p -= rate * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
    for p in parameters:
        p.requires_grad_(False)
    return network


# -- smooth functions ----------------------------------------------------------------------------------


def folded_square(x: Tensor, m: int) -> Tensor:
    """x^2 on [0, 1] as x - sum_s g(g(..g(x))) / 4^s, g the hat of height 1: error 4^-(m+1), 3m + 1 units.

    Statement: [BRIDGE] Lemma 3

    Differs from the paper: no; it cites the theorem that rests on this network.
    """
    tooth, total = x, torch.relu(x)
    for s in range(1, m + 1):
        tooth = 2 * torch.relu(tooth) - 4 * torch.relu(tooth - 0.5) + 2 * torch.relu(tooth - 1)
        total = total - tooth / 4**s
    return total


def folded_units(m: int) -> int:
    """Units of `folded_square`: three per fold, one that carries x."""
    return 3 * m + 1


def folded_product(x: Tensor, y: Tensor, m: int) -> Tensor:
    """x y on [-1, 1]^2 from three squares, within 4^-m, and exactly 0 where x or y is."""

    def half(z: Tensor) -> Tensor:
        return folded_square((torch.relu(z) + torch.relu(-z)) / 2, m)

    return 2 * (half(x + y) - half(x) - half(y))


def product_units(m: int) -> int:
    """Units of `folded_product`."""
    return 3 * (folded_units(m) + 2)


@dataclass(frozen=True)
class TaylorNetwork:
    """sum_k phi_k(x) (f(x_k) + f'(x_k) (x - x_k) + f''(x_k)/2 (x - x_k)^2) on [0, 1], products by folding."""

    values: tuple[Callable[[Tensor], Tensor], ...]
    cells: int
    folds: int

    @property
    def n_units(self) -> int:
        """Units: four for every phi_k, and two products."""
        return (self.cells + 1) * (4 + 2 * product_units(self.folds))

    @property
    def depth(self) -> int:
        """Layers: phi and absolute values, two products one after the other, the sum."""
        return 2 * (self.folds + 1) + 2

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate at (n,)."""
        at = torch.arange(self.cells + 1, dtype=x.dtype) / self.cells
        u = x.unsqueeze(1) - at
        t = 3 * self.cells * u
        phi = torch.relu(t + 2) - torch.relu(t + 1) - torch.relu(t - 1) + torch.relu(t - 2)
        linear = folded_product(phi, u, self.folds)
        square = folded_product(linear, u, self.folds)
        f, slope, bend = (value(at) for value in self.values)
        return (phi * f + linear * slope + square * bend / 2).sum(dim=1)


def taylor_network(values: tuple[Callable[[Tensor], Tensor], ...], eps: float) -> TaylorNetwork:
    """f with f, .., f''' below 1 on [0, 1], within eps.

    Statement: [BRIDGE] Lemma 3

    values  f, f', f''

    Half of eps is Taylor's remainder, (2/3/cells)^3/6 where phi_k lives; half is that of the products, 2 4^-m
    per cell and two cells at a time.

    Differs from the paper: d = 1, n = 3, one function; the constants are written out.
    """
    cells = math.ceil(2 / 3 * (1 / (3 * eps)) ** (1 / 3))
    folds = max(1, math.ceil(math.log(8 / eps, 4)))
    return TaylorNetwork(values, cells, folds)


def n_pieces(f: Callable[[Tensor], Tensor], n_points: int = 2**15 + 1) -> int:
    """Linear pieces of f on [0, 1] as seen on a grid: runs of equal slope."""
    x = torch.linspace(0, 1, n_points, dtype=torch.float64)
    slopes = f(x).diff() * (n_points - 1)
    turns = slopes.diff().abs() > 1e-7 * (1 + slopes.abs().max())
    # A kink between two grid points shows as one or two changes in a row: count the runs.
    starts = turns & ~torch.cat([turns.new_zeros(1), turns[:-1]])
    return int(starts.sum()) + 1
