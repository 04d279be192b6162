"""Gradient flow on the chain-of-thought objective of [LSA], all entries of V and W free, in seconds.

With exact members of the chain before it, step i wants V G_i W z_i = w_{i+1} - w_i. G_i = Z_i Z_i^T / n does
not depend on the weights and is computed once; a gradient is then a few products of small matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from icgd.mechanisms.loops.linear_attention.layer import chain_layout
from icgd.papers.lsa.statements.cases import Prompts
from icgd.transformer.layout import Layout

SMALL = 0.1
"""Size of the eigenvalues or entries a flow starts from."""


@dataclass(frozen=True)
class ChainMoments:
    """What the objective needs of prompts and steps: G (m, D, D), z (m, D), the changes wanted (m, D)."""

    layout: Layout
    G: Tensor
    z: Tensor
    wanted: Tensor
    n_prompts: int

    def gradients(self, V: Tensor, W: Tensor) -> tuple[float, Tensor, Tensor]:
        """The objective and its gradients in V and W."""
        h = (self.G @ (self.z @ W.T).unsqueeze(-1)).squeeze(-1)
        off = h @ V.T - self.wanted
        back = (self.G @ (off @ V).unsqueeze(-1)).squeeze(-1)
        loss = float(off.square().sum()) / 2 / self.n_prompts
        return loss, off.T @ h / self.n_prompts, back.T @ self.z / self.n_prompts


def chain_moments(given: Prompts, lr: float, k: int) -> ChainMoments:
    """Moments of the prompts with the exact chain w_0 .. w_{k-1} appended."""
    b, n, d = given.X.shape
    layout, w = chain_layout(d), given.X.new_zeros(b, d)
    tokens = layout.pack({"x": given.X, "y": given.y}, batch=(b, n))
    G, z, wanted = [], [], []
    for _ in range(k):
        now = layout.pack({"w": w, "one": 1.0}, batch=(b,))
        tokens = torch.cat([tokens, now.unsqueeze(-2)], dim=-2)
        change = -lr * (given.moments @ (w - given.target).unsqueeze(-1)).squeeze(-1)
        G.append(tokens.mT @ tokens / n)
        z.append(now)
        wanted.append(layout.pack({"w": change}, batch=(b,)))
        w = w + change
    return ChainMoments(layout, torch.cat(G), torch.cat(z), torch.cat(wanted), b)


Start = Literal["shared", "apart", "random"]


def start(layout: Layout, kind: Start, seed: int) -> tuple[Tensor, Tensor]:
    """V and W before training.

    shared  small V31 < 0 and W13 > 0 with common eigenvectors, as Assumption 4.1 wants it, W24 = -1, all else 0
    apart   the same with eigenvectors of their own
    random  every entry normal, W24 included
    """
    g = torch.Generator().manual_seed(seed)
    x, y, w, one = (layout.index(name).reshape(-1) for name in ("x", "y", "w", "one"))
    d, D = len(x), layout.width

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    if kind == "random":
        return SMALL * normal(D, D), SMALL * normal(D, D)
    turns = [torch.linalg.qr(normal(d, d))[0] for _ in range(2)]
    if kind == "shared":
        turns[1] = turns[0]
    blocks = [
        Q @ torch.diag(SMALL * (0.5 + torch.rand(d, generator=g, dtype=torch.float64))) @ Q.T
        for Q in turns
    ]
    V, W = (torch.zeros(D, D, dtype=torch.float64) for _ in range(2))
    V[w.unsqueeze(1), x], W[x.unsqueeze(1), w], W[y, one] = -blocks[0], blocks[1], -1.0
    return V, W


def first_step(layout: Layout, V: Tensor, W: Tensor) -> Tensor:
    """M of w_1 = M b + (terms even in w*), b = 1/n sum y x: lr I if the layer does gradient descent."""
    x, y, w, one = (layout.index(name).reshape(-1) for name in ("x", "y", "w", "one"))
    return W[y][:, one] * V[w][:, x] + V[w][:, y] @ W[x][:, one].T


@dataclass(frozen=True)
class Flow:
    """Where plain gradient descent with steps that lower the objective ends.

    losses  at the start and at the end        evaluations  gradients computed
    """

    V: Tensor
    W: Tensor
    losses: tuple[float, float]
    evaluations: int


def flow(moments: ChainMoments, V: Tensor, W: Tensor, *, below: float, evaluations: int) -> Flow:
    """Explicit Euler steps along the negative gradient, shortened until the objective falls.

    below, evaluations  stop when the objective is below, or after so many gradients
    """
    size, evaluated = 1e-2, 1
    loss, in_V, in_W = moments.gradients(V, W)
    first = loss
    while loss > below and evaluated < evaluations:
        to_V, to_W = V - size * in_V, W - size * in_W
        new, *gradients = moments.gradients(to_V, to_W)
        evaluated += 1
        if new < loss:
            V, W, loss, (in_V, in_W), size = to_V, to_W, new, gradients, 1.02 * size
        else:
            size /= 2
    return Flow(V, W, (first, loss), evaluated)


def roll_out(layout: Layout, V: Tensor, W: Tensor, given: Prompts, k: int) -> Tensor:
    """w_1 .. w_k of a chain the layer writes itself, every token as it comes, (b, k, d)."""
    b, n = given.X.shape[:2]
    data = layout.pack({"x": given.X, "y": given.y}, batch=(b, n))
    tokens = torch.cat([data, layout.pack({"one": 1.0}, batch=(b, 1))], dim=-2)
    for _ in range(k):
        last = tokens[:, -1:]
        new = last + (last @ W.T @ tokens.mT) @ (tokens @ V.T) / n
        tokens = torch.cat([tokens, new], dim=1)
    return tokens[:, n + 1 :, layout.index("w")]
