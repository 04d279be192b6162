"""A network written out and its gradient by autograd, the oracle of the errata of [DEEP]."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

import icgd

F64 = torch.float64
seeds = pytest.mark.parametrize("seed", range(3))


def outputs(V, X, r):
    """p(0)..p(N)."""
    p = [X]
    for W in V:
        p.append(r(p[-1] @ W.T))
    return p


def gradient(V, X, Y, r, loss=lambda p, y: (p - y) ** 2):
    """Of 1/(2n) sum loss."""
    leaves = [W.clone().requires_grad_(True) for W in V]
    total = loss(outputs(leaves, X, r)[-1], Y).sum() / (2 * len(X))
    return list(torch.autograd.grad(total, leaves))


def random_network(widths, seed, scale=0.5, n=10):
    g = torch.Generator().manual_seed(seed)
    V = [scale * torch.randn(b, a, generator=g, dtype=F64) for a, b in pairwise(widths)]
    X = torch.randn(n, widths[0], generator=g, dtype=F64)
    return V, X, torch.rand(n, widths[-1], generator=g, dtype=F64) - 0.5


def apart(one, other):
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


def norm_of(one, other):
    return math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(one, other, strict=True)))


def compiled(network, lr=0.5, box=1.5, **options):
    chosen = {"radius": 5.0, "n_relu": 65, **options}
    return icgd.compile(network, icgd.GD(lr, box=box), method="stack", **chosen)


def activated(widths, act="tanh"):
    return icgd.Network(widths, act, output=act, bias=False)


def pairs(V):
    return [(W, None) for W in V]


def aligned(n_layers, K, B_v):
    return [torch.full((K, K), B_v / math.sqrt(K), dtype=F64) for _ in range(n_layers)]
