"""Look-up blocks on data, shared by the checkers of Appendix F of [DEEP] and by the tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from icgd.papers.deep.appendix_f import printed as printed
from icgd.papers.deep.appendix_f.lookup import (
    ContextLookup,
    on_ramp,
    plain_wiring,
    prompt_wiring,
    tanh_step,
)
from icgd.papers.deep.appendix_f.mean_gradient import MeanGradientBlock

F64 = torch.float64
LR = 0.5
EXAMPLES = 2
STEPS = 10


@cache
def prompt_block(n_levels: int) -> ContextLookup:
    """The look-up of one step on tanh(w x) with two examples."""
    return ContextLookup(prompt_wiring(EXAMPLES), n_levels, tanh_step(LR))


def uniform(block: ContextLookup, count: int, seed: int = 0) -> Tensor:
    """Sequences with uniform free numbers."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.rand(count, len(block.wiring.free), generator=generator, dtype=F64)
    return block.wiring.fill(numbers, block.n_levels)


def sample(block: ContextLookup, count: int, seed: int = 0) -> Tensor:
    """The same without those that have a number on a ramp."""
    tokens = uniform(block, count, seed)
    return tokens[~on_ramp(tokens, block.n_levels, block.ramp).flatten(1).any(1)]


def onto_ramp(block: ContextLookup, count: int, free: str, seed: int = 0) -> Tensor:
    """The same, with one free number moved onto a ramp inside the cube."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.rand(count, len(block.wiring.free), generator=generator, dtype=F64)
    start = torch.randint(1, block.n_levels, (count,), generator=generator) / block.n_levels
    share = torch.rand(count, generator=generator, dtype=F64)
    numbers[:, block.wiring.free.index(free)] = start.to(F64) + share * block.ramp
    return block.wiring.fill(numbers, block.n_levels)


def exact_step(x: Tensor, y: Tensor, w: Tensor, lr: float = LR) -> Tensor:
    """Proj(w - lr grad) by automatic differentiation, for a batch of data sets (batch, n)."""
    at = w.detach().clone().requires_grad_(True)
    losses = 0.5 * (torch.tanh(at.unsqueeze(-1) * x) - y).square().mean(-1)
    (gradient,) = torch.autograd.grad(losses.sum(), at)
    return (w - lr * gradient).clamp(-1, 1)


def unpacked(block: ContextLookup, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(x, y, w) of a prompt in their own units, examples only."""
    x, y, w = (2 * tokens[..., block.wiring.column(s)] - 1 for s in ("x", "y", "w"))
    return x[:, :EXAMPLES], y[:, :EXAMPLES], w[:, 0]


def step_error(block: ContextLookup, tokens: Tensor) -> Tensor:
    """|w' - exact| in the test token after one pass."""
    x, y, w = unpacked(block, tokens)
    moved = 2 * block(tokens)[:, -1, block.wiring.column("w")] - 1
    return (moved - exact_step(x, y, w)).abs()


def walk_error(block: ContextLookup, tokens: Tensor, steps: int = STEPS) -> tuple[float, float]:
    """(error, way of w) after several steps, root mean squares."""
    x, y, start = unpacked(block, tokens)
    w = start
    for _ in range(steps):
        w = exact_step(x, y, w)
    moved = 2 * block.run(tokens, steps)[-1][:, -1, block.wiring.column("w")] - 1
    return rms(moved - w), rms(w - start)


def rms(values: Tensor) -> float:
    """The root of the mean square."""
    return float(values.square().mean().sqrt())


def mean_of_tokens(tokens: Tensor) -> Tensor:
    """f_k = mean of all tokens: Lipschitz constant 1."""
    return tokens.mean(-2, keepdim=True).expand_as(tokens)


def sequence_error(block: ContextLookup, f: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
    """The Frobenius norm of the miss, one number per sequence."""
    return (block(tokens) - f(tokens)).flatten(1).norm(dim=1)


def mean_gradient_errors(block: MeanGradientBlock, tokens: list[Tensor]) -> list[float]:
    """The largest error of each of ten steps, from where the block itself was before it."""
    x, y, w = (
        torch.cat(part)
        for part in zip(*(unpacked(prompt_block(2), t) for t in tokens), strict=True)
    )
    path = block.run(block.tokens(torch.cat([x, x[:, :1]], dim=1), y, w), STEPS)
    before = [w, *path[:-1]]
    return [float((b - exact_step(x, y, a)).abs().max()) for a, b in zip(before, path, strict=True)]


def blocks_that_cannot_see() -> tuple[float, float]:
    """(least f_1 over blind spots, largest difference there) of assorted first layers and heads."""
    least, left = math.inf, 0.0
    for d, n in ((1, 3), (1, 5), (2, 3)):
        for seed in range(4):
            generator = torch.Generator().manual_seed(seed)
            value, scores = (
                torch.randn(*s, generator=generator, dtype=F64) for s in ((d,), (d, d))
            )
            spot = printed.blind_spot(
                printed.random_first_layer(d, seed), value, scores, n_tokens=n
            )
            least = min(least, float(printed.spread_around(spot.sequence)[0, 0]))
            left = max(left, spot.difference)
    return least, left


def table_at_blind_spot(n_levels: int) -> tuple[float, float]:
    """(error of a look-up for f_k = sum_l |z_l - z_k| where its own head is blind, f_1 there)."""
    block = ContextLookup(plain_wiring(3), n_levels, printed.spread_around)
    head = block.head
    scores = torch.outer(head.query, head.key)
    spot = printed.blind_spot(block.quantise, head.value, scores)
    pair = torch.stack([spot.sequence, spot.all_same])
    missed = (block(pair) - printed.spread_around(pair))[:, 0, 0].abs()
    return float(missed.max()), float(printed.spread_around(spot.sequence)[0, 0])
