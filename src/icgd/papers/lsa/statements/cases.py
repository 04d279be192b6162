"""Gaussian prompts and the chain-of-thought objective, for the rows of [LSA]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import torch
from torch import Tensor

from icgd.mechanisms import compile as compile_program
from icgd.mechanisms.loops.linear_attention.layer import chain_layer, chain_layout
from icgd.oracle.least_squares import gd_path
from icgd.problems import GD, LinearRegression
from icgd.transformer.nn.chain.linear_attention_layer import LinearAttentionLayer
from icgd.transformer.program import Program

SIZES = ((10, 20), (10, 50), (10, 100), (5, 20), (20, 40))
"""(d, n) at which the one-step floor is held against simulation."""
TRAINING = "the rest needs training: experiment lsa-train"


@dataclass(frozen=True)
class Prompts:
    """X (b, n, d), w* (b, d) and y = X w*."""

    X: Tensor
    target: Tensor

    @property
    def y(self) -> Tensor:
        """Labels without noise."""
        return (self.X @ self.target.unsqueeze(-1)).squeeze(-1)

    @property
    def moments(self) -> Tensor:
        """S = X^T X / n of every prompt."""
        return self.X.mT @ self.X / self.X.shape[-2]


def prompts(d: int, n: int, count: int, seed: int = 0, spectrum: Tensor | None = None) -> Prompts:
    """Gaussian prompts of a seed."""
    return gaussian_prompts(count, n, d, torch.Generator().manual_seed(seed), spectrum)


def gaussian_prompts(
    count: int, n: int, d: int, generator: torch.Generator, spectrum: Tensor | None = None
) -> Prompts:
    """w* ~ N(0, I); inputs have covariance diag(spectrum), the identity unless given."""
    X = torch.randn(count, n, d, generator=generator, dtype=torch.float64)
    if spectrum is not None:
        X = X * spectrum.sqrt()
    return Prompts(X, torch.randn(count, d, generator=generator, dtype=torch.float64))


def losses_after(given: Prompts, lr: float, steps: tuple[int, ...]) -> dict[int, Tensor]:
    """1/2 |w_k - w*|^2 of every prompt after k exact steps from 0, for every k asked for."""
    gap, done, losses = -given.target.unsqueeze(-1), 0, {}
    S = given.moments
    for k in sorted(steps):
        for _ in range(k - done):
            gap = gap - lr * (S @ gap)
        done = k
        losses[k] = gap.square().sum(dim=(-2, -1)) / 2
    return losses


@cache
def simulated(
    d: int, n: int, lr: float, steps: tuple[int, ...], count: int = 20_000
) -> dict[int, Tensor]:
    """The same, on prompts of these sizes."""
    return losses_after(prompts(d, n, count), lr, steps)


def chain_program(d: int, n: int, lr: float) -> Program:
    """The compiled chain of thought."""
    return compile_program(LinearRegression(n_features=d, n_examples=n), GD(lr), attention="linear")


def exact_path(X: Tensor, y: Tensor, lr: float, k: int) -> Tensor:
    """w_1 .. w_k of exact gradient descent from 0, (k, d)."""
    return torch.stack(gd_path(X, y, lr, k))


def rounding_bound(program: Program, X: Tensor, y: Tensor, path: Tensor) -> float:
    """What k certified steps may be off if exact steps push errors no further apart (lr lambda_max <= 2).

    Scaled to the largest label and weight vector met, and to the inputs' size if that is above the radius.
    """
    scale = max(float(y.abs().max()), float(path.norm(dim=-1).max()), 1.0)
    size = max(1.0, float(X.norm(dim=-1).max()) / program.certificate.domain) ** 2
    # Twice: the oracle rounds as well. sqrt(d) turns entries into a norm.
    k, d = path.shape
    return 2 * k * d**0.5 * scale * size * program.certificate.sup_error


def cot_layer(d: int, n: int, lr: float) -> LinearAttentionLayer:
    """A layer whose V and W take gradients, at the construction."""
    return chain_layer(chain_layout(d), lr, n, torch.float64).requires_grad_(True)


def cot_loss(layer: LinearAttentionLayer, given: Prompts, lr: float, k: int) -> Tensor:
    """1/2 mean over prompts of sum_i |f(Z_i)[last] - (0, 0, w_{i+1}, 1)|^2, Z_i with the exact w_0 .. w_i.

    Statement: [LSA] Theorem 4.1

    Differs from the paper: the last target is a step of descent; whether it is w* there is not known.
    """
    layout, b, n = layer.layout, given.X.shape[0], given.X.shape[1]
    w = given.X.new_zeros(b, given.X.shape[2])
    tokens = layout.pack({"x": given.X, "y": given.y}, batch=(b, n))
    total = given.X.new_zeros(())
    for _ in range(k):
        now = layout.pack({"w": w, "one": 1.0}, batch=(b,))
        tokens = torch.cat([tokens, now.unsqueeze(-2)], dim=-2)
        gap = (given.X @ w.unsqueeze(-1)).squeeze(-1) - given.y
        w = w - lr * (given.X.mT @ gap.unsqueeze(-1)).squeeze(-1) / n
        aim = layout.pack({"w": w, "one": 1.0}, batch=(b,))
        total = total + (layer(tokens)[..., -1, :] - aim).square().sum(dim=-1).mean() / 2
    return total


def cot_gradients(
    layer: LinearAttentionLayer, given: Prompts, lr: float, k: int
) -> tuple[float, Tensor, Tensor]:
    """The objective and its gradients in V and W."""
    with torch.enable_grad():
        loss = cot_loss(layer, given, lr, k)
        V, W = torch.autograd.grad(loss, (layer.V, layer.W))
    return float(loss.detach()), V, W


def mirrored(given: Prompts) -> Prompts:
    """Every prompt together with its images under all sign changes of coordinates: a symmetric sample."""
    d = given.X.shape[2]
    signs = torch.tensor(list(product((1.0, -1.0), repeat=d)), dtype=torch.float64)
    X = (given.X.unsqueeze(0) * signs[:, None, None, :]).flatten(0, 1)
    return Prompts(X, (given.target.unsqueeze(0) * signs[:, None, :]).flatten(0, 1))
