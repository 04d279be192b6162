"""The sums a head over equally spaced tokens consists of, as polynomials with exact coefficients.

Tokens at L = +-(k + 1/2) D, k < n, weigh m_k exp(+-x_k) on the number s, with
m_k = exp(-(k + 1/2)^2 / (2 rho^2)), x_k = (2k + 1) y and y = s / (2 rho^2 D). With values c_k on the right
and c'_k on the left of zero, e_k = (c_k + c'_k) / 2 and o_k = (c_k - c'_k) / 2, the head is

    sum_k m_k (e_k cosh x_k + o_k sinh x_k) / sum_k m_k cosh x_k = (E(w) + tanh(y) O(w)) / B(w),  w = sinh(y)^2

with polynomials of degree n - 1, because
    cosh((2k+1) y) = cosh(y) sum_j binom(k+j, 2j) (4w)^j,
    sinh((2k+1) y) = sinh(y) sum_j (2k+1) / (2j+1) binom(k+j, 2j) (4w)^j.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from icgd.transformer.gadgets.heads.spectral_theory import GridGeometry


@dataclass(frozen=True)
class GridSums:
    """A head with given values, exactly.

    even, odd  e_k and o_k; `even` is empty for an odd function
    """

    geometry: GridGeometry
    even: tuple[float, ...]
    odd: tuple[float, ...]

    @property
    def n(self) -> int:
        """Pairs of tokens."""
        return self.geometry.n_grid // 2

    @cached_property
    def masses(self) -> list[Decimal]:
        """m_k."""
        rho = Decimal(self.geometry.rho)
        return [(-Decimal((2 * k + 1) ** 2) / (8 * rho * rho)).exp() for k in range(self.n)]

    @cached_property
    def base(self) -> Decimal:
        """y / s."""
        return 1 / (2 * Decimal(self.geometry.rho) ** 2 * Decimal(self.geometry.spacing))

    @cached_property
    def polynomials(self) -> tuple[list[Decimal], list[Decimal], list[Decimal]]:
        """Coefficients of E, O and B, lowest power first, over B's first one; E may be empty."""
        cosines = [
            [math.comb(k + j, 2 * j) * 4**j for k in range(j, self.n)] for j in range(self.n)
        ]
        bottom = [self._sum(cosines[j], None, j) for j in range(self.n)]
        even = [self._sum(cosines[j], self.even, j) for j in range(self.n)] if self.even else []
        odd = []
        for j in range(self.n):
            factors = [(2 * k + 1) * cosines[j][k - j] for k in range(j, self.n)]
            odd.append(self._sum(factors, self.odd, j) / (2 * j + 1))
        unit = bottom[0]
        return [e / unit for e in even], [o / unit for o in odd], [b / unit for b in bottom]

    def _sum(self, factors: Sequence[int], values: Sequence[float] | None, j: int) -> Decimal:
        terms = (
            mass * factor * (1 if values is None else Decimal(values[k]))
            for k, mass, factor in zip(range(j, self.n), self.masses[j:], factors, strict=True)
        )
        return sum(terms, Decimal(0))

    def __call__(self, s: Decimal) -> Decimal:
        """The head's exact value."""
        up = (s * self.base).exp()
        sinh, cosh = (up - 1 / up) / 2, (up + 1 / up) / 2
        w = sinh * sinh
        even, odd, bottom = (_horner(polynomial, w) for polynomial in self.polynomials)
        return (even + odd * sinh / cosh) / bottom


def _horner(coefficients: Sequence[Decimal], w: Decimal) -> Decimal:
    total = Decimal(0)
    for coefficient in reversed(coefficients):
        total = total * w + coefficient
    return total
