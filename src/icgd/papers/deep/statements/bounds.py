"""Errors of the (2N+4)-layer stack as functions of plain numbers: as [DEEP] prints them, and corrected.

Symbols: N layers, K hidden width, d output width, P = sqrt(max(K, d)); B_v bounds |row of V_j|_2, B_x
|x|_2; r has Lipschitz constant L_r, r' L_slope, u = dl/dp L_loss; eps_* are the errors of their fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

Size = Callable[[float], float]
"""z -> max |r(t)| (or |r'(t)|) over |t| <= z."""


@dataclass(frozen=True)
class Setting:
    """The constants all lemmas share.

    B_r, B_slope, B_loss  bounds on one entry of p or its fit, of r' or its fit, of u or its fit
    """

    n_layers: int
    width: int
    d: int
    B_v: float
    B_x: float
    L_r: float
    L_slope: float
    L_loss: float
    B_r: float
    B_slope: float
    B_loss: float

    @property
    def P(self) -> float:  # noqa: N802
        """sqrt(max(K, d)), (3.22)."""
        return math.sqrt(max(self.width, self.d))

    @property
    def E_r(self) -> float:  # noqa: N802
        """The largest error of p in units of eps_r, (3.10)."""
        return max(forward_error(self, j) for j in range(1, self.n_layers + 1))


@dataclass(frozen=True)
class FitErrors:
    """eps_r, eps_r', eps_l: how far the sums of ReLUs are from r, r' and u."""

    r: float = 0.0
    slope: float = 0.0
    loss: float = 0.0


# -- ranges --------------------------------------------------------------------------------------


def printed_output_bounds(n_layers: int, B_v: float, B_x: float, size: Size) -> list[float]:
    """B_r^0 = B_x and B_r^j = max |r(t)| over |t| <= B_v B_r^{j-1}.

    Statement: [DEEP] Lemma 2

    Differs from the paper: no; see `forward_ranges` for what it should be.
    """
    bounds = [B_x]
    for _ in range(n_layers):
        bounds.append(size(B_v * bounds[-1]))
    return bounds


def printed_forward_radius(n_layers: int, B_v: float, B_x: float, size: Size) -> float:
    """R_1 = max(B_v B_r, 1), with B_r the largest B_r^j, j = 0 included: the kinder reading.

    Statement: [DEEP] Lemma 2

    Differs from the paper: no.
    """
    return max(B_v * max(printed_output_bounds(n_layers, B_v, B_x, size)), 1.0)


def forward_ranges(
    n_layers: int, width: int, B_v: float, B_x: float, size: Size, eps: float = 0.0
) -> tuple[list[float], list[float]]:
    """(range of z_j, bound on an entry of p(j)) for j = 1..N, fits included.

    Statement: [DEEP] Lemma 2

    |v . p| <= |v|_2 |p|_2 and |p|_2 <= sqrt(K) max |p[k]|; an entry of the fit is eps larger at most.

    Differs from the paper: it leaves out sqrt(K), and that heads are asked about fits and not about p.

    >>> forward_ranges(2, 4, 0.5, 2.0, math.tanh)[0]
    [1.0, 0.7615941559557649]
    """
    ranges, bounds = [B_v * B_x], list[float]()
    for _ in range(n_layers):
        bounds.append(size(ranges[-1]) + eps)
        ranges.append(B_v * math.sqrt(width) * bounds[-1])
    return ranges[:-1], bounds


def forward_radius(
    n_layers: int, width: int, B_v: float, B_x: float, size: Size, eps: float = 0.0
) -> float:
    """R_1 and R_2: r and r' are read at the same numbers.

    Statement: [DEEP] Lemma 3

    Differs from the paper: R_2 = R_1, where it iterates r' as if r' were the activation.
    """
    return max(*forward_ranges(n_layers, width, B_v, B_x, size, eps)[0], 1.0)


def printed_slope_radius(n_layers: int, B_v: float, B_x: float, slope_size: Size) -> float:
    """R_2 = max(B_v B_r', 1) with B_r'^j = max |r'(t)| over |t| <= B_v B_r'^{j-1}.

    Statement: [DEEP] Lemma 3

    B_r'^0 = B_x is left out of the maximum: it bounds an input and not a slope.

    Differs from the paper: no.
    """
    bounds = printed_output_bounds(n_layers, B_v, B_x, slope_size)
    return max(B_v * max(bounds[1:]), 1.0)


def printed_loss_radius(B_v: float, B_r: float, B_y: float) -> float:
    """R_3 = max(B_v B_r, B_y, 1).

    Statement: [DEEP] Lemma 4

    Differs from the paper: no.
    """
    return max(B_v * B_r, B_y, 1.0)


def loss_radius(B_out: float, B_y: float) -> float:
    """R_3 = max(largest entry of p(N), B_y, 1).

    Statement: [DEEP] Lemma 4

    Differs from the paper: p(N) is bounded by B_r; B_v B_r bounds (a part of) what comes before r.
    """
    return max(B_out, B_y, 1.0)


# -- errors --------------------------------------------------------------------------------------


def forward_error(s: Setting, j: int) -> float:
    """The error of p(j), 2-norm, in units of eps_r: sum_{l<j} (sqrt(K) L_r B_v)^l times sqrt(width).

    Statement: [DEEP] Lemma 2

    Differs from the paper: no; L_r is the Lipschitz constant, which it calls smoothness.
    """
    growth = math.sqrt(s.width) * s.L_r * s.B_v
    entry = sum(growth**power for power in range(j))
    return entry * math.sqrt(s.d if j == s.n_layers else s.width)


def slope_error(s: Setting, eps: FitErrors) -> float:
    """The error of an entry of r'.

    Statement: [DEEP] Lemma 3

    Differs from the paper: no.
    """
    return eps.slope + s.L_slope * s.B_v * s.E_r * eps.r


def loss_error(s: Setting, eps: FitErrors) -> float:
    """The error of an entry of g.

    Statement: [DEEP] Lemma 4

    Differs from the paper: no.
    """
    return eps.loss + s.L_loss * s.E_r * eps.r


@dataclass(frozen=True)
class SignalBounds:
    """B_s bounds an entry of s; its error is r eps_r + slope eps_r' + loss eps_l."""

    B_s: float
    r: float
    slope: float
    loss: float

    def error(self, eps: FitErrors) -> float:
        """The error of an entry of s."""
        return self.r * eps.r + self.slope * eps.slope + self.loss * eps.loss


def signal_bounds(s: Setting, column: float) -> SignalBounds:
    """Bounds on s(j) = r' * (V^T s(j+1)), given a bound on the 2-norm of columns of V.

    Statement: [DEEP] Lemma 6

    e_N = D B_l + B_r' (eps_l + L_l E_r eps_r) and e_j = D c P B_s + B_r' c P e_{j+1}, D the error of r'
    and c the bound on columns.

    Differs from the paper: it has c = B_v, which bounds rows (`printed_signal_bounds`).
    """
    q, n = s.B_slope * column * s.P, s.n_layers
    B_s = max(q ** (n - j) * s.B_slope * s.B_loss for j in range(1, n + 1))
    drift = s.L_slope * s.B_v * s.E_r  # error of r' in units of eps_r
    r, slope, loss = [], [], []
    for j in range(1, n + 1):
        carried = column * s.P * B_s * sum(q**power for power in range(n - j))
        left = q ** (n - j)
        r.append(drift * carried + left * (s.B_loss * drift + s.B_slope * s.L_loss * s.E_r))
        slope.append(carried + left * s.B_loss)
        loss.append(left * s.B_slope)
    return SignalBounds(B_s, max(r), max(slope), max(loss))


def printed_signal_bounds(s: Setting) -> SignalBounds:
    """(3.23) and (3.24).

    Statement: [DEEP] Lemma 6

    Differs from the paper: no.
    """
    return signal_bounds(s, s.B_v)


def column_bound(s: Setting) -> float:
    """Columns when only rows are bounded: every entry is at most B_v, and there are max(K, d) of them.

    Statement: [DEEP] Lemma 6

    Differs from the paper: it uses B_v itself. In a box |w| <= b with B_v = b P both are bounded by B_v.
    """
    return s.P * s.B_v


def printed_gradient_error(s: Setting, eps: FitErrors) -> float:
    """N/2 P ((error of s) sqrt(P) B_r + B_s E_r eps_r).

    Statement: [DEEP] Theorem 1

    Differs from the paper: no; this is the last display of its proof.
    """
    bounds = printed_signal_bounds(s)
    inner = bounds.error(eps) * math.sqrt(s.P) * s.B_r + bounds.B_s * s.E_r * eps.r
    return s.n_layers / 2 * s.P * inner


def gradient_error(s: Setting, eps: FitErrors, column: float | None = None) -> float:
    """sqrt(N)/2 P ((error of s) max(P B_r, B_x) + B_s E_r eps_r).

    Statement: [DEEP] Theorem 1

    Differs from the paper: |p|_2 <= P B_r and not sqrt(P) B_r; |x|_2 <= B_x; columns; sqrt(N) layers.
    """
    bounds = signal_bounds(s, column_bound(s) if column is None else column)
    inner = bounds.error(eps) * max(s.P * s.B_r, s.B_x) + bounds.B_s * s.E_r * eps.r
    return math.sqrt(s.n_layers) / 2 * s.P * inner


def printed_fit_errors(s: Setting, eps: float) -> FitErrors:
    """eps_l = 2 eps / (3 C_l) and so on: the fits that are to give a gradient within eps.

    Statement: [DEEP] Theorem 1

    Differs from the paper: no.
    """
    b = printed_signal_bounds(s)
    scale = s.n_layers * s.P**1.5 * s.B_r
    C_r = scale * b.r + s.n_layers * s.P * b.B_s * s.E_r
    return FitErrors(*(2 * eps / (3 * C) for C in (C_r, scale * b.slope, scale * b.loss)))


# -- whole runs ----------------------------------------------------------------------------------


def printed_accumulated_error(step: int, eps: float, n_examples: int, L_f: float) -> float:
    """(1 + n L_f)^l eps / L_f.

    Statement: [DEEP] Corollary 1.1
    Statement: [DEEP] Lemma 14

    Differs from the paper: no.
    """
    return (1 + n_examples * L_f) ** step * eps / L_f


def accumulated_error(step: int, eps: float, lr: float, L_f: float) -> float:
    """((1 + eta L_f)^l - 1) eps / L_f, from e_l <= (1 + eta L_f) e_{l-1} + eta eps.

    Statement: [DEEP] Corollary 1.1
    Statement: [DEEP] Lemma 14

    L_f  Lipschitz constant of the gradient

    Differs from the paper: eta, where it prints the number n of examples; projections of both paths on a
    convex set do not increase e.

    >>> accumulated_error(1, 1e-3, 0.5, 4.0)  # eta eps
    0.0005
    """
    return ((1 + lr * L_f) ** step - 1) * eps / L_f


def convergence_bound(steps: int, lr: float, eps: float, drop: float) -> float:
    """8 (f(w_0) - inf f) / (eta L) + 10 eps^2 bounds the mean of |G(w_l)|^2 over l = 0..L-1.

    Statement: [DEEP] Lemma 14

    For eta L_f <= 1 and w' = Proj(w - eta grad f + e), |e| <= eta eps: optimality of the projection gives
    f(w') <= f(w) - |w' - w|^2 / (4 eta) + eta eps^2, and eta |G| <= |w' - w| + eta eps.

    Differs from the paper: it asks eta <= L_f, sums over l = 1..L-1, and f(0) stands for f(w_0).
    """
    return 8 * drop / (lr * steps) + 10 * eps**2
