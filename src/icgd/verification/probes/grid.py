"""Does the grid that is in the program keep the promise of its certificate?

The certificate is a formula for the grid that was compiled. Here the stored tables themselves are
evaluated in extended precision, so that a grid which was altered, or damaged on disk, is noticed
even where no probe happens to ask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from icgd.transformer.gadgets.heads.spectral_theory import (
    GridGeometry,
    head_error_polynomial,
    make_geometry,
    summing,
)
from icgd.transformer.nn.chain.grid_attention import GridAttention
from icgd.transformer.program import Program

SAMPLING = 1e-3
"""How sharply sampling can tell a kept promise from a broken one: some promises are met exactly."""


@dataclass(frozen=True)
class GridCheck:
    """Error bound recomputed from the tables against the promised one, where it is worst.

    at         the query s at which recomputed / promised is largest
    """

    at: float
    recomputed: float
    promised: float
    passed: bool


def check_grid(program: Program, *, n_samples: int = 4001) -> GridCheck:
    """Recompute the head's error bound from the stored levels and position entries.

    exact error of the stored tables (long double) + what sampling could miss + rounding of scores
    and sums, compared at every sample with the promise c0 + c1 |s| + c2 s^2.
    """
    g = make_geometry(**program.options)
    u = torch.finfo(program.dtype).eps / 2
    attention = program.step.attention
    assert isinstance(attention, GridAttention)
    level, linear, rest = (
        t.detach().cpu().numpy().astype(np.longdouble)
        for t in (attention.levels, attention.linear, attention.quadratic)
    )
    s = _samples(g, n_samples)
    score = s[:, None] * linear + rest
    top = score.max(axis=1, keepdims=True)
    w = np.exp(score - top)
    w /= w.sum(axis=1, keepdims=True)
    mean = w @ level
    error = mean - s
    missed = np.zeros_like(error)
    if g.temperature == "spectral":
        # Between samples a smooth error leaves its chord by at most an eighth of a second difference.
        missed[1:-1] = np.abs(error[2:] - 2 * error[1:-1] + error[:-2]) / 8
    size = 4 * (np.abs(s[:, None] * linear) + np.abs(rest) + np.abs(top)) + 3
    away = np.abs(level - mean[:, None])
    rounding = u * (w * size * away).sum(axis=1)
    sums = summing(g, u) * (2 * np.abs(s) + (w * away).sum(axis=1))
    recomputed = np.abs(error) + missed + rounding + sums
    c0, c1, c2 = head_error_polynomial(g, u)
    promised = c0 + c1 * np.abs(s) + c2 * s * s
    ratio = np.where(np.isnan(recomputed), np.inf, recomputed / promised)
    worst = int(ratio.argmax())
    return GridCheck(
        float(s[worst]),
        float(recomputed[worst]),
        float(promised[worst]),
        bool(ratio[worst] <= 1.0 + SAMPLING),
    )


def _samples(g: GridGeometry, n_samples: int) -> np.ndarray:
    """Equally spaced queries; in hard mode also points on both sides of every tie."""
    s = np.linspace(-g.radius, g.radius, n_samples, dtype=np.longdouble)
    if g.temperature == "spectral":
        return s
    levels = np.sort(np.asarray(g.levels(), dtype=np.longdouble))
    ties = (levels[1:] + levels[:-1]) / 2
    offsets = g.spacing * np.asarray([-0.1, -0.03, -0.01, 0.01, 0.03, 0.1], dtype=np.longdouble)
    near = (ties[:, None] + offsets).reshape(-1)
    return np.sort(np.concatenate([s, near[np.abs(near) <= g.radius]]))
