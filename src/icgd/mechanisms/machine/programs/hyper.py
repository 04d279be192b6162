"""Hyper-parameters as data: what a schedule makes of them, round by round."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from icgd.errors import InvalidParameter

Schedule = None | float | Sequence[float] | Callable[[Any], Any]


def hyper_values(
    groups: Sequence[Mapping[str, Any]], names: Sequence[str], schedule: Schedule, n_rounds: int
) -> list[dict[str, float]]:
    """For every round, the hyper-parameters that arrive, by name ("hyper.0.lr")."""
    start = {}
    for name in names:
        _, group, key = name.split(".", 2)
        start[name] = float(groups[int(group)][key])
    rates = [name for name in names if name.endswith(".lr")]
    if schedule is None:
        return [dict(start)] * n_rounds
    if callable(schedule):
        return _called(schedule, groups, start, n_rounds)
    listed = [schedule] * n_rounds if isinstance(schedule, (int, float)) else list(schedule)
    if len(listed) != n_rounds:
        raise InvalidParameter(
            "schedule", len(listed), f"hold a number for each of {n_rounds} rounds"
        )
    return [{**start, **dict.fromkeys(rates, _rate(value))} for value in listed]


def _rate(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidParameter("schedule", value, "give finite numbers")
    return float(value)


def _called(
    schedule: Callable[[Any], Any],
    groups: Sequence[Mapping[str, Any]],
    start: Mapping[str, float],
    n_rounds: int,
) -> list[dict[str, float]]:
    """A function of the round, or one that makes a scheduler of an optimizer."""
    stand_in = _stand_in(groups)
    try:
        scheduler = schedule(stand_in)
    except (TypeError, AttributeError):
        scheduler = None
    if not hasattr(scheduler, "step"):
        rates = [name for name in start if name.endswith(".lr")]
        return [{**start, **dict.fromkeys(rates, _rate(schedule(k)))} for k in range(n_rounds)]
    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the optimizer has not stepped before its scheduler
        for _ in range(n_rounds):
            now = {}
            for name in start:
                _, group, key = name.split(".", 2)
                now[name] = float(stand_in.param_groups[int(group)][key])
            values.append(now)
            scheduler.step()
    return values


def _stand_in(groups: Sequence[Mapping[str, Any]]) -> torch.optim.Optimizer:
    """An optimizer with the same settings and nothing to optimize, for schedulers to write to."""
    listed = [{**dict(group), "params": [torch.zeros((), requires_grad=True)]} for group in groups]
    defaults = {k: v for k, v in dict(groups[0]).items() if k != "initial_lr"} if groups else {}

    return _StandIn(listed, defaults)


class _StandIn(torch.optim.Optimizer):
    """An optimizer that never steps."""
