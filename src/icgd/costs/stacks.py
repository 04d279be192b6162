"""Bills of the two stacks: backpropagation in 2N+4 layers, forward differentiation in N layers.

Widths w_0 .. w_N, b = 1 with biases else 0, A = w_1 + .. + w_N, D_N all weights and biases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from icgd.costs.formulas import Bill, FitSize, Heads, LayerBill, Products, Units, n_weights

SIGNS = FitSize(2, (2,))
"""relu(z) - relu(-z)."""
PASS = FitSize(1, (1,))
"""One head whose score is constant."""


@dataclass(frozen=True)
class StackFits:
    """Sizes of the sums of ReLUs of a stack.

    value, slope  of r and r' for every network layer 1..N
    loss          (units, non-zero weights of all of them) for one output; squares need two
    square        of s^2, where products are made of squares; None where gates do it
    """

    value: Mapping[int, FitSize]
    slope: Mapping[int, FitSize]
    loss: tuple[int, int] = (2, 10)
    square: FitSize | None = None
    gated: frozenset[int] = field(default=frozenset())

    @classmethod
    def uniform(cls, n_layers: int, n_units: int) -> StackFits:
        """M units for every function, the first a constant: the paper's count.

        >>> StackFits.uniform(2, 17).value[1].uses
        (16, 17)
        """
        fit = FitSize(n_units, (n_units - 1, n_units))
        each = dict.fromkeys(range(1, n_layers + 1), fit)
        return cls(each, each)


def stack_width(widths: Sequence[int], bias: bool = False) -> int:
    """D = d_x + d_y + D_N + 3A + d_y + 2: the token of the stack.

    Statement: [DEEP] Theorem 1

    Differs from the paper: it counts r'(1..N) with (N-2)K + d entries; there are (N-1)K + d.

    >>> stack_width((3, 4, 4, 3))
    84
    """
    d_x, *rest = widths
    return d_x + 2 * rest[-1] + n_weights(widths, bias) + 3 * sum(rest) + 2


def stack_layers(n_layers: int, products: str = "exact") -> int:
    """2N+4 a step, or 3N+4 without multiplication layers.

    Statement: [DEEP] Theorem 1
    Statement: [DEEP] Remark 3

    Differs from the paper: no for 2N+4; it holds 3N+4 plain layers to be impossible.

    >>> stack_layers(3), stack_layers(3, "attention")
    (10, 13)
    """
    return 2 * n_layers + 4 if products == "exact" else 3 * n_layers + 4


def stack_dense_flops(
    widths: Sequence[int], n_units: int, n_tokens: int, *, bias: bool = False, box: bool = True
) -> int:
    """h_A (6 D^2 T + 4 D T^2) + A (6 D^2 T + 4 D T) + 4 H D T in one line, M units for r and r' each.

    Statement: [DEEP] B.3

    h_A = 2A M + 2A attention heads, A multiplication heads, H = 2 d_y + 2(3A + d_y) + 2 D_N hidden units.

    Differs from the paper: it gives the order only.
    """
    A, D, T = sum(widths[1:]), stack_width(widths, bias), n_tokens
    h_A = 2 * A * n_units + 2 * A
    hidden = 2 * widths[-1] + 2 * (3 * A + widths[-1]) + 2 * n_weights(widths, bias) * box
    return (
        h_A * (6 * D * D * T + 4 * D * T * T) + A * (6 * D * D * T + 4 * D * T) + 4 * hidden * D * T
    )


def stack_bill(
    widths: Sequence[int],
    fits: StackFits,
    *,
    bias: bool = False,
    products: str = "exact",
    box: bool = True,
) -> Bill:
    """One step of the (2N+4)-layer stack.

    Statement: [DEEP] Theorem 5

    Differs from the paper: biases; the last layer clears 3A + d_y slots besides projecting.
    """
    w, N = tuple(widths), len(widths) - 1
    d_y = w[-1]
    inputs = {j: w[j - 1] + bias for j in range(1, N + 1)}
    # Coordinates: what a layer reads of p(j-1), the rows of its weights, the constant 1.
    rows = {j: w[j - 1] + w[j] * inputs[j] + 1 for j in range(1, N + 1)}

    def reader(j: int, fit: FitSize) -> Heads:
        return Heads(w[j], fit, (inputs[j], 1), 1)

    layers = [
        LayerBill(f"forward{j}", (reader(j, fits.value[j]),), (rows[j] + w[j],))
        for j in range(1, N + 1)
    ]
    each = range(1, N + 1)
    layers.append(
        LayerBill(
            "slopes",
            tuple(reader(j, fits.slope[j]) for j in each),
            tuple(rows[j] + w[j] for j in each),
        )
    )
    units, entries = fits.loss
    layers.append(LayerBill("loss", (Units(d_y * units, d_y * entries),), (3 * d_y + 2,)))
    for j in reversed(each):
        layers += _signal(j, w, fits, products)
    descend = tuple(Heads(w[j], SIGNS, (1,), inputs[j]) for j in each)
    layers.append(LayerBill("descend", descend, tuple(rows[j] + w[j] for j in each)))
    # Clearing and projecting act on single coordinates: per layer, its own slots.
    parts = [Units(2 * n, 4 * n) for n in (*(3 * w[j] for j in each), d_y)]
    carried = [*(3 * w[j] for j in each), d_y]
    if box:
        parts += [Units(2 * w[j] * inputs[j], 6 * w[j] * inputs[j]) for j in each]
        carried += [w[j] * inputs[j] + 1 for j in each]
    layers.append(LayerBill("end", tuple(parts), tuple(carried)))
    return Bill(stack_width(w, bias), stack_layers(N, products), tuple(layers))


def _signal(j: int, w: tuple[int, ...], fits: StackFits, products: str) -> list[LayerBill]:
    """s(j) from s(j+1): one multiplication layer, or an attention and a feed-forward layer."""
    last = j == len(w) - 1
    r = 1 if last else w[j + 1]
    reads = w[j] + 1 if last else w[j + 1] * (1 + w[j])
    if products == "exact":
        return [LayerBill(f"signal{j}", (Products(w[j], r),), (reads + 2 * w[j],))]
    carry = LayerBill(f"carry{j}", (Heads(w[j], SIGNS, (r,), 1),), (reads + w[j] + (not last),))
    erase = Units(2 * w[j], 4 * w[j])
    if fits.square is None or j in fits.gated:
        units = Units(2 * w[j], 8 * w[j])
    else:
        M, (argument, constant) = fits.square.n_units, fits.square.uses
        units = Units(2 * w[j] * M, 2 * w[j] * (2 * argument + constant + M))
    both = 2 * w[j] + 1
    return [carry, LayerBill(f"multiply{j}", (units, erase), (both, both))]


# -- forward differentiation -----------------------------------------------------------------------


@dataclass(frozen=True)
class ForwardFits:
    """Sizes of the fits of r(t), s r'(t) and t, and of the loss as in StackFits."""

    value: FitSize
    product: FitSize
    identity: FitSize
    loss: tuple[int, int] = (2, 10)

    @classmethod
    def uniform(cls, n_value: int, n_product: int, n_identity: int) -> ForwardFits:
        """M_1, M_3 and M_4 units that weigh everything they see."""
        return cls(
            FitSize.full(n_value, 2), FitSize.full(n_product, 3), FitSize.full(n_identity, 2)
        )


