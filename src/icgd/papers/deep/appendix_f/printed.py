"""Formulas of Appendix F of [DEEP] as they stand there, and the search for what no block can tell apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

import torch
from torch import Tensor

F64 = torch.float64
HALVINGS = 80


def ramp_of_relus(z: Tensor, t: int, D: int, delta: float, side: float) -> Tensor:
    """The left-hand side of (F.6)."""
    above = z / delta - t * side / (delta * D)
    return (above.relu() - (above - side).relu()) / D


def ramp_by_cases(
    z: Tensor, t: int, D: int, delta: float, side: float, *, shifted: bool = False
) -> Tensor:
    """The right-hand side of (F.6); `shifted` measures the middle case from where the ramp starts."""
    start = t * side / D
    middle = (z - start if shifted else z) / (delta * D)
    high = torch.full_like(z, side / D)
    return torch.where(z < start, 0 * z, torch.where(z < delta * side + start, middle, high))


def levels_with_last_step(
    z: Tensor, D: int, delta: float, side: float, *, scaled: bool = False
) -> Tensor:
    """(F.10): the levels, and a last step that should lead back to 0; `scaled` gives it the height B."""
    levels = torch.stack([ramp_of_relus(z, t, D, delta, side) for t in range(D)]).sum(0)
    last = ((z - side) / delta).relu() - ((z - side) / delta - 1).relu()
    return levels - (side if scaled else 1.0) * last


def penalised(tokens: Tensor, levels: Tensor, side: float = 1.0) -> Tensor:
    """(F.12): every entry of the sequence outside the cube takes B from all entries of all tokens."""
    outside = ((tokens <= 0) | (tokens > side)).to(tokens)
    return levels - side * outside.sum((-2, -1), keepdim=True)


def spread_around(tokens: Tensor) -> Tensor:
    """f_k = sum_l |z_l - z_k|, in the first coordinate: Lipschitz and permutation equivariant."""
    far = torch.cdist(tokens, tokens).sum(-1)
    out = torch.zeros_like(tokens)
    out[..., 0] = far
    return out


def lipschitz_of_spread(n_tokens: int) -> float:
    """The Lipschitz constant of `spread_around` for d = 1: its Jacobian is constant for every order."""
    places = torch.arange(n_tokens, dtype=F64)
    norms = []
    for order in permutations(range(n_tokens)):
        at = places[list(order)].unsqueeze(-1)
        J = torch.autograd.functional.jacobian(lambda z: (z - z.T).abs().sum(1), at)
        norms.append(float(torch.linalg.matrix_norm(J.reshape(n_tokens, n_tokens), 2)))
    return max(norms)


@dataclass(frozen=True)
class BlindSpot:
    """Two sequences whose first token is the same after the attention layer.

    sequence   (token, slot)           all_same  the first token repeated
    difference  what is left of the difference by rounding, in v . A
    """

    sequence: Tensor
    all_same: Tensor
    difference: float


def blind_spot(
    phi: Callable[[Tensor], Tensor],
    value: Tensor,
    scores: Tensor,
    *,
    n_tokens: int = 3,
    per_side: int = 33,
) -> BlindSpot:
    """Halve the path of `theory.context_lookup.sup_norm_floor` until v . A = v . phi(z_1).

    phi  the first layer, on tokens of [0, 1]^d     value  v     scores  phi_1^T scores phi_l
    """
    d = len(value)
    ticks = torch.linspace(0, 1, per_side, dtype=F64)
    places = torch.cartesian_prod(*[ticks] * d).reshape(-1, d)
    seen = phi(places) @ value
    least, most = places[seen.argmin()], places[seen.argmax()]
    nearer = torch.minimum((places - least).norm(dim=1), (places - most).norm(dim=1))
    first = places[nearer.argmax()]

    def sequence(share: float) -> Tensor:
        second, third = (least.lerp(most, min(max(s, 0.0), 1.0)) for s in (share, share - 1))
        return torch.stack([first, second, third, *[first] * (n_tokens - 3)])

    def tilt(share: float) -> float:
        inner = phi(sequence(share))
        weights = torch.softmax(inner[0] @ scores @ inner.T, dim=0)
        return float(weights @ ((inner - inner[0]) @ value))

    low, high = 0.0, 2.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if tilt(middle) <= 0 else (low, middle)
    best = min((low, high), key=lambda share: abs(tilt(share)))
    return BlindSpot(sequence(best), first.expand(n_tokens, d), abs(tilt(best)))


def random_first_layer(d: int, seed: int, width: int = 24) -> Callable[[Tensor], Tensor]:
    """Some feed-forward layer H + W_2 relu(W_1 H + b_1)."""
    generator = torch.Generator().manual_seed(seed)
    W_in = 3 * torch.randn(d, width, generator=generator, dtype=F64)
    b_in = 2 * torch.randn(width, generator=generator, dtype=F64)
    W_out = torch.randn(width, d, generator=generator, dtype=F64) / width

    def layer(tokens: Tensor) -> Tensor:
        return tokens + torch.relu(tokens @ W_in + b_in) @ W_out

    return layer


def least_distance(points: Tensor, differ: Tensor) -> float:
    """Between the rows of `points`, over the pairs marked in `differ`."""
    # Differences, not dot products: the least distances are far below the rounding of squares.
    far = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    return float(far[differ].min())
