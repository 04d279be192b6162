"""Heads and matrices of a transformer that trains an n-layer network in context, counted.

Theorem 2 of [BRIDGE] says that some transformer is small enough, so two constructions are counted: `heads`
and `matrices` are exact for the forward-mode stack, which follows the paper's proof;
`reverse_heads` and `reverse_matrices` for the backpropagating stack with `products="attention"`, which needs
fewer from three layers on.

widths = (K_0, .., K_n), K_0 = d, K_n = 1.    M_1, M_3, M_4  units in the fits of r, s r'(t), identity.
"""

from __future__ import annotations

from collections.abc import Sequence
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

    Differs from the paper: no. It is an upper bound: forward mode needs n layers, backpropagation 3n + 4.

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

    Differs from the paper: n K^2 M heads a layer suffice, by `reverse_heads`. Forward mode needs more, as each
    of the K rows has a gradient with respect to every weight below: n K^3 M from four layers on, d K^2 M for
    three, K M for two.

    >>> heads((3, 4, 4, 1), Units(200, 200, 80))
    [3200, 13600, 80]
    """
    m, n = units or Units(), len(widths) - 1
    _check_depth(n)
    if n == 2:
        return [widths[1] * m.r, widths[1] * (m.product + m.r)]
    per_layer, below = [], 0
    for p in range(1, n):
        per_layer.append(widths[p] * m.r + widths[p] * (widths[p - 1] + below) * m.product)
        below += widths[p] * widths[p - 1]
    return [*per_layer, m.identity]


def matrices(widths: Sequence[int], units: Units | None = None) -> int:
    """Parameter matrices: three per head and two per MLP, one MLP per layer.

    >>> matrices((6, 16, 1), Units(10, 10, 2))
    1444
    """
    counted = heads(widths, units)
    return 3 * sum(counted) + 2 * len(counted)


def reverse_heads(widths: Sequence[int], value: int = 100, slope: int = 100) -> list[int]:
    """Heads of each attention layer of the backpropagating stack with `products="attention"`.

    Statement: [BRIDGE] Theorem 2

    value, slope  units in the fits of r and r'; the linear output takes 2 and 1

    Forward layer p < n: K_p M_r; all slopes in one layer: sum_{p<n} K_p M_r' + 1; two heads a unit carry V^T s
    back, two a unit descend. The largest layer has O(n K M) heads, all of them together as well.

    Differs from the paper: another construction than its proof's, and fewer heads than the n K^2 M it allows.

    >>> reverse_heads((3, 4, 4, 1), 200, 200)
    [800, 800, 2, 1601, 2, 8, 8, 18]
    """
    _check_depth(len(widths) - 1)
    hidden, last = list(widths[1:-1]), widths[-1]
    forward = [k * value for k in hidden] + [2 * last]
    carried = [2 * k for k in reversed([*hidden, last])]
    return [*forward, sum(hidden) * slope + last, *carried, 2 * (sum(hidden) + last)]


def reverse_matrices(widths: Sequence[int], value: int = 100, slope: int = 100) -> int:
    """Parameter matrices of that stack: three per head, two for each of its n + 2 MLPs.

    Statement: [BRIDGE] Theorem 3

    Differs from the paper: it gives the order only.

    >>> reverse_matrices((6, 256, 1), 1, 2), reverse_matrices((6, 16, 16, 1), 1, 2)
    (5405, 703)
    """
    return 3 * sum(reverse_heads(widths, value, slope)) + 2 * (len(widths) + 1)


def reverse_size(n: int, width: float, units: int = 100) -> float:
    """Heads of all layers of that stack at equal widths; float, as widths may be huge.

    >>> reverse_size(4, 5) == sum(reverse_heads((3, 5, 5, 5, 1)))
    True
    """
    return (n - 1) * width * (2 * units + 4) + 7


def forward_mode_size(n: int, width: float, d: float) -> float:
    """Heads of all layers in forward mode, equal widths and one unit per fit; float, as widths may be huge.

    2 layers 3 K, 3 layers about d K^2, n >= 4 layers about n^2 K^3 / 2.

    >>> forward_mode_size(4, 5, 3) == sum(heads((3, 5, 5, 5, 1), Units(1, 1, 0)))
    True
    """
    if n == 2:
        return 3 * width
    above = (width + width * (width + width * d + (p - 2) * width**2) for p in range(2, n))
    return width + width * d + sum(above)


def _check_depth(n: int) -> None:
    if n < 2:
        raise InvalidParameter("widths", n, "describe a network of at least two layers")