def forward_width(widths: Sequence[int], bias: bool = False) -> int:
    """D of the n-layer recursion: x, y, w, z, g, 1, t; for N >= 3 also a and every derivative.

    Statement: [BRIDGE] Theorem 2

    d_x + d_y + D_N + sum_{p>=2} w_p + sum_{p<N} w_p + sum_{p>=2} w_p D_{p-1} + d_y + 2 = O(N^2 K^3).

    Differs from the paper: it leaves out the index of the unit a derivative belongs to.

    >>> forward_width((3, 4, 4, 1)), forward_width((3, 4, 1))
    (128, 24)
    """
    w, N = tuple(widths), len(widths) - 1
    stored = sum(w[min(2, N) :])
    if N > 2:
        stored += sum(w[1:N]) + sum(w[p] * n_weights(w, bias, p - 1) for p in range(2, N + 1))
    return w[0] + 2 * w[-1] + n_weights(w, bias) + stored + 2


def forward_bill(
    widths: Sequence[int], fits: ForwardFits, *, bias: bool = False, box: bool = True
) -> Bill:
    """One step of the recursion in N layers.

    Statement: [BRIDGE] Theorem 1
    Statement: [BRIDGE] Theorem 2

    Differs from the paper: N layers instead of O(N^2); any number of outputs; biases.
    """
    w, N = tuple(widths), len(widths) - 1
    d_in, d_y = w[0] + bias, w[-1]

    def argument(p: int) -> int:
        return d_in if p == 1 else 1

    def passing(values: int) -> list[Heads]:
        return [Heads(1, PASS, (1,), values)] if bias else []

    layers = []
    for p in range(1, N):
        parts = [Heads(w[p], fits.value, (argument(p), 1), w[p + 1] + (N > 2)), *passing(w[p + 1])]
        if N > 2:
            new, old = w[p] * (w[p - 1] + bias), w[p] * n_weights(w, bias, p - 1)
            products = [
                Heads(n, fits.product, (1, argument(p), 1), w[p + 1]) for n in (new, old) if n
            ]
            parts += products
        layers.append(LayerBill(f"attention{p}", tuple(parts)))
    if N == 1:
        layers.append(LayerBill("attention0", (Heads(w[1], fits.identity, (d_in, 1), 1),)))
    units, entries = fits.loss
    layers.append(LayerBill("loss", (Units(d_y * units, d_y * entries),)))
    if N == 2:
        last = [
            Heads(d_y * w[1], fits.product, (1, d_in, 1), d_in),
            Heads(w[1], fits.value, (d_in, 1), d_y),
            *passing(d_y),
        ]
    else:
        moved = n_weights(w, bias, N - 1) + w[N - 1] + bias
        last = [Heads(d_y, fits.identity, (1, 1), moved)]
    layers.append(LayerBill("descend", tuple(last)))
    D, D_N = forward_width(w, bias), n_weights(w, bias)
    scratch = D - w[0] - d_y - D_N - 2
    end = Units(2 * scratch + 2 * D_N * box, 4 * scratch + 6 * D_N * box)
    layers.append(LayerBill("end", (end,)))
    return Bill(D, max(N, 2), tuple(layers))
