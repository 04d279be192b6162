"""Sizes of the (2N+4)-layer stack: parameter norms, and units of a fit (counts: costs/stacks.py).

The norm of a layer is (C.1) of [DEEP]: the largest |Q|_1 or |K|_1, plus the sum of all |V|_1, plus |W_1|_1
and |W_2|_1; |A|_1 is the norm induced by the vector norm, the largest sum of absolute values of a column.
"""

from __future__ import annotations

import math

# -- norms of layers -----------------------------------------------------------------------------


def printed_forward_norm(width: int, C: float) -> float:
    """1 + K C_1.

    Statement: [DEEP] Lemma 2

    Differs from the paper: no; the proof ends at 1 + C_1.
    """
    return 1 + width * C


def forward_norm(n_units: int, C: float) -> float:
    """1 + (units of the layer) C_1: every unit has heads with sum |c_m| = C_1.

    Statement: [DEEP] Lemma 2

    Differs from the paper: the output layer has d units, and d may exceed K.
    """
    return 1 + n_units * C


def printed_slope_norm(n_layers: int, width: int, C: float) -> float:
    """1 + K (N-1) C_2.

    Statement: [DEEP] Lemma 3

    Differs from the paper: no.
    """
    return 1 + width * (n_layers - 1) * C


def n_activations(n_layers: int, width: int, d: int) -> int:
    """(N-1) K + d: entries of p, of r' and of s.

    Statement: [DEEP] Lemma 3

    Differs from the paper: it prints (N-2) K + d for r'.
    """
    return (n_layers - 1) * width + d


def slope_norm(n_layers: int, width: int, d: int, C: float) -> float:
    """1 + ((N-1) K + d) C_2.

    Statement: [DEEP] Lemma 3

    Differs from the paper: the d slopes of the output layer are counted as well.
    """
    return 1 + n_activations(n_layers, width, d) * C


def printed_loss_norm(radius: float, C: float) -> float:
    """max(R_3 + 1, C_3).

    Statement: [DEEP] Lemma 4

    Differs from the paper: no.
    """
    return max(radius + 1, C)


def loss_norm(n_units: int, gate: float, c_max: float) -> float:
    """M_3 (R_3 + 1) + max |c_m|: the mask -R_3 (1 - t) puts R_3 into one column for every unit.

    Statement: [DEEP] Lemma 4

    Differs from the paper: its R_3 + 1 is the largest row of W_1, and (C.1) adds W_2, no maximum.
    """
    return n_units * (gate + 1) + c_max


def printed_update_norm(lr: float, n_layers: int, width: int) -> float:
    """1 + 2 eta N K.

    Statement: [DEEP] Theorem 1

    Differs from the paper: no.
    """
    return 1 + 2 * lr * n_layers * width


def update_norm(lr: float, n_activations_: int, mean_factor: float = 1.0) -> float:
    """1 + eta ((N-1) K + d) (n+1)/n: two heads an activation, each with |V|_1 = eta (n+1) / (2n).

    Statement: [DEEP] Theorem 1

    Differs from the paper: it counts N K activations, too few if d > K.
    """
    return 1 + lr * n_activations_ * mean_factor


def printed_stack_norm(C_w: float) -> float:
    """The bound O(eta) + C_w + 1 of Theorem 1 as eta goes to 0.

    Statement: [DEEP] Theorem 1

    Differs from the paper: no.
    """
    return C_w + 1


# -- sums of ReLUs -------------------------------------------------------------------------------


def printed_smoothness(k: int) -> int:
    """s = ceil((k-1)/2) + 1: derivatives Lemma 7 asks for.

    Statement: [DEEP] Lemma 7

    Differs from the paper: no.
    """
    return math.ceil((k - 1) / 2) + 1


def smoothness(k: int) -> int:
    """s = ceil((k-1)/2) + 2, the C^2 and C^3 that Lemmas 2 to 4 speak of.

    Statement: [DEEP] Lemma 7

    Differs from the paper: one more; `wave_weight` refutes the printed order for k = 1.
    """
    return math.ceil((k - 1) / 2) + 2


def printed_relu_units(eps: float, C_l: float) -> float:
    """C_l^2 log(1 + C_l/eps) / eps^2, its constant C(k) left out.

    Statement: [DEEP] Lemma 7

    Differs from the paper: no.
    """
    return C_l**2 * math.log(1 + C_l / eps) / eps**2


def relu_units(eps: float, C_l: float) -> int:
    """Units that are enough for k = 1: ceil(sqrt(C_l / (2 eps))) + 1.

    Statement: [DEEP] Lemma 7

    M equal segments of [-R, R] err by (2R/M)^2/8 |f''| <= C_l / (2 M^2), since R^2 |f''| <= C_l.

    Differs from the paper: eps^(-1/2), where it has eps^-2.

    >>> relu_units(1e-4, 2.0), f"{printed_relu_units(1e-4, 2.0):.0e}"
    (101, '4e+09')
    """
    return math.ceil(math.sqrt(C_l / (2 * eps))) + 1


def relu_weight(C_l: float) -> float:
    """sum |c_m| <= 7 C_l for k = 1 and R >= 1, whatever the number of segments.

    Statement: [DEEP] Lemma 7

    |f(-R)| + |f'| (1 + R) + 2R |f''| (1 + R) with R^i |f^(i)| <= C_l.

    Differs from the paper: C(1) = 7 is given.
    """
    return 7 * C_l


def wave_weight(frequency: float) -> float:
    """What sum |c_m| must be at least to follow sin(w t)/w on [-1, 1] to half its amplitude.

    Statement: [DEEP] Lemma 7

    At two extremes pi/w apart the sum differs by 1/w or more, so its slope is 1/pi or more in between, with
    alternating sign; a unit changes the slope by |c_m| at most.

    Differs from the paper: C_l = 1 for every w with its s = 1, so no constant C(1) can do.
    """
    extremes = math.floor(frequency / math.pi - 0.5) * 2 + 2
    return max(0, extremes - 2) * 2 / math.pi
