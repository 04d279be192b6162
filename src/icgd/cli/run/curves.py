"""Curves of a run, thinned to what a figure can show."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from icgd.oracle.network_gd import network_gd_steps
from icgd.oracle.sgd import sgd_rounds, torch_network
from icgd.problems import NetworkSpec, Weights
from icgd.transformer.program import Program

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


def loss_curve(
    program: Program,
    spec: NetworkSpec,
    x: torch.Tensor,
    y: torch.Tensor,
    init: Weights,
    rounds: dict[str, int],
) -> dict[str, list[float]]:
    """Mean loss on all rows along the transformer's run and along SGD's (on all rows a step for stacks).

    The verifier judges rounds as they come and keeps no weights, so both runs are done once more;
    the structured executor does them in a small part of the verifier's time.
    """
    epochs = rounds.get("epochs", 1)
    marks = thinned(rounds.get("steps", epochs * len(x)) + 1, MAX_LOSSES)
    start = mean_loss(spec, init, x, y)
    transformer, sgd, wanted = [start], [start], frozenset(marks)

    def look(done: int, weights: Weights) -> None:
        if done in wanted:
            transformer.append(mean_loss(spec, weights, x, y))

    program.run(x, y, init=init, record=look, **rounds)  # type: ignore[arg-type]
    optimizer = program.optimizer
    if "steps" in rounds:
        exact = islice(
            network_gd_steps(spec, init, x, y, optimizer.lr, optimizer.box), rounds["steps"]
        )
    else:
        exact = islice(
            sgd_rounds(spec, init, x.repeat(epochs, 1), y.repeat(epochs, 1), optimizer.lr), None
        )
    sgd += [mean_loss(spec, weights, x, y) for i, weights in enumerate(exact, 1) if i in wanted]
    return {"round": [float(m) for m in marks], "transformer": transformer, "sgd": sgd}


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
