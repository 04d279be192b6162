"""Naive predictors of a task, on the prompts that its trained models are measured on.

They need no training: the mean target of each position, and least squares or ridge on raw inputs, fitted on
the prompt alone. Where targets are linear in a fixed network phi, one more knows phi's strongest direction.
Penalties, means and that direction come from prompts that nothing is measured on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from icgd.lab.baselines import LeastSquares, Ridge
from icgd.lab.baselines.prefix import Baseline, Features
from icgd.lab.experiments.measures import CHUNK, evaluation_prompts
from icgd.lab.metrics import loss_per_position, r2_per_position
from icgd.lab.sweeps.cells import Cell, Workplace
from icgd.lab.tasks import Task, TaskConfig, build_task
from icgd.lab.tasks.batch import Batch
from icgd.lab.tasks.chain import MLPChain
from icgd.lab.tasks.representation import Autoregression, RepresentationRegression
from icgd.lab.training.trainer import data_generator

NAIVE = "naive"
"""Value of `predictor` in the rows of naive predictors."""
CONSTANT, LINEAR = "constant", "least squares"
RAW, LAYER, TOP = "ridge, raw inputs", "ridge, same layer", "ridge, top direction of phi"
PENALTIES = (1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SELECTION = 2**29
"""Steps are counted from here when penalties are chosen: neither trainings nor measurements get there."""


@dataclass(frozen=True)
class _Family:
    """Ridge on some features; with a period, from examples at multiples of that distance alone."""

    features: Features
    period: int | None = None
    penalties: Sequence[float] = PENALTIES

    def member(self, penalty: float) -> Baseline:
        if penalty == 0.0:
            return LeastSquares(features=self.features, period=self.period)
        return Ridge(penalty, features=self.features, period=self.period)


def naive_cell(
    key: dict[str, Any],
    task: dict[str, Any],
    *,
    n_points: int,
    n_prompts: int,
    seed: int,
    until: int,
    last: int,
) -> Cell:
    """Naive predictors on the prompts that the models of a seed are measured on.

    until, last  models are judged at the last `last` counted positions before position `until`
    """
    options = {
        "task": task,
        "n_points": n_points,
        "n_prompts": n_prompts,
        "seed": seed,
        "until": until,
        "last": last,
    }
    return Cell({"predictor": NAIVE, **key, "seed": seed}, f"{__name__}:measure_naive", options)


def measure_naive(
    place: Workplace,
    *,
    task: dict[str, Any],
    n_points: int,
    n_prompts: int,
    seed: int,
    until: int,
    last: int,
) -> dict[str, Any]:
    """Errors and R2 by position of every naive predictor, and what was chosen on other prompts.

    selection  mean squared error at the judged positions on those other prompts: models are compared with the
               predictor that has the least of it
    """
    torch.set_num_threads(1)
    built_task = build_task(TaskConfig.model_validate(task))
    batches = evaluation_prompts(built_task, n_points, n_prompts, seed)
    others = selection_prompts(built_task, n_points, n_prompts, seed)
    judged = judged_positions(batches[0], until, last)
    means = torch.cat([b.ys for b in others]).double().mean(0)
    targets, other_targets = (torch.cat([b.ys for b in part]) for part in (batches, others))
    unit = targets.double().square().mean((0, 2))
    row: dict[str, Any] = {name: {} for name in ("error", "relative", "r2", "selection", "penalty")}
    row["judged"] = judged

    def keep(name: str, predicted: Tensor, selection: float, penalty: float | None = None) -> None:
        error = loss_per_position(predicted, targets)
        row["error"][name] = error.tolist()
        row["relative"][name] = (error / unit).tolist()
        row["r2"][name] = r2_per_position(predicted, targets).tolist()
        row["selection"][name] = selection
        if penalty is not None:
            row["penalty"][name] = penalty

    constant = means.expand_as(targets)
    keep(CONSTANT, constant, _at(means.expand_as(other_targets), other_targets, judged))
    for name, family in naive_families(built_task, others).items():
        by_penalty = {
            penalty: _at(around(family.member(penalty), others, means), other_targets, judged)
            for penalty in family.penalties
        }
        best = min(by_penalty, key=lambda penalty: by_penalty[penalty])
        keep(name, around(family.member(best), batches, means), by_penalty[best], best)
    return row


def naive_families(task: Task, prompts: Sequence[Batch]) -> dict[str, _Family]:
    """What can be fitted on raw inputs, as the task admits.

    prompts  from which phi's top direction is measured
    """
    raw = raw_window(task)
    families = {LINEAR: _Family(raw, penalties=(0.0,)), RAW: _Family(raw)}
    if isinstance(task, MLPChain):
        families[LAYER] = _Family(raw, task.period)
    if isinstance(task, (RepresentationRegression, Autoregression)):
        direction = top_direction(task, prompts)
        families[TOP] = _Family(lambda batch: task.features(batch).double() @ direction)
    return families


def raw_window(task: Task) -> Features:
    """The inputs that a target depends on, as they are, and a 1."""
    lags = task.order if isinstance(task, Autoregression) else 1

    def window(batch: Batch) -> Tensor:
        shifted = [pad(batch.xs, (0, 0, lag, 0))[:, : batch.n_points] for lag in range(lags)]
        return torch.cat([*shifted, torch.ones_like(batch.xs[..., :1])], -1)

    return window


def top_direction(
    task: RepresentationRegression | Autoregression, prompts: Sequence[Batch]
) -> Tensor:
    """(features, 1): the eigenvector of E[phi phi^T] with the largest eigenvalue, at counted positions."""
    moments = second_moments(task, prompts)
    return torch.linalg.eigh(moments)[1][:, -1:]


def second_moments(
    task: RepresentationRegression | Autoregression, prompts: Sequence[Batch]
) -> Tensor:
    """E[phi phi^T], measured."""
    counted = prompts[0].counted
    phi = torch.cat([task.features(batch).double() for batch in prompts])
    phi = (phi if counted is None else phi[:, counted]).flatten(0, 1)
    return phi.mT @ phi / len(phi)


def selection_prompts(task: Task, n_points: int, n_prompts: int, seed: int) -> list[Batch]:
    """As many prompts as models are measured on, and none of those."""
    sizes = [min(CHUNK, n_prompts - done) for done in range(0, n_prompts, CHUNK)]
    return [
        task.sample(size, n_points, generator=data_generator(seed, SELECTION + i))
        for i, size in enumerate(sizes)
    ]


def judged_positions(batch: Batch, until: int, last: int) -> list[int]:
    """The last counted positions before `until`."""
    counts = (
        torch.ones(batch.n_points, dtype=torch.bool) if batch.counted is None else batch.counted
    )
    places: list[int] = counts[:until].nonzero().flatten().tolist()
    return places[-last:]


def around(baseline: Baseline, batches: Sequence[Batch], means: Tensor) -> Tensor:
    """Predictions of a baseline that is fitted on what targets differ from their means by."""
    parts = []
    for b in batches:
        centred = Batch(b.xs.double(), b.ys.double() - means, b.kind, b.counted)
        parts.append(baseline(centred) + means)
    return torch.cat(parts)


def _at(predicted: Tensor, targets: Tensor, positions: Sequence[int]) -> float:
    return fmean(loss_per_position(predicted, targets)[list(positions)].tolist())
