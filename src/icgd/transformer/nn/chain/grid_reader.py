"""Reading numbers off the grid: the softmax-weighted mean of the levels, fast and to full precision.

All of these compute the same function, the mean of levels L_k under weights exp(rate_k s + rest_k),
for levels in +- pairs. They differ in what they form on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

FACTORED_LIMIT = {torch.float64: 600.0, torch.float32: 80.0}
"""Largest score for which exp(score) is formed without subtracting the maximum first."""


def read_shifted(
    s: Tensor, rate: Tensor, rest: Tensor, level: Tensor, centre: Tensor | None = None
) -> Tensor:
    """Pairwise evaluation with the maximum subtracted: safe for any temperature.

    `centre` is the score of a level at 0, which an odd number of levels has.
    """
    up = s.unsqueeze(-1) * rate
    top = (up.abs() + rest).amax(dim=-1, keepdim=True)
    if centre is not None:
        top = torch.maximum(top, centre)
    plus, minus = torch.exp(up + rest - top), torch.exp(rest - up - top)
    mass = (plus + minus).sum(dim=-1)
    if centre is not None:
        mass = mass + torch.exp(centre - top).squeeze(-1)
    return (plus - minus) @ level / mass


def table_reader(
    rate: Tensor, offset: Tensor, values: Tensor, radius: float
) -> Callable[[Tensor], Tensor]:
    """s -> sum_k softmax(rate s + offset)_k values_k, by the cheapest way that keeps every digit.

    Two tokens make a sigmoid of the difference of their scores. Values proportional to the rates, in
    +- pairs, are read over pairs. Everything else is a softmax.
    """
    if offset.numel() == 2:
        slope, shift = float(rate[0] - rate[1]), float(offset[0] - offset[1])
        low, rise = float(values[1]), float(values[0] - values[1])

        def two(s: Tensor) -> Tensor:
            score = s if slope == 1.0 else slope * s
            weight = torch.sigmoid(score if shift == 0.0 else score + shift)
            weight = weight if rise == 1.0 else weight.mul_(rise)
            return weight if low == 0.0 else weight.add_(low)

        return two
    up, down = slice(0, None, 2), slice(1, None, 2)
    paired = (
        offset.numel() % 2 == 0
        and torch.equal(rate[up], -rate[down])
        and torch.equal(offset[up], offset[down])
        and torch.equal(values[up], -values[down])
    )
    if paired:
        largest = max(float(rate.abs().max()) * radius, float(offset.abs().max()))
        half = rate[up].clone(), offset[up].clone(), values[up].clone()
        if largest <= FACTORED_LIMIT[rate.dtype]:
            return PairReader(half[0], half[1].exp(), half[2])
        return lambda s: read_shifted(s, *half)
    return lambda s: torch.softmax(s.unsqueeze(-1) * rate + offset, dim=-1) @ values


class PairReader:
    """Pairwise evaluation without differences, so that small s is read to full relative precision.

    With x_k = rate_k s a pair weighs mass_k exp(+-x_k), and the mean level is
        sum_k mass_k L_k sinh x_k / sum_k mass_k cosh x_k.
    On an equally spaced grid x_k = (2k+1) y. Since sinh((2k+1) y) = sinh(y) sum_{|j|<=k} exp(2jy) and
    2 cosh(2jy) cosh(y) = cosh((2j+1) y) + cosh((2j-1) y), the numerator is a positive combination of
    the same cosines that make the denominator:
        mean = tanh(y) sum_k N_k cosh x_k / sum_k mass_k cosh x_k,   M_j = sum_{k>=j} mass_k L_k,
        N_0 = M_0 + M_1,  N_k = M_k + M_{k+1}.
    Nothing cancels. Both sums are also polynomials in w = sinh(y)^2 with positive coefficients,
        cosh((2k+1) y) = cosh(y) sum_j binom(k+j, 2j) (4w)^j,
    and for many numbers Horner's rule beats forming p/2 exponentials for each.
    """

    FEW, MANY = 100, 512
    """Below FEW numbers fewer calls win, from MANY on fewer exponentials."""

    def __init__(self, rate: Tensor, mass: Tensor, level: Tensor) -> None:
        self.rate, self.mass, self.moment = rate, mass, mass * level
        k = torch.arange(rate.numel(), dtype=rate.dtype, device=rate.device)
        away = (rate - (2 * k + 1) * rate[0]).abs()
        self.equally_spaced = bool((away <= torch.finfo(rate.dtype).eps * rate.abs()).all())
        self.base = float(rate[0])
        if self.equally_spaced:
            self._prepare(mass.double().tolist(), (mass.double() * level.double()).tolist())

    def _prepare(self, mass: list[float], moment: list[float]) -> None:
        n = len(mass)
        tails = [math.fsum(moment[j:]) for j in range(n + 1)]
        top = [tails[k] + tails[k + 1] for k in range(n)]
        self.top = self.rate.new_tensor(top)
        rows = [
            [
                math.fsum(weights[k] * (math.comb(k + j, 2 * j) * 4**j) for k in range(j, n))
                for j in reversed(range(n))
            ]
            for weights in (top, mass)
        ]
        self.coefficients = self.rate.new_tensor(rows).unsqueeze(-1).unbind(1)

    def __call__(self, s: Tensor) -> Tensor:
        """The mean level for every entry of s."""
        flat = s if s.dim() == 1 else s.reshape(-1)
        n = flat.numel()
        if n < self.FEW or not self.equally_spaced:
            x = torch.outer(flat, self.rate)
            mean = torch.mv(torch.sinh(x), self.moment).div_(torch.mv(x.cosh_(), self.mass))
        elif n < self.MANY:
            up = torch.outer(flat, self.rate).exp_()
            cosh = up.reciprocal().add_(up)
            mean = torch.mv(cosh, self.top).div_(torch.mv(cosh, self.mass))
            mean.mul_((flat * self.base).tanh_())
        else:
            mean = self._read_many(flat)
        return mean if s.dim() == 1 else mean.view(s.shape)

    def _read_many(self, s: Tensor) -> Tensor:
        y = s * self.base
        w = torch.sinh(y).square_()
        both = self.coefficients[0].expand(2, s.numel())
        for coefficient in self.coefficients[1:]:
            both = torch.addcmul(coefficient, both, w)
        top, bottom = both.unbind(0)
        return (top / bottom).mul_(y.tanh_())


class ProductReader:
    """f(s, y) on a product grid: the weights of s and of y factorise, so y is read once for a run."""

    def __init__(self, rate_s: Tensor, rate_y: Tensor, offset: Tensor, values: Tensor) -> None:
        self.rate_s, self.rate_y, self.offset, self.values = rate_s, rate_y, offset, values
        p = round(offset.numel() ** 0.5)
        self.factorises = p * p == offset.numel()
        if not self.factorises:
            return
        square = offset.reshape(p, p)
        self._s, self._y = rate_s.reshape(p, p)[:, 0], rate_y.reshape(p, p)[0]
        self._offset_y = square[0] - square[0, 0]
        self._offset_s = square[:, 0]
        spread = (self._s.unsqueeze(1).expand(p, p), self._y.expand(p, p))
        sums = self._offset_s.unsqueeze(1) + self._offset_y
        slack = 8 * torch.finfo(offset.dtype).eps * offset.abs().max()
        self.factorises = (
            torch.equal(spread[0].reshape(-1), rate_s)
            and torch.equal(spread[1].reshape(-1), rate_y)
            and bool(((sums - square).abs() <= slack).all())
        )
        self._V = values.reshape(p, p)

    def literal(self, s: Tensor, y: Tensor) -> Tensor:
        """The softmax over all tokens at once."""
        scores = s.unsqueeze(-1) * self.rate_s + y.unsqueeze(-1) * self.rate_y + self.offset
        return torch.softmax(scores, dim=-1) @ self.values

    def begin(self, y: Tensor) -> Tensor:
        """Per sample, the values a head over s alone would have."""
        weights = torch.softmax(y.unsqueeze(-1) * self._y + self._offset_y, dim=-1)
        return weights @ self._V.T

    def finish(self, s: Tensor, values: Tensor) -> Tensor:
        """The head over s."""
        weights = torch.softmax(s.unsqueeze(-1) * self._s + self._offset_s, dim=-1)
        return (weights * values).sum(dim=-1)
