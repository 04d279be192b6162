"""What a softmax block that looks its answer up by a context id costs, and what it can promise.

Symbols
    B   side of the cube of inputs           D      levels per coordinate
    d   coordinates of a token, n  tokens    L      Lipschitz constant of the target (Frobenius norm)
    V   distinct tokens over all sequences   delta  width of a ramp of the quantiser, in units of B
The look-up holds one entry for every (sequence on the grid, token). docs/errata_deep.md, F1 to F6.
"""

from __future__ import annotations

import math

from icgd.errors import InvalidParameter


def log10_separation(
    n: int, d: int, vocabulary: int, *, r_min: float, r_max: float, eps: float
) -> float:
    """log10 of the distance that Lemma 17 promises between two context ids.

    Statement: [DEEP] Lemma 17

    log delta = log(2 log^2(n) eps^2 r_min / (r_max^2 (V+1)^4 (2 log n + 3) pi d))
                - (V+1)^4 (2 log n + 3) pi d r_max^2 / (4 eps r_min)

    Differs from the paper: the logarithm, because delta itself is no number a computer holds.

    >>> round(log10_separation(3, 4, 16, r_min=1.0, r_max=2.0, eps=0.5) / 1e6, 1)
    -4.7
    """
    _counts(d=d, vocabulary=vocabulary)
    if n < 2:
        raise InvalidParameter("n", n, "be an integer >= 2", remedy="One token has no context.")
    _positive(r_min=r_min, r_max=r_max, eps=eps)
    crowd = (vocabulary + 1) ** 4 * (2 * math.log(n) + 3) * math.pi * d
    ahead = 2 * math.log(n) ** 2 * eps**2 * r_min / (r_max**2 * crowd)
    return (math.log(ahead) - crowd * r_max**2 / (4 * eps * r_min)) / math.log(10)


def log10_grid_separation(n: int, d: int, n_levels: int) -> float:
    """`log10_separation` on the whole grid {1/D, ..., 1}^d.

    Norms lie between sqrt(d)/D and sqrt(d), distinct tokens are 1/D apart, V = D^d.

    >>> round(log10_grid_separation(3, 4, 4) / 1e12)
    -1
    """
    _counts(d=d, n_levels=n_levels)
    low, high = math.sqrt(d) / n_levels, math.sqrt(d)
    return log10_separation(n, d, n_levels**d, r_min=low, r_max=high, eps=1 / n_levels)


def n_sequences(n_levels: int, n_free: int) -> int:
    """D^F: the sequences on the grid if F coordinates are free.

    >>> n_sequences(5, 6)
    15625
    """
    _counts(n_levels=n_levels, n_free=n_free)
    return n_levels**n_free


def n_entries(n_levels: int, n_free: int, n_tokens: int) -> int:
    """n D^F: what the look-up of Lemma 16 has to hold.

    >>> n_entries(5, 6, 3)
    46875
    """
    _counts(n_tokens=n_tokens)
    return n_tokens * n_sequences(n_levels, n_free)


def printed_bound(lipschitz: float, d: int, n: int, n_levels: int, *, side: float = 1.0) -> float:
    """L (8 sqrt(dn) + sqrt(n)) B / (2D): the largest error, as printed.

    Statement: [DEEP] Lemma 16
    Statement: [DEEP] Lemma 18

    Differs from the paper: no. It is false: see `sup_norm_floor`.

    >>> round(printed_bound(1.0, 1, 2, 32), 3)
    0.199
    """
    _counts(d=d, n=n, n_levels=n_levels)
    _positive(lipschitz=lipschitz, side=side)
    return lipschitz * (8 * math.sqrt(d * n) + math.sqrt(n)) * side / (2 * n_levels)


def cell_error(lipschitz: float, n_free: int, n_levels: int, *, side: float = 1.0) -> float:
    """L sqrt(F) B / (2D): how far f is from its value at the centre of the cell.

    Statement: [DEEP] Lemma 18

    Differs from the paper: (F.4) takes the value at a corner, which doubles it; F counts the coordinates
    that move, where the paper has all d n.

    >>> cell_error(1.0, 4, 8)
    0.125
    """
    _counts(n_free=n_free, n_levels=n_levels)
    _positive(lipschitz=lipschitz, side=side)
    return lipschitz * math.sqrt(n_free) * side / (2 * n_levels)


def ramp_share(n_free: int, n_levels: int, ramp: float) -> float:
    """At most F D delta: the share of the cube where some coordinate is inside a ramp.

    >>> ramp_share(2, 8, 0.01)
    0.16
    """
    _counts(n_free=n_free, n_levels=n_levels)
    _positive(ramp=ramp)
    return min(1.0, n_free * n_levels * ramp)


def rms_bound(
    lipschitz: float, n_free: int, n_levels: int, ramp: float, *, spread: float, side: float = 1.0
) -> float:
    """sqrt(cell_error^2 + F D delta spread^2): the error in the mean square over the cube.

    Statement: [DEEP] Lemma 16

    Off the ramps the block returns the label of the cell. On them it returns some average of labels, which
    is nowhere further than their largest distance `spread` from the truth; that happens on F D delta of the
    cube, and delta is free.

    Differs from the paper: a mean square, where it claims the largest error.

    >>> rms_bound(1.0, 2, 32, 2.0**-20, spread=1.0) < 0.026
    True
    """
    if not spread >= 0:
        raise InvalidParameter("spread", spread, "be >= 0")
    cell = cell_error(lipschitz, n_free, n_levels, side=side)
    return math.sqrt(cell**2 + ramp_share(n_free, n_levels, ramp) * spread**2)


def rms_of_rounding(n_levels: int, *, width: float = 2.0) -> float:
    """width / (sqrt(12) D): the root mean square of a number's distance to the centre of its cell.

    A step w - eta grad is off by about this, since w itself is rounded to D levels of [-1, 1].

    >>> round(rms_of_rounding(1), 3)
    0.577
    """
    _counts(n_levels=n_levels)
    _positive(width=width)
    return width / (math.sqrt(12) * n_levels)


def sup_norm_floor(side: float = 1.0) -> float:
    """B/8: what every softmax block with one rank-1 head misses by, somewhere, on f_k = sum_l |z_l - z_k|.

    Statement: [DEEP] Lemma 16

    n >= 3 tokens, any continuous first layer phi, any scores, any second layer. The head adds u (v . A) to
    phi(z_1), A an average of phi(z_l) with positive weights. Let v . phi be least at p and largest at q. Two
    balls of radius B/4 do not cover the side of a cube, so some z_1 is B/4 away from p and from q. Move
    (z_2, z_3) from (p, p) to (q, p) to (q, q), all other tokens equal to z_1: v . A - v . phi(z_1) turns
    from <= 0 to >= 0, so it is 0 on the way, and there token 1 holds just what it holds when all tokens are
    z_1. No second layer tells the two apart; f_1 is 0 in one of them and at least B/4 in the other.
    For d = 1 every head has rank 1.

    Differs from the paper: it promises an error of order 1/D for this f as well.

    >>> sup_norm_floor()
    0.125
    """
    _positive(side=side)
    return side / 8


def _counts(**values: int) -> None:
    for name, value in values.items():
        if not (isinstance(value, int) and value >= 1):
            raise InvalidParameter(name, value, "be an integer >= 1")


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise InvalidParameter(name, value, "be a finite number > 0")
