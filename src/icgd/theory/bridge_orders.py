"""What a transformer costs that trains an n-layer network in context, counted, and the orders the paper states.

A layer-by-layer count (`layers`, `heads`, `matrices`) is exact for the forward-mode stack of one attention
layer per layer of the network. The paper's orders are kept beside it as printed and as its own proofs give
them, constants set to one, so that exponents and crossovers can be computed and not argued about.

widths = (K_0, .., K_n), K_0 = d, K_n = 1.    M_1, M_3, M_4  units in the fits of r, s r'(t), identity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icgd.errors import InvalidParameter


@dataclass(frozen=True)
class Units:
    """Units per fit, both of every pair: M_1 for r, M_3 for s r'(t), M_4 for the identity."""

    r: int = 100
    product: int = 100
    identity: int = 2


def printed_layers(n: int) -> int:
    """Layers for one step on an n-layer network by the recursion, taken literally.

    Statement: [BRIDGE] Remark 2

    a_2 = 2, a_n = a_{n-1} + n + 1: n - 1 layers forward, a_{n-1} for the gradients of the layers below, one
    for the product, one for the update.

    Differs from the paper: no. The gradients of the layers below can be made on the way up: n layers.

    >>> [printed_layers(n) for n in range(2, 7)]
    [2, 6, 11, 17, 24]
    """
    _check_depth(n)
    return 2 + sum(k + 1 for k in range(3, n + 1))


def layers(n: int) -> int:
    """Layers that suffice: one per layer of the network."""
    _check_depth(n)
    return n


def heads(widths: Sequence[int], units: Units | None = None) -> list[int]:
    """Heads of each layer of the forward-mode stack.

    Statement: [BRIDGE] Theorem 2

    Layer p < n: K_p M_1 + K_p (K_{p-1} + sum_{i<p} K_i K_{i-1}) M_3; layer n: M_4.
    A two-layer network needs K_1 M_1 and K_1 (M_3 + M_1): no factor of d, as gradients stay on the key side.

    Differs from the paper: it counts n K^2 M in each layer; every one of the K rows has a gradient with
    respect to every weight below, which is n K^3 M from four layers on, d K^2 M for three, K M for two.

    >>> heads((3, 4, 4, 1), Units(200, 200, 80))
    [3200, 13600, 80]
    """
    m, n = units or Units(), len(widths) - 1
    _check_depth(n)
    if n == 2:
        return [widths[1] * m.r, widths[1] * (m.product + m.r)]
    found, below = [], 0
    for p in range(1, n):
        found.append(widths[p] * m.r + widths[p] * (widths[p - 1] + below) * m.product)
        below += widths[p] * widths[p - 1]
    return [*found, m.identity]


def token_size(widths: Sequence[int]) -> int:
    """Entries of a token: data, weights, every z_p and a_p, every stored gradient, three flags.

    Statement: [BRIDGE] Theorem 2

    Differs from the paper: its D = O(n K^2 eps^-2) is the width of an MLP; a token's size has no eps in it
    and grows like n^2 K^3.

    >>> token_size((3, 4, 4, 1)), token_size((2, 3, 3, 3, 1)), token_size((3, 4, 1))
    (128, 136, 24)
    """
    K, n = list(widths), len(widths) - 1
    _check_depth(n)
    weights = sum(K[p] * K[p - 1] for p in range(1, n + 1))
    if n == 2:
        return K[0] + 1 + weights + 4
    stored = sum(K[p] * sum(K[i] * K[i - 1] for i in range(1, p)) for p in range(2, n + 1))
    return K[0] + 1 + weights + sum(K[2:]) + sum(K[1:n]) + stored + 3


def matrices(widths: Sequence[int], units: Units | None = None) -> int:
    """Parameter matrices: three per head and two per MLP, one MLP per layer.

    >>> matrices((6, 16, 1), Units(10, 10, 2))
    1444
    """
    counted = heads(widths, units)
    return 3 * sum(counted) + 2 * len(counted)


def printed_size(n: int, width: float, *, layer_order: int = 1) -> float:
    """Layers times heads as the paper multiplies them: n^k n K^2 with constants one.

    Statement: [BRIDGE] Theorem 3

    layer_order  1 in the proof of Theorem 3 (n^2 K^2), 2 by Remark 2 (n^3 K^2), which Theorem 4 uses

    Differs from the paper: its proof calls n K^2 the number of layers; it is that of heads.
    """
    return n**layer_order * n * width**2


