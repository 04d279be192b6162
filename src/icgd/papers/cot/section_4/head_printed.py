"""Lemma A.5 of [COT] as printed: a softmax head reads a number off a grid and places it."""

from __future__ import annotations

import torch
from torch import Tensor


def printed_head(s: Tensor, levels: Tensor, beta: float, places: Tensor) -> Tensor:
    """One softmax head over the levels; level k is written to output coordinate G(k) = places[k].

    Statement: [COT] Lemma A.5

    sum_k softmax_k(beta (2 s L_k - L_k^2)) L_k e_{G(k)}

    Differs from the paper: no.
    """
    weights = torch.softmax(beta * (2 * s.unsqueeze(-1) * levels - levels**2), dim=-1)
    rows = torch.nn.functional.one_hot(places, int(places.max()) + 1).to(levels.dtype)
    return (weights * levels) @ rows


def printed_head_bound(levels: Tensor, beta: float, gap: float | Tensor) -> Tensor:
    """max(|a|, |b|) e^(-beta delta) + (b - a) / p, for one gap delta or for every input's own.

    Statement: [COT] Lemma A.5

    Differs from the paper: the constant in O(e^(-beta delta)) is taken as p, the number of levels; the
    lemma does not say what delta is.
    """
    n = len(levels)
    span, size = levels.max() - levels.min(), levels.abs().max()
    delta = torch.as_tensor(gap, dtype=levels.dtype)
    return size * n * torch.exp(-beta * delta) + span / n


def own_gap(s: Tensor, levels: Tensor) -> Tensor:
    """By how much the score of the nearest level leads, in units of beta: 0 midway between two.

    Statement: [COT] Lemma A.5

    Differs from the paper: which leaves delta open; this is the delta of every single input.
    """
    nearest = (s.unsqueeze(-1) - levels).square().sort(dim=-1).values
    return nearest[..., 1] - nearest[..., 0]
