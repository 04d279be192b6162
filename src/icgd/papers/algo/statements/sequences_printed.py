"""Sections 3.2 and 3.3 of [ALGO] as printed, each reading run with ideal parts.

What is tested here are statements: regressions are solved, softmax is as sharp as floating point allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from icgd.mechanisms.loops.common.parts import SHARP
from icgd.problems import Autoregression, MLPChain

DOUBLE = torch.float64
Layers = Literal["he", "default"]


def descend(features: Tensor, targets: Tensor, lr: float, steps: int) -> Tensor:
    """A after so many steps from 0 on 1/(2N) sum |A f_i - y_i|^2."""
    A = features.new_zeros(targets.shape[-1], features.shape[-1])
    for _ in range(steps):
        A = A - lr * (A @ features.T - targets.T) @ features / len(features)
    return A


def minimiser(features: Tensor, targets: Tensor) -> Tensor:
    """The A that gradient descent from 0 tends to."""
    return (torch.linalg.pinv(features) @ targets).T


# -- Lemma A.1 ------------------------------------------------------------------------------------


def margin(codes: Tensor) -> float:
    """The smallest p_i.p_i - p_i.p_j over i != j."""
    scores = codes @ codes.T
    apart = scores.diagonal().unsqueeze(1) - scores
    apart.fill_diagonal_(math.inf)
    return float(apart.min())


def random_codes(n: int, m: int, seed: int) -> Tensor:
    """Quasi-orthogonal codes as the proofs mean them: random signs."""
    generator = torch.Generator().manual_seed(seed)
    return 2.0 * torch.randint(0, 2, (n, m), generator=generator).to(DOUBLE) - 1.0


def circle_codes(n: int, epsilon: float) -> Tensor:
    """n points of a circle so large that the margin exceeds epsilon: two entries do for every n."""
    angle = 2 * math.pi / n * torch.arange(n, dtype=DOUBLE)
    apart = 1 - math.cos(2 * math.pi / n)
    return math.sqrt(2 * epsilon / apart) * torch.stack([angle.cos(), angle.sin()], dim=1)


# -- Lemma A.3 ------------------------------------------------------------------------------------


def best_shift(codes: Tensor, i: int) -> tuple[Tensor, float]:
    """The matrix S with S p_t nearest to p_{t-i} for all t >= i, and the largest |S p_t - p_{t-i}|."""
    now, before = codes[i:], codes[: len(codes) - i]
    S = torch.linalg.lstsq(now, before).solution.T
    return S, float((now @ S.T - before).norm(dim=1).max())


def copies_by(codes: Tensor, S: Tensor, x: Tensor) -> Tensor:
    """What a head with queries S p_t and keys p_t copies, at the sharpness used everywhere here."""
    queries, keys = codes @ S.T, codes
    return torch.softmax(SHARP * queries @ keys.T, dim=-1) @ x


# -- Theorem 3.2 ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeriesCase:
    """A series with its problem, and what truly follows it."""

    problem: Autoregression
    x: Tensor
    follows: Tensor

    @property
    def features(self) -> Tensor:
        """phi of every window with a known successor, and of the last."""
        return self.problem.phi(self.problem.windows(self.x))


def noisy_series(
    d: int,
    q: int,
    n_steps: int,
    hidden: tuple[int, ...],
    seed: int,
    *,
    noise: float = 1.0,
    scale: float | None = 0.5,
    layers: Layers = "he",
) -> SeriesCase:
    """Section 5.1's series.

    scale   |A|, None for its A ~ N(0, I)
    layers  the scale of phi, which it does not print: He's, or the default of torch.nn.Linear

    The radius is the one its windows have.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=DOUBLE)

    def even(*shape: int) -> Tensor:
        return 2 * torch.rand(*shape, generator=generator, dtype=DOUBLE) - 1

    widths = (q * d, *hidden)
    if layers == "he":
        phi_layers = [(normal(b, a) * (2 / a) ** 0.5, 0.1 * normal(b)) for a, b in pairwise(widths)]
    else:
        phi_layers = [(even(b, a) / a**0.5, even(b) / a**0.5) for a, b in pairwise(widths)]
    problem = Autoregression(d, q, n_steps, representation=phi_layers)
    A = normal(d, problem.n_representation)
    if scale is not None:
        A = scale * A / torch.linalg.matrix_norm(A, 2)
    x = [normal(d) for _ in range(q)]
    while len(x) < n_steps + 2:
        x.append(A @ problem.phi(torch.cat(x[-q:])) + noise * normal(d))
    series = torch.stack(x)
    sizes = problem.phi(problem.windows(series[:-1])).norm(dim=-1)
    problem = replace(problem, x_radius=1.05 * float(sizes.max()))
    return SeriesCase(problem, series[:-1], series[-1])


