"""One layer of linear self-attention that is trained on gradient descent: model, starts and losses of [LSA].

Tokens are rows [x, y, w, 1]: data (x_j, y_j, 0, 0), then the chain (0, 0, w_i, 1). The layer is
f(Z) = Z + V Z (Z^T W Z) / n with n data tokens, all entries of V and W free, and the last token of f is the
next member of the chain. With exact members before it all steps of a chain are one batched pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.lab.training.schedule import cosine
from icgd.mechanisms.loops.linear_attention.layer import chain_layer, chain_layout
from icgd.papers.lsa.statements.cases import Prompts

Start = Literal["construction", "spectral", "ill-conditioned", "random"]
SPECTRAL_SIZE = 0.1
"""Size of the eigenvalues a training starts from, and of the entries of random starts."""


def descent(given: Prompts, lr: float, steps: int) -> Tensor:
    """(B, steps + 1, d): w_0 = 0 and the iterates of gradient descent on 1/(2n) |X w - y|^2."""
    S, path = given.moments, [torch.zeros_like(given.target)]
    for _ in range(steps):
        path.append(path[-1] - lr * torch.einsum("bij,bj->bi", S, path[-1] - given.target))
    return torch.stack(path, 1)


def legendre_prompts(count: int, n: int, d: int, generator: torch.Generator) -> Prompts:
    """Features of one variable x that is even on [-1, 1]: polynomials of degree 1 to d.

    Those of Legendre, scaled to variance 1: uncorrelated like N(0, I), feature k at most sqrt(2k + 1).
    """
    x = 2 * torch.rand(count, n, generator=generator, dtype=torch.float64) - 1
    features = [torch.ones_like(x), x]
    for k in range(1, d):
        features.append(((2 * k + 1) * x * features[-1] - k * features[-2]) / (k + 1))
    scaled = [math.sqrt(2 * k + 1) * f for k, f in enumerate(features)][1:]
    weights = torch.randn(count, d, generator=generator, dtype=torch.float64)
    return Prompts(torch.stack(scaled, -1), weights)


OFTEN = 5
"""Steps between looks where much happens."""


class ChainModel:
    """V and W of one layer, on prompts of d features; entries outside `free` keep their values."""

    def __init__(self, d: int, start: Start, generator: torch.Generator) -> None:
        self.d, self.layout = d, chain_layout(d)
        self.x, self.y, self.w, self.one = (
            self.layout.index(name).reshape(-1) for name in ("x", "y", "w", "one")
        )
        self.V, self.W = _started(self, start, generator)
        self.free_V, self.free_W = torch.ones_like(self.V), torch.ones_like(self.W)
        # (c V, W / c) is the same model: one entry is fixed, and parameters can be compared.
        self.free_W[self.y, self.one] = 0.0
        for matrix in (self.V, self.W):
            matrix.requires_grad_(True)

    @property
    def V31(self) -> Tensor:  # noqa: N802 - the name of the block
        """From x to w."""
        return self.V[self.w][:, self.x]

    @property
    def W13(self) -> Tensor:  # noqa: N802 - the name of the block
        """From w to x."""
        return self.W[self.x][:, self.w]

    def only_blocks(self) -> None:
        """Let V31 and W13 alone be trained."""
        self.free_V.zero_()
        self.free_W.zero_()
        self.free_V[self.w.unsqueeze(1), self.x] = 1.0
        self.free_W[self.x.unsqueeze(1), self.w] = 1.0

    def without_targets(self) -> None:
        """Keep the column of V that targets speak through: its curvature is d^2 times that of V31."""
        self.free_V[:, self.y] = 0.0

    def data_tokens(self, given: Prompts) -> Tensor:
        """(B, n, D)."""
        return self.layout.pack({"x": given.X, "y": given.y}, batch=given.X.shape[:2])

    def chain_tokens(self, weights: Tensor) -> Tensor:
        """(B, k, D) of weights (B, k, d)."""
        return self.layout.pack({"w": weights, "one": 1.0}, batch=weights.shape[:2])

    def next_tokens(self, given: Prompts, chain: Tensor) -> Tensor:
        """f at every token of a chain (B, k, D), each seeing the data and the chain up to itself."""
        data = self.data_tokens(given)
        k, n = chain.shape[1], data.shape[1]
        speaking = torch.cat([data, chain], 1)
        scores = (chain @ self.W.T) @ speaking.mT
        seen = torch.ones(k, n + k, dtype=scores.dtype)
        seen[:, n:] = torch.ones(k, k, dtype=scores.dtype).tril()
        return chain + (scores * seen) @ (speaking @ self.V.T) / n

    def roll_out(self, given: Prompts, steps: int) -> Tensor:
        """(B, steps + 1, d): the weights of a chain the model writes itself, every token as it comes."""
        chain = self.chain_tokens(given.X.new_zeros(given.X.shape[0], 1, self.d))
        for _ in range(steps):
            chain = torch.cat([chain, self.next_tokens(given, chain)[:, -1:]], 1)
        return chain[..., self.w]

    def loop(self, given: Prompts, steps: int) -> Tensor:
        """(B, d): the weights after a loop that replaces its one token instead of appending."""
        token = self.chain_tokens(given.X.new_zeros(given.X.shape[0], 1, self.d))
        for _ in range(steps):
            token = self.next_tokens(given, token)
        return token[:, 0, self.w]


def _started(model: ChainModel, start: Start, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    d, D = model.d, model.layout.width
    if start == "construction":
        layer = chain_layer(model.layout, 1.0, 1, torch.float64)
        return layer.V.detach().clone(), layer.W.detach().clone()
    V, W = (torch.zeros(D, D, dtype=torch.float64) for _ in range(2))
    if start == "random":
        V, W = (
            SPECTRAL_SIZE * torch.randn(D, D, generator=generator, dtype=torch.float64)
            for _ in range(2)
        )
    else:
        if start == "spectral":
            sizes = [
                SPECTRAL_SIZE * (0.5 + torch.rand(d, generator=generator, dtype=torch.float64))
                for _ in range(2)
            ]
        elif start == "ill-conditioned":
            sizes = [torch.logspace(-3, -0.5, d, dtype=torch.float64) for _ in range(2)]
        else:
            raise InvalidParameter(
                "start", start, "be construction, spectral, ill-conditioned or random"
            )
        Q = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))[0]
        V[model.w.unsqueeze(1), model.x] = -Q @ torch.diag(sizes[0]) @ Q.T
        W[model.x.unsqueeze(1), model.w] = Q @ torch.diag(sizes[1]) @ Q.T
    W[model.y, model.one] = -1.0
    return V, W


# -- losses -------------------------------------------------------------------------------------------------


def chain_loss(
    model: ChainModel, given: Prompts, lr: float, steps: int, last_is_target: bool = False
) -> Tensor:
    """1/2 E sum_i |f(Z_i)[last] - (0, 0, w_{i+1}, 1)|^2 with exact w_0 .. w_i in Z_i.

    last_is_target  the last of these w is the true one instead of a step of descent
    """
    path = descent(given, lr, steps)
    if last_is_target:
        path[:, -1] = given.target
    predicted = model.next_tokens(given, model.chain_tokens(path[:, :-1]))
    return 0.5 * (predicted - model.chain_tokens(path[:, 1:])).square().sum((1, 2)).mean()


def outcome_loss(model: ChainModel, given: Prompts, steps: int) -> Tensor:
    """1/2 E |w - w*|^2 after a loop of so many steps; one step: no chain of thought."""
    return 0.5 * (model.loop(given, steps) - given.target).square().sum(1).mean()


def recovery(weights: Tensor, given: Prompts) -> Tensor:
    """(B,): 1/2 |w - w*|^2 of every prompt."""
    return 0.5 * (weights - given.target).square().sum(1)


# -- training -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Watched:
    """What is seen of a training now and then: step, loss, norm of the gradient."""

    step: int
    loss: float
    gradient: float


def fit(
    model: ChainModel,
    loss_of: Callable[[int], Tensor],
    *,
    steps: int,
    rate: float,
    optimizer: Literal["adam", "gd"] = "adam",
    every: int = 50,
    clip: float = math.inf,
    early: int = 0,
) -> Iterator[Watched]:
    """Minimise; yields before the first step, every so many steps, and after the last one.

    loss_of  the loss of a step, on prompts of its own
    every    steps between looks
    early    so many of the first are looked at more often
    clip     the largest norm of a gradient; longer ones are cut to it
    """
    parameters = [model.V, model.W]
    stepper: torch.optim.Optimizer = (
        torch.optim.Adam(parameters, lr=rate)
        if optimizer == "adam"
        else torch.optim.SGD(parameters, lr=rate)
    )
    for step in range(steps + 1):
        if optimizer == "adam":
            for group in stepper.param_groups:
                group["lr"] = rate * cosine(step, steps)
        stepper.zero_grad()
        loss = loss_of(step)
        loss.backward()
        for matrix, free in ((model.V, model.free_V), (model.W, model.free_W)):
            assert matrix.grad is not None
            matrix.grad.mul_(free)
        if step % (min(every, OFTEN) if step <= early else every) == 0 or step == steps:
            norm = math.sqrt(
                sum(float(p.grad.square().sum()) for p in parameters if p.grad is not None)
            )
            yield Watched(step, float(loss.detach()), norm)
        if step < steps and math.isfinite(float(loss.detach())):
            torch.nn.utils.clip_grad_norm_(parameters, clip)
            stepper.step()
