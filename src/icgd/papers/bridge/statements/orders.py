"""What [BRIDGE] says that depth costs a transformer: Theorems 3 and 4 as printed, as proved and as counted.

Constants are set to one where the paper has O(..), so that exponents and crossovers can be computed; an O(..)
is not refuted by that. `bridge_counts` has the counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from icgd.errors import InvalidParameter
from icgd.papers.bridge.statements.counts import forward_mode_size, reverse_size


def printed_size(n: int, width: float, *, layer_order: int = 1) -> float:
    """Layers times heads as the paper multiplies them: n^k n K^2 with constants one.

    Statement: [BRIDGE] Theorem 3

    layer_order  1 in the proof of Theorem 3 (n^2 K^2), 2 by Remark 2 (n^3 K^2), which Theorem 4 uses

    Differs from the paper: its proof calls n K^2 the number of layers; it is that of heads.
    """
    return n**layer_order * n * width**2


# -- widths --------------------------------------------------------------------------------------------


def shallow_ball_width(eps: float) -> float:
    """exp(eps^-1/4): what a 2-layer network needs at least for a ball, constants one.

    Statement: [BRIDGE] Lemma 1

    Differs from the paper: it is a lower bound, and holds where d grows like eps^-1/4; in a fixed dimension
    the lemma says nothing below eps = c/d^4.
    """
    return math.exp(eps**-0.25)


def deep_ball_width(eps: float, d: float) -> float:
    """max(8 d^2/eps, sqrt(1/(2 eps))): enough for a 3-layer network, constant one.

    Statement: [BRIDGE] Lemma 2

    Differs from the paper: it divides by sigma, the activation; delta, the error, is meant.
    """
    return max(8 * d * d / eps, math.sqrt(0.5 / eps))


def smooth_units(eps: float, d: int, smoothness: int) -> float:
    """eps^(-d/n) (ln(1/eps) + 1): computation units that suffice at depth ln(1/eps) + 1.

    Statement: [BRIDGE] Lemma 3

    Differs from the paper: no; its n is a smoothness here and a depth in Theorem 2.
    """
    return eps ** (-d / smoothness) * (math.log(1 / eps) + 1)


def fixed_depth_units(eps: float, depth: int) -> float:
    """Units that a network of this depth needs at least to follow x^2 on [0, 1] within eps.

    Statement: [BRIDGE] Lemma 4

    With k_l units in hidden layer l it has at most prod (k_l + 1) linear pieces, and s pieces err by at
    least 1/(8 s^2): sum k_l >= (L-1) ((8 eps)^(-1/(2(L-1))) - 1).

    Differs from the paper: the constant is written out, for one function.
    """
    hidden = depth - 1
    return max(0.0, hidden * ((8 * eps) ** (-1 / (2 * hidden)) - 1))


# -- Theorems 3 and 4 ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Orders:
    """Resources of the two transformers at one eps: shallow network and deep network, constants one."""

    shallow: float
    deep: float

    @property
    def deep_is_cheaper(self) -> bool:
        """Whether the deep network costs less."""
        return self.deep < self.shallow


def ball_orders(eps: float, form: str) -> Orders:
    """Theorem 3 at one eps.

    Statement: [BRIDGE] Theorem 3

    form  "printed"       exp(2 eps^-1/4) and eps^-1
          "stack"         heads of the backpropagating stack: of order exp(eps^-1/4) and eps^-1
          "proof"         n^2 K^2 with the widths it names: 4 exp(2 eps^-1/4) and 9 eps^-2
          "growing"       the same with d = eps^-1/4, which Lemma 1 needs: K = eps^-3/2, so 9 eps^-3
          "forward_mode"  heads of forward mode, equal widths, d = eps^-1/4: 3 exp(eps^-1/4) and eps^-13/4

    Differs from the paper: its proof's n^2 K^2 is eps^-2 and not the printed eps^-1, which the stack meets.

    >>> ball_orders(1e-4, "printed").deep_is_cheaper, ball_orders(1e-3, "proof").deep_is_cheaper
    (True, False)
    """
    d = eps**-0.25

    def wide() -> float:
        return shallow_ball_width(eps)

    forms: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
        "printed": (lambda: wide() ** 2, lambda: 1 / eps),
        "proof": (lambda: printed_size(2, wide()), lambda: printed_size(3, 1 / eps)),
        "growing": (lambda: printed_size(2, wide()), lambda: printed_size(3, eps**-1.5)),
        "stack": (lambda: reverse_size(2, wide()), lambda: reverse_size(3, 1 / eps)),
        "forward_mode": (
            lambda: forward_mode_size(2, wide(), d),
            lambda: forward_mode_size(3, eps**-1.5, d),
        ),
    }
    return _one_of(forms, form)


def smooth_orders(eps: float, d: int, smoothness: int, depth: int, form: str) -> Orders:
    """Theorem 4 at one eps; shallow is the network of fixed depth.

    Statement: [BRIDGE] Theorem 4

    form  "printed"       eps^(-1/(L-1)) and ln(1/eps)^3 eps^(-2d/n)
          "stack"         heads of the backpropagating stack at depths L and ln(1/eps) + 1
          "forward_mode"  heads of forward mode at the same depths

    Differs from the paper: the widths are those of Lemmas 3 and 4 with constants one. In forward mode the
    network of fixed depth costs K for L = 2, K^2 for L = 3, K^3 above, against K^3 for the deep one: see
    `smooth_condition`.
    """
    narrow, log = eps ** (-d / smoothness), math.log(1 / eps)
    wide = eps ** (-1 / (2 * (depth - 1)))
    levels = max(4, math.ceil(log + 1))
    forms: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
        "printed": (lambda: wide**2, lambda: log**3 * narrow**2),
        "stack": (lambda: reverse_size(depth, wide), lambda: reverse_size(levels, narrow)),
        "forward_mode": (
            lambda: forward_mode_size(depth, wide, d),
            lambda: forward_mode_size(levels, narrow, d),
        ),
    }
    return _one_of(forms, form)


def smooth_condition(d: int, smoothness: int, depth: int, form: str) -> bool:
    """Whether the deep network is cheaper for all eps small enough.

    Statement: [BRIDGE] Theorem 4

    Differs from the paper: no for its own orders and for the stack, 2 (L-1) d < n. In forward mode it is
    6 (L-1) d < k n with k = min(L-1, 3), so 6 d < n for two and for three layers, and as printed from four on.
    """
    power = min(depth - 1, 3) if form == "forward_mode" else 3
    return 6 * (depth - 1) * d < power * smoothness


def crossover(orders: Callable[[float], Orders], low: float = 1e-280, high: float = 0.5) -> float:
    """The largest eps from which on, downwards, the deep network is cheaper; 0 if it never is.

    >>> 1e-14 < crossover(lambda eps: smooth_orders(eps, 1, 3, 2, "printed")) < 1e-13
    True
    """

    def cheaper(log: float) -> bool:
        sizes = orders(math.exp(log))
        return sizes.deep < sizes.shallow

    steps = 4000
    grid = [math.log(low) + (math.log(high) - math.log(low)) * i / steps for i in range(steps + 1)]
    if not cheaper(grid[0]):
        return 0.0
    first = next((i for i, log in enumerate(grid) if not cheaper(log)), None)
    if first is None:
        return high
    inside, outside = grid[first - 1], grid[first]
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if cheaper(middle) else (inside, middle)
    return math.exp(inside)


def exponent(f: Callable[[float], float], eps: float, step: float = 0.5) -> float:
    """d log f / d log(1/eps) between eps and a part of it."""
    return math.log(f(eps * step) / f(eps)) / math.log(1 / step)


def _one_of(forms: dict[str, tuple[Callable[[], float], Callable[[], float]]], form: str) -> Orders:
    if form not in forms:
        raise InvalidParameter("form", form, f"be one of {sorted(forms)}")
    shallow, deep = forms[form]
    return Orders(_finite_or_infinite(shallow), _finite_or_infinite(deep))


def _finite_or_infinite(f: Callable[[], float]) -> float:
    try:
        return f()
    except OverflowError:
        return math.inf