def waves(
    n_steps: int, frequencies: tuple[float, ...] = (1.2, 1.9), *, at_rest: bool = False
) -> SeriesCase:
    """Cosines, which obey x_{t+1} = 2 cos(w) x_t - x_{t-1} exactly, as a series of order 2.

    at_rest  whether the recurrence holds from x_{-1} = 0 on: sines of w (t + 1)
    """
    t, w = (
        torch.arange(n_steps + 2, dtype=DOUBLE).unsqueeze(1),
        torch.tensor(frequencies, dtype=DOUBLE),
    )
    x = torch.sin((t + 1) * w) if at_rest else torch.cos(t * w + 0.3)
    problem = Autoregression(len(frequencies), 2, n_steps)
    return SeriesCase(problem, x[:-1], x[-1])


def predictions(case: SeriesCase) -> dict[str, Tensor]:
    """What a solved regression predicts for x_{N+1} under the readings of Theorem 3.2 and its proof.

    same_token  the displayed output: x_t is what stands beside phi(.., x_t), so it is what is fitted
    previous_q  "the previous q tokens": token N then holds the window before x_N
    from_start  the sum over t = 1 .. N of Section 3.2 with x_t = 0 before the start
    corrected   windows that exist, and their successors
    """
    p, x, q = case.problem, case.x, case.problem.order
    padded = torch.cat([x.new_zeros(q - 1, p.n_features), x])
    every = p.phi(p.windows(padded))
    whole = case.features
    pairs = {
        "same_token": (whole, x[q - 1 :], whole[-1]),
        "previous_q": (whole[:-1], x[q:], whole[-2]),
        "from_start": (every[:-1], x[1:], whole[-1]),
        "corrected": (whole[:-1], x[q:], whole[-1]),
    }
    return {name: minimiser(f, y) @ query for name, (f, y, query) in pairs.items()}


# -- Theorem 3.3 ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChainCase:
    """Whole chains and one more, all from the same network."""

    problem: MLPChain
    chains: Tensor
    test: Tensor
    weights: list[Tensor]

    def pairs(self, phase: int) -> tuple[Tensor, Tensor]:
        """States of a phase, and their successors before the activation."""
        return self.chains[:, phase], leaky_relu(self.chains[:, phase + 1], 1 / self.problem.slope)


def network_chains(
    d: int, n_layers: int, n_chains: int, seed: int, slope: float = 0.1
) -> ChainCase:
    """Section 5.1's chains; the radius is the one their states have."""
    generator = torch.Generator().manual_seed(seed)
    weights = [
        torch.randn(d, d, generator=generator, dtype=DOUBLE) * (2 / d) ** 0.5
        for _ in range(n_layers)
    ]
    states = [torch.randn(n_chains + 1, d, generator=generator, dtype=DOUBLE)]
    for W in weights:
        states.append(leaky_relu(states[-1] @ W.T, slope))
    chains = torch.stack(states, dim=1)
    radius = 1.05 * float(chains.norm(dim=-1).max())
    problem = MLPChain(d, n_layers, n_chains, slope, x_radius=radius)
    return ChainCase(problem, chains[:-1], chains[-1], weights)


def next_states(case: ChainCase, phase: int) -> dict[str, Tensor]:
    """What a solved regression says follows, under the readings of Appendix A.3.

    as_if_linear  s^{l+1} = W s^l taken at its word: states are fitted as they are
    whole_network its phi, the L-layer network, applied to the states that are fitted
    first_layers  phi is the network's first l layers, applied to the inputs x
    corrected     targets are what the activation was applied to
    """
    states, targets = case.pairs(phase)
    query, slope = case.test[phase], case.problem.slope
    deep, deep_asked = states, query
    for W in case.weights:
        deep, deep_asked = leaky_relu(deep @ W.T, slope), leaky_relu(W @ deep_asked, slope)
    early, early_asked = case.chains[:, 0], case.test[0]
    for W in case.weights[:phase]:
        early, early_asked = leaky_relu(early @ W.T, slope), leaky_relu(W @ early_asked, slope)
    raw = case.chains[:, phase + 1]
    pairs = {
        "as_if_linear": (states, raw, query),
        "whole_network": (deep, targets, deep_asked),
        "first_layers": (early, targets, early_asked),
        "corrected": (states, targets, query),
    }
    return {name: leaky_relu(minimiser(f, y) @ q, slope) for name, (f, y, q) in pairs.items()}
