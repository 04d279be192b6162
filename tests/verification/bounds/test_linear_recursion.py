"""Errors of linear recursions: the bound holds for perturbed runs, and is reached to within a small factor."""

from __future__ import annotations

import pytest
import torch

from icgd.verification.bounds.linear_recursion import power_norms

F64 = torch.float64


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [1, 2, 9])
def test_norms_of_powers_are_those_of_the_powers(seed, n):
    g = torch.Generator().manual_seed(seed)
    step = torch.randn(3, 4, 4, generator=g, dtype=F64) / 2
    for k, norm in enumerate(power_norms(step, n)):
        exact = max(
            float(torch.linalg.matrix_norm(torch.linalg.matrix_power(m, k), 2)) for m in step
        )
        assert norm == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("momentum", [0.5, 0.9, 0.99])
def test_errors_of_every_round_end_within_the_sum_of_norms(momentum):
    """Heavy ball on a matrix: errors put into every round stay within sum_j |M^(k-j)| |e_j|."""
    g = torch.Generator().manual_seed(0)
    A = torch.randn(6, 4, generator=g, dtype=F64)
    H, lr, rounds = A.T @ A / 6, 0.1, 40
    values = torch.linalg.eigvalsh(H)
    blocks = torch.stack(
        [
            torch.tensor([[1 - lr * k, momentum], [-lr * k, momentum]], dtype=F64)
            for k in values.tolist()
        ]
    )
    norms = power_norms(blocks, rounds)
    clean = dirty = torch.zeros(2, 4, dtype=F64)
    worst, sizes = 0.0, []
    for k in range(rounds):
        noise = 1e-6 * torch.randn(2, 4, generator=g, dtype=F64)
        sizes.append(float(noise.norm()))
        clean, dirty = (_step(s, H, lr, momentum) for s in (clean, dirty))
        dirty = dirty + noise
        bound = sum(norms[k - j] * sizes[j] for j in range(k + 1))
        worst = max(worst, float((dirty - clean).norm()) / bound)
    assert 0.02 < worst <= 1.0


def _step(state, H, lr, momentum):
    w, v = state
    v = momentum * v - lr * (H @ w)
    return torch.stack([w + v, v])