def counted_size(n: int, width: float, d: float) -> float:
    """Heads of all layers as counted, equal widths and one unit per fit; float, as widths may be huge.

    2 layers 3 K, 3 layers about d K^2, n >= 4 layers about n^2 K^3 / 2.

    >>> counted_size(4, 5, 3) == sum(heads((3, 5, 5, 5, 1), Units(1, 1, 0)))
    True
    """
    if n == 2:
        return 3 * width
    above = (width + width * (width + width * d + (p - 2) * width**2) for p in range(2, n))
    return width + width * d + sum(above)


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

    form  "printed"  exp(2 eps^-1/4) and eps^-1
          "proof"    n^2 K^2 with the widths it names: 4 exp(2 eps^-1/4) and 9 eps^-2
          "growing"  the same with d = eps^-1/4, which Lemma 1 needs: K = eps^-3/2, so 9 eps^-3
          "counted"  heads as counted, equal widths, d = eps^-1/4: 3 exp(eps^-1/4) and eps^-13/4

    Differs from the paper: printed eps^-1 is neither its proof's nor the count's, d K^2 = d eps^-2.

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
        "counted": (lambda: counted_size(2, wide(), d), lambda: counted_size(3, eps**-1.5, d)),
    }
    return _one_of(forms, form)


def smooth_orders(eps: float, d: int, smoothness: int, depth: int, form: str) -> Orders:
    """Theorem 4 at one eps; shallow is the network of fixed depth.

    Statement: [BRIDGE] Theorem 4

    form  "printed"  eps^(-1/(L-1)) and ln(1/eps)^3 eps^(-2d/n)
          "counted"  heads as counted at depths L and ln(1/eps) + 1

    Differs from the paper: the fixed-depth side is a lower bound. Counted, it costs K for L = 2, K^2 for
    L = 3, K^3 above, against K^3 for the deep one: see `smooth_condition`.
    """
    narrow, log = eps ** (-d / smoothness), math.log(1 / eps)
    wide = eps ** (-1 / (2 * (depth - 1)))
    levels = max(4, math.ceil(log + 1))
    forms: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
        "printed": (lambda: wide**2, lambda: log**3 * narrow**2),
        "counted": (lambda: counted_size(depth, wide, d), lambda: counted_size(levels, narrow, d)),
    }
    return _one_of(forms, form)


def smooth_condition(d: int, smoothness: int, depth: int, form: str) -> bool:
    """Whether the deep network is cheaper for all eps small enough.

    Statement: [BRIDGE] Theorem 4

    Differs from the paper: printed 2 (L-1) d < n; counted, 6 (L-1) d < k n with k = min(L-1, 3), so 6 d < n
    for two and for three layers, and as printed from four on.
    """
    power = 3 if form == "printed" else min(depth - 1, 3)
    return 6 * (depth - 1) * d < power * smoothness


def crossover(orders: Callable[[float], Orders], low: float = 1e-280, high: float = 0.5) -> float:
    """The largest eps from which on, downwards, the deep network is cheaper; 0 if it never is.

    >>> 1e-14 < crossover(lambda eps: smooth_orders(eps, 1, 3, 2, "printed")) < 1e-13
    True
    """

    def cheaper(log: float) -> bool:
        found = orders(math.exp(log))
        return found.deep < found.shallow

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


def depth_at_equal_heads(width: float, wider: float, depth: float, *, power: int = 3) -> float:
    """How deep a network of another width may be at the same number of heads per layer.

    Statement: [BRIDGE] Theorem 2

    power  3 as counted (n K^3, four layers and more), 2 as printed (n K^2)

    Differs from the paper: halving the width pays for 8 times the depth, where it says 4.

    >>> depth_at_equal_heads(16, 8, 3), depth_at_equal_heads(16, 8, 3, power=2)
    (24.0, 12.0)
    """
    return depth * (width / wider) ** power


def exponent(f: Callable[[float], float], eps: float, step: float = 0.5) -> float:
    """d log f / d log(1/eps) between eps and a part of it."""
    return math.log(f(eps * step) / f(eps)) / math.log(1 / step)


def _check_depth(n: int) -> None:
    if n < 2:
        raise InvalidParameter("widths", n, "describe a network of at least two layers")


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
