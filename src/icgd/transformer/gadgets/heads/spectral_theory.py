"""The spectral softmax head: how many grid tokens a softmax needs to read a number off.

A head with scores 2 beta s L_k - beta L_k^2 over equally spaced levels L_k gives every level the
weight exp(-beta (s - L_k)^2): a discretised Gaussian around s. Its mean is the head's output.
Letting beta grow picks the nearest level (error up to half a spacing, the paper's way). Choosing
instead a width sigma = rho * spacing makes the mean equal s up to exp(-2 pi^2 rho^2), by Poisson
summation: a few dozen tokens reach machine precision. docs/spectral_head.md has the proof.

Symbols used in this file
    p      n_grid, number of grid tokens        R      radius: |s| <= R is certified
    G      half_width: levels span [-G, G]      Delta  spacing = 2 G / (p - 1)
    rho    sigma / Delta                        m      margin: G = R + m sigma
    u      unit round-off (eps / 2)             t      (L - s) / sigma, a standard normal variable
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from icgd.errors import AssumptionViolated, InvalidParameter

Temperature = Literal["spectral", "hard"]

HARD_SHARPNESS = 40.0
"""beta * Delta^2 in hard mode: the second-nearest level weighs e^-40 unless s is near a tie."""


@dataclass(frozen=True)
class GridGeometry:
    """Where the levels lie and how sharp the softmax over them is."""

    n_grid: int
    rho: float
    margin: float
    radius: float
    temperature: Temperature
    half_width: float
    spacing: float
    beta: float

    @property
    def sigma(self) -> float:
        """Width of the Gaussian the softmax makes, beta = 1 / (2 sigma^2)."""
        return math.sqrt(0.5 / self.beta)

    def levels(self) -> list[float]:
        """The levels L_k, symmetric to the last bit, in +- pairs from the inside out.

        >>> make_geometry(4, 1.0, 0.0, 3.0, "hard").levels()
        [1.0, -1.0, 3.0, -3.0]
        """
        half = self.n_grid // 2
        if self.n_grid % 2:
            positive = [self.spacing * k for k in range(1, half + 1)]
            return [0.0] + [x for level in positive for x in (level, -level)]
        positive = [self.spacing * (k + 0.5) for k in range(half)]
        return [x for level in positive for x in (level, -level)]


def min_grid(rho: float, margin: float) -> int:
    """Fewest tokens for which a certified range is left between the margins.

    >>> min_grid(1.4, 8.25)
    25
    """
    return math.floor(2 * margin * rho + 1) + 1


def grid_violations(
    n_grid: int, rho: float, margin: float, radius: float, temperature: str
) -> list[str]:
    """Every reason why these numbers do not describe a head, as sentences; empty if they do."""
    violations = []
    if temperature not in ("spectral", "hard"):
        violations.append(f"`temperature` must be 'spectral' or 'hard'. Got {temperature!r}.")
    if isinstance(n_grid, bool) or not isinstance(n_grid, int) or n_grid < 2:
        violations.append(f"`n_grid` must be an integer >= 2. Got {n_grid!r}.")
    for name, value in (("rho", rho), ("radius", radius)):
        if not (math.isfinite(value) and value > 0):
            violations.append(f"`{name}` must be a finite number > 0. Got {value!r}.")
        elif not 1e-100 <= value <= 1e100:
            # Squares of it must stay representable.
            violations.append(
                f"`{name}` must lie between 1e-100 and 1e100. Got {value!r}. Scale the data."
            )
    if not (math.isfinite(margin) and margin >= 0):
        violations.append(f"`margin` must be a finite number >= 0. Got {margin!r}.")
    elif margin > 1e100:  # its product with rho must stay representable
        violations.append(f"`margin` must be at most 1e100. Got {margin!r}.")
    if not violations and temperature == "spectral" and n_grid < min_grid(rho, margin):
        violations.append(
            f"`n_grid` of the spectral head must be >= {min_grid(rho, margin)} for rho={rho}, "
            f"margin={margin}: the margins alone take {2 * margin * rho:.3g} spacings. Got {n_grid}. "
            "Raise n_grid, or lower rho or margin (and accept the larger certified error)."
        )
    return violations


def make_geometry(
    n_grid: int, rho: float, margin: float, radius: float, temperature: Temperature
) -> GridGeometry:
    """Place the grid: G = R / (1 - 2 m rho / (p - 1)) when spectral, G = R when hard.

    Statement: [COT] Lemma A.5

    Differs from the paper: the paper fixes no temperature (beta -> infinity, here "hard"); at
    beta = 1 / (2 rho^2 Delta^2) the same head is exact to machine precision.

    >>> g = make_geometry(32, 1.4, 8.25, 1.0, "spectral")
    >>> round(g.half_width, 3), round(g.sigma / g.spacing, 12)
    (3.924, 1.4)
    """
    violations = grid_violations(n_grid, rho, margin, radius, temperature)
    if violations:
        raise AssumptionViolated(*violations)
    if temperature == "hard":
        spacing = 2 * radius / (n_grid - 1)
        beta = HARD_SHARPNESS / spacing**2
        return GridGeometry(n_grid, rho, 0.0, radius, temperature, radius, spacing, beta)
    half_width = radius / (1 - 2 * margin * rho / (n_grid - 1))
    spacing = 2 * half_width / (n_grid - 1)
    beta = 1 / (2 * (rho * spacing) ** 2)
    return GridGeometry(n_grid, rho, margin, radius, temperature, half_width, spacing, beta)


@dataclass(frozen=True)
class GaussianMoments:
    """Upper bounds on E|t|^j under the discretised, truncated Gaussian, and its mean error."""

    mean_error: float
    first: float
    second: float
    third: float
    fourth: float


def gaussian_moments(rho: float, margin: float) -> GaussianMoments:
    """Moments of t under the head's weights: Gaussian moments plus Poisson and tail terms.

    Statement: [COT] Lemma A.5

    With q = exp(-2 pi^2 rho^2), w = 2 pi rho n, D = 1 - 2 sum q^(n^2) - erfc(m / sqrt 2):
        |E t| <= [2 sum w q^(n^2) + exp(-m^2/2)/sqrt(2 pi)] / D
        E t^2 <= [1 + 2 sum (1 + w^2) q^(n^2)] / D,   E t^4 <= [3 + 2 sum (3 + 6 w^2 + w^4) q^(n^2)] / D

    Differs from the paper: new, the paper has no finite-temperature analysis.
    """
    terms = [(2 * math.pi * rho * n, math.exp(-2 * (math.pi * rho * n) ** 2)) for n in range(1, 12)]
    norm = 1 - 2 * sum(q for _, q in terms) - math.erfc(margin / math.sqrt(2))
    if norm <= 0:
        return GaussianMoments(math.inf, math.inf, math.inf, math.inf, math.inf)
    tail = math.exp(-(margin**2) / 2) / math.sqrt(2 * math.pi)
    mean = (2 * sum(w * q for w, q in terms) + tail) / norm
    second = (1 + 2 * sum((1 + w * w) * q for w, q in terms)) / norm
    fourth = (3 + 2 * sum((3 + 6 * w**2 + w**4) * q for w, q in terms)) / norm
    return GaussianMoments(mean, math.sqrt(second), second, math.sqrt(second * fourth), fourth)


def score_roundoff(g: GridGeometry, unit_roundoff: float, n_terms: int = 1) -> float:
    """Largest relative error of one softmax weight caused by rounding its score and exponential.

    `n_terms` is the length of the inner product s = w.x when the head forms it itself.
    """
    scores = g.beta * (2 * g.radius * g.half_width + g.half_width**2 + g.radius**2)
    return unit_roundoff * ((3 + n_terms) * scores + 3)


def inflation(relative_error: float) -> float:
    """By how much at most a weight grows that is off by this in its exponent; infinite for a useless one.

    >>> inflation(0.0), inflation(1e6)
    (1.0, inf)
    """
    return math.exp(relative_error) if relative_error < 700 else math.inf


def summing(g: GridGeometry, unit_roundoff: float) -> float:
    """Relative error of a weighted sum over the grid, and of levels not exactly equally spaced.

    Adding a term never costs more than the term itself, so tokens further than t = 9 away, which
    together weigh less than one round-off, do not count: p' = min(p, 18 rho + 2).
    """
    far = math.erfc(9 / math.sqrt(2))
    if g.temperature == "hard" or unit_roundoff < far:
        n_terms = float(g.n_grid)
    else:
        n_terms = min(g.n_grid, math.ceil(18 * g.rho) + 2)
    return (n_terms + 8) * unit_roundoff + (0.0 if g.temperature == "hard" else far)


def head_error(g: GridGeometry, s: float, unit_roundoff: float, n_terms: int = 1) -> float:
    """Bound on |head(s) - s| for |s| <= R: discretisation, missing tails and rounding.

    Statement: [COT] Lemma A.5

    spectral  c [sigma |E t| + c sigma u (4 (2 a^2 E|t| + 2 a E t^2 + E|t|^3 / 2) + 3 E|t|)] + sums,
              a = |s| / sigma, c = exp(largest weight round-off)
    hard      c^2 Delta [1/2 + sum_j (j + 1/2) r^(j^2) + sum_{j>=2} j r^(j(j-1))] + sums,
              r = exp(-beta Delta^2)
    sums      (p' + 8) u (2 |s| + spread): rounding of the two sums over the p' tokens that matter
    A dot head forms s = w.x over n_terms terms: 4 becomes 3 + n_terms and s bounds sum |w_i x_i|.

    Differs from the paper: Lemma A.5 bounds the softmax error by O(exp(-beta delta)), which is not
    uniform (at a tie delta = 0); this bound holds for every s and includes floating point.

    >>> g = make_geometry(32, 1.4, 8.25, 1.0, "spectral")
    >>> head_error(g, 1.0, 2.0**-53) < 2e-14
    True
    """
    size = abs(s)
    if size > g.radius * (1 + 4 * unit_roundoff):
        return math.inf
    constant, linear, quadratic = head_error_polynomial(g, unit_roundoff, n_terms)
    return constant + linear * size + quadratic * size * size


def head_error_polynomial(
    g: GridGeometry, unit_roundoff: float, n_terms: int = 1
) -> tuple[float, float, float]:
    """The bound of `head_error` as c0 + c1 |s| + c2 s^2, for whole vectors of queries."""
    u = unit_roundoff
    inflate = inflation(score_roundoff(g, u, n_terms))
    sums = summing(g, u)
    if g.temperature == "hard":
        spread = g.spacing * _hard_distance(g)
        return inflate**2 * spread + sums * inflate * spread, 2 * sums, 0.0
    m, sigma = gaussian_moments(g.rho, g.margin), g.sigma
    c = inflate * inflate * u * (3 + n_terms)
    constant = sigma * (inflate * m.mean_error + c * m.third / 2 + inflate**2 * 3 * u * m.first)
    return (
        constant + sums * inflate * sigma * m.first,
        2 * c * m.second + 2 * sums,
        2 * c * m.first / sigma,
    )


def pairwise_error_polynomial(g: GridGeometry, unit_roundoff: float) -> tuple[float, float, float]:
    """Bound c0 + c1 |s| + c2 s^2 on |head(s) - s| when the mean is taken over pairs of levels.

    Statement: [COT] Lemma A.5

    The mean is tanh(y) A / B with sums A, B of p/2 positive terms in exp(+-x_k), |x_k| <= 2 beta G |s|.
    Relative errors, in units of u: an exponential 2 |x_k| + 2; a stored mass exp(-beta L^2) 2 beta L^2 + 2;
    a sum of p/2 positive terms p/2 + 6; tanh(y) 5. As polynomials of degree p/2 in w = sinh(y)^2, which
    has an error of 6, the sums err by at most 8 p/2. Nothing cancels, so all of it is relative to s,
    once for A and once for B. Discretisation and tails are as before.

    Differs from the paper: new; the same head as in `head_error`, summed in another order.

    >>> g = make_geometry(32, 1.4, 8.25, 1024.0, "spectral")
    >>> c0, c1, c2 = pairwise_error_polynomial(g, 2.0**-53)
    >>> c0 + c1 + c2 < 0.25 * head_error(g, 1.0, 2.0**-53)
    True
    """
    u = unit_roundoff
    half = g.n_grid / 2
    per_sum = (half + 6) + 2 + (2 * g.beta * g.half_width**2 + 2) + 8 * half
    relative = 2 * per_sum + 5
    discretised = g.sigma * gaussian_moments(g.rho, g.margin).mean_error
    slack = inflation(u * (relative + 8 * g.beta * g.half_width * g.radius))
    return slack * discretised, slack * relative * u, slack * 8 * g.beta * g.half_width * u


def _hard_distance(g: GridGeometry) -> float:
    """Weighted mean distance to the levels in hard mode, in spacings; 1/2 is the tie."""
    log_r = -g.beta * g.spacing**2
    far = sum((j + 0.5) * math.exp(log_r * j * j) for j in range(1, 12))
    near = sum(j * math.exp(log_r * j * (j - 1)) for j in range(2, 12))
    return 0.5 + far + near


def paper_tokens_for(error: float, radius: float) -> float:
    """Grid tokens the nearest-level reading needs for this error: half a spacing = R / (p - 1).

    Statement: [COT] Lemma A.5

    Differs from the paper: the printed (b - a) / p is the spacing; the error is half of it.

    >>> paper_tokens_for(1e-15, 1.0) > 1e15
    True
    """
    return radius / error + 1


def grid_for_error(
    error: float, radius: float, unit_roundoff: float = 2.0**-53, *, max_grid: int = 512
) -> GridGeometry:
    """The fewest grid tokens, with rho and margin, whose certificate is at most `error`.

    Statement: [COT] Lemma A.5

    Inverse of `head_error` over |s| <= R. Differs from the paper: 1/error tokens become
    O(log(1/error)).

    >>> grid_for_error(1e-13, 1.0).n_grid <= 32
    True
    """
    if not (math.isfinite(error) and error > 0):
        raise InvalidParameter("error", error, "be a finite number > 0")
    rhos = [0.4 + 0.05 * i for i in range(37)]
    margins = [2.0 + 0.25 * i for i in range(33)]
    best: GridGeometry | None = None
    smallest = math.inf
    for rho in rhos:
        for margin in margins:
            top = best.n_grid - 1 if best else max_grid
            for n_grid in range(min_grid(rho, margin), top + 1):
                g = make_geometry(n_grid, rho, margin, radius, "spectral")
                reached = head_error(g, radius, unit_roundoff)
                smallest = min(smallest, reached)
                if reached <= error:
                    best = g
                    break
                if reached > 10 * error and n_grid > min_grid(rho, margin) + 8:
                    break
    if best is None:
        raise AssumptionViolated(
            f"No grid of up to {max_grid} tokens reads a number of size {radius:g} to {error:g} at this "
            f"precision; the smallest certified error found is {smallest:.2g}. Ask for a larger error, a "
            "smaller radius, or float64."
        )
    return best
