"""A diffusion model whose score is known: mixture, noising process, and the way back.

x_t = a x_0 + sqrt(1 - a^2) z with a = e^(-t/2), for t from T_0 to T_1 (variance preserving, beta = 1). The
way back is dx = (x/2 + score) ds + dB, s = T_1 - t, from N(0, I), which is not quite the law at T_1; it ends
at T_0, which is not quite the mixture. Both errors are the sampler's, whatever score it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from icgd.papers.deep.appendix_h.statements import CENTRES, SPREAD, T_0, T_1, mixture_score

F64 = torch.float64
SCORE, NOISE = "score", "noise"
TARGET_SCALE = 4.0
"""Networks learn the score divided by this."""
Score = Callable[[Tensor, Tensor], Tensor]
"""Of points (n, 2) and times (n,)."""


def exact_score(x: Tensor, t: Tensor) -> Tensor:
    """grad log p_t(x) of the mixture."""
    return mixture_score(x, t, torch.tensor(CENTRES, dtype=F64))


def draw_mixture(n: int, source: torch.Generator) -> Tensor:
    """Points (n, 2) of the mixture itself."""
    component = torch.randint(len(CENTRES), (n,), generator=source)
    away = SPREAD * torch.randn(n, 2, generator=source, dtype=F64)
    return torch.tensor(CENTRES, dtype=F64)[component] + away


def noised(start: Tensor, t: Tensor, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Where the process has taken points after times t, and the score of that step alone, -z / sigma_t.

    The second needs no score to be known, and its mean given the first is the score of the mixture.
    """
    a = torch.exp(-t / 2).unsqueeze(1)
    sigma = torch.sqrt(1 - a * a)
    z = torch.randn(start.shape, generator=source, dtype=F64)
    return a * start + sigma * z, -z / sigma


def network_inputs(x: Tensor, t: Tensor) -> Tensor:
    """(x/3, t/1.5 - 1/2, 1/2): networks have no bias, and time must be among their inputs."""
    constant = torch.full((len(x), 1), 0.5, dtype=F64)
    return torch.cat([x / 3, (t / T_1 - 0.5).unsqueeze(1), constant], dim=1)


def score_examples(
    n: int, source: torch.Generator, early: float = 1.0, target: str = SCORE
) -> tuple[Tensor, Tensor]:
    """Inputs (n, 4) of a network and targets (n, 2).

    target  SCORE: the score there; NOISE: what denoising score matching has instead, where no score is known
    early   t = T_0 + (T_1 - T_0) u^early with u even on [0, 1]: above 1 early times are seen more often, where
            the score is hardest; this is a weight gamma(t) of the loss
    """
    t = T_0 + (T_1 - T_0) * torch.rand(n, generator=source, dtype=F64).pow(early)
    x, noise = noised(draw_mixture(n, source), t, source)
    return network_inputs(x, t), (exact_score(x, t) if target == SCORE else noise) / TARGET_SCALE


def score_of(network: Callable[[Tensor], Tensor]) -> Score:
    """The score that a network has learned."""
    return lambda x, t: TARGET_SCALE * network(network_inputs(x, t))


def sample_backwards(score: Score, n: int, steps: int, source: torch.Generator) -> Tensor:
    """Points (n, 2) by the reverse process in even steps (Euler and Maruyama).

    The noise comes from the source alone: equal sources give every score the same noise.
    """
    x = torch.randn(n, 2, generator=source, dtype=F64)
    h = (T_1 - T_0) / steps
    for step in range(steps):
        t = torch.full((n,), T_1 - step * h, dtype=F64)
        x = x + h * (x / 2 + score(x, t))
        x = x + math.sqrt(h) * torch.randn(n, 2, generator=source, dtype=F64)
    return x
