"""Curves of a run, thinned to what a figure can show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from icgd.oracle.sgd import torch_network
from icgd.problems import NetworkSpec, Weights

MAX_LOSSES = 120
"""Points of a loss curve: each costs a pass over all rows."""
MAX_ROUNDS = 1000
"""Points of an error curve: each costs a line of the result file."""


def thinned(n: int, most: int) -> list[int]:
    """At most `most` indices of range(n), evenly spread, first and last included.

    >>> thinned(5, 10), thinned(101, 3)
    ([0, 1, 2, 3, 4], [0, 50, 100])
    """
    return [int(i) for i in np.unique(np.linspace(0, n - 1, min(n, most)).round())]


def mean_loss(spec: NetworkSpec, weights: Weights, x: torch.Tensor, y: torch.Tensor) -> float:
    """Mean over examples of 1/2 |o - y|^2."""
    with torch.no_grad():
        o = torch_network(spec, weights)(x)
        return float(0.5 * (o - y).square().sum(dim=-1).mean())


class LossCurve:
    """Mean loss on all rows along the transformer's run and along SGD's, at rounds spread evenly.

    Given to `icgd.verify(observe=...)`, so that one run serves the verdict and the curve.
    """

    def __init__(
        self, spec: NetworkSpec, x: torch.Tensor, y: torch.Tensor, init: Weights, n_rounds: int
    ) -> None:
        self._spec, self._x, self._y = spec, x, y
        self._marks = thinned(n_rounds + 1, MAX_LOSSES)
        self._wanted = frozenset(self._marks)
        start = mean_loss(spec, init, x, y)
        self._transformer, self._sgd = [start], [start]

    def __call__(self, round_: int, weights: Weights, exact: Weights) -> None:
        """Look at a round if it is one of those that are kept."""
        if round_ in self._wanted:
            self._transformer.append(mean_loss(self._spec, weights, self._x, self._y))
            self._sgd.append(mean_loss(self._spec, exact, self._x, self._y))

    def values(self) -> dict[str, list[float]]:
        """For the result file."""
        rounds = [float(mark) for mark in self._marks]
        return {"round": rounds, "transformer": self._transformer, "sgd": self._sgd}


def error_curve(records: Sequence[Any]) -> dict[str, list[float]]:
    """Per-round errors and bounds; of every stretch that is thinned out the worst error is kept."""
    marks = thinned(len(records), MAX_ROUNDS)
    starts = [0, *(mark + 1 for mark in marks[:-1])]
    names = ("error", "round_error", "round_bound", "global_bound", "paper_bound")
    curve: dict[str, list[float]] = {"round": [float(records[mark].round) for mark in marks]}
    for name in names:
        values = [float(getattr(record, name)) for record in records]
        curve[name] = [max(values[a : b + 1]) for a, b in zip(starts, marks, strict=True)]
    return curve
