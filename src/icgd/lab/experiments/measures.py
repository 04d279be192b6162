"""What is measured on a trained model: losses and R2 by position, beside baselines on the same prompts."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from icgd.base.preflight import Part, require_room
from icgd.errors import InvalidParameter
from icgd.lab.baselines import (
    Averaging,
    Baseline,
    LeastSquares,
    NearestNeighbours,
    optimal_ridge,
)
from icgd.lab.baselines.linear import LINEAR_TASKS
from icgd.lab.metrics import loss_per_position, r2_per_position
from icgd.lab.models.build import build_model
from icgd.lab.tasks import Task, build_task
from icgd.lab.tasks.batch import Batch
from icgd.lab.training.checkpoints import load_checkpoint, load_weights
from icgd.lab.training.config import Config
from icgd.lab.training.preset_files import find_run
from icgd.lab.training.preset_files import shipped_models as shipped_models
from icgd.lab.training.trainer import Trained, data_generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

CHUNK = 64
"""Prompts that are predicted at a time."""
EVALUATION = 2**30
"""Steps are counted from here when prompts are drawn for measuring: no training run gets that far."""


def baselines_of(task: Task) -> dict[str, Baseline]:
    """Baselines that make sense for a task."""
    baselines: dict[str, Baseline] = {
        "least squares": LeastSquares(),
        "3 nearest neighbours": NearestNeighbours(3),
        "averaging": Averaging(),
    }
    if task.name in LINEAR_TASKS:
        with contextlib.suppress(InvalidParameter):  # other weights or noise: no closed form
            baselines = {"optimal ridge": optimal_ridge(task), **baselines}
    return baselines


def evaluation_prompts(task: Task, n_points: int, n_prompts: int, seed: int) -> list[Batch]:
    """Fresh prompts, the same for every model of a task."""
    numbers = n_prompts * n_points * (task.d_x + task.d_y)
    require_room("Measuring", [Part("prompts", n_prompts, 12 * numbers)])
    sizes = [min(CHUNK, n_prompts - done) for done in range(0, n_prompts, CHUNK)]
    return [
        task.sample(size, n_points, generator=data_generator(seed, EVALUATION + i))
        for i, size in enumerate(sizes)
    ]


@torch.no_grad()
def predictions(model: nn.Module, batches: list[Batch], loops: int | None = None) -> Tensor:
    """All predictions, (prompts, n, d_y)."""
    was = model.training
    model.eval()
    device = next(model.parameters()).device
    parts = [
        model.every_position(b.xs, b.ys, b.kind, loops).cpu()  # type: ignore[operator]
        for b in (batch.to(str(device)) for batch in batches)
    ]
    model.train(was)
    return torch.cat(parts)


def by_position(
    model: nn.Module,
    task: Task,
    *,
    n_points: int,
    n_prompts: int,
    seed: int = 0,
    baselines: dict[str, Baseline] | None = None,
) -> dict[str, Any]:
    """Mean squared error and R2 at every position, of the model and of baselines on the same prompts."""
    batches = evaluation_prompts(task, n_points, n_prompts, seed)
    targets = torch.cat([b.ys for b in batches])
    predicted = {"model": predictions(model, batches)}
    for name, baseline in (baselines_of(task) if baselines is None else baselines).items():
        predicted[name] = torch.cat([baseline(b) for b in batches])
    counted = batches[0].counted
    return {
        "n_points": n_points,
        "n_prompts": n_prompts,
        "seed": seed,
        "counted": None if counted is None else counted.tolist(),
        "loss": {k: loss_per_position(v, targets).tolist() for k, v in predicted.items()},
        "r2": {k: r2_per_position(v, targets).tolist() for k, v in predicted.items()},
    }


def final(trained: Trained, *, n_prompts: int = 512, seed: int = 0) -> dict[str, Any]:
    """The row of a sweep: loss of the last position and the mean, beside the best baseline's."""
    task = build_task(trained.config.task)
    points = trained.config.training.n_points
    measured = by_position(trained.model, task, n_points=points, n_prompts=n_prompts, seed=seed)
    counted = measured["counted"] or [True] * points
    places = [i for i, counts in enumerate(counted) if counts]
    row = {"train_loss": trained.loss, "steps": trained.step}
    for name, values in measured["loss"].items():
        row[f"{name}: last"] = values[places[-1]]
        row[f"{name}: mean"] = sum(values[i] for i in places) / len(places)
    return row


def load_run(run: Path) -> tuple[nn.Module, Task, Config]:
    """A trained model: from the directory of its run, a checkpoint, or one that comes with the package."""
    checkpoint = load_checkpoint(find_run(run))
    task = build_task(checkpoint.config.task)
    model = build_model(checkpoint.config.model, task.d_x, task.d_y)
    load_weights(checkpoint, model)
    return model, task, checkpoint.config


def evaluate_run(run: Path, *, n_points: int | None, n_prompts: int, seed: int) -> dict[str, Any]:
    """`icgd eval`."""
    model, task, config = load_run(run)
    points = config.training.n_points if n_points is None else n_points
    measured = by_position(model, task, n_points=points, n_prompts=n_prompts, seed=seed)
    return {"format": "icgd-eval/1", "config": config.model_dump(mode="json"), **measured}


def evaluation_figure(measured: dict[str, Any]) -> Figure:
    """Mean squared error by number of examples."""
    from icgd.lab.experiments.drawing import curve, panels, title

    figure, ((axis,),) = panels(1, 1, width=5.6, height=3.6)
    counted = measured["counted"] or [True] * measured["n_points"]
    places = [i for i, counts in enumerate(counted) if counts]
    for i, (name, values) in enumerate(measured["loss"].items()):
        curve(axis, places, [[values[p] for p in places]], name, i, min(i, 1))
    axis.set_yscale("log")
    # Least squares is huge where there are as many examples as dimensions; the model is what is looked at.
    axis.set_ylim(top=3 * max(measured["loss"]["model"]))
    axis.set_xlim(left=0)
    title(axis, measured["config"]["name"], "examples before", "mean squared error")
    axis.legend(fontsize=8, frameon=False)
    return figure


def evaluation_table(measured: dict[str, Any]) -> Table:
    """Losses at a few positions."""
    from rich.table import Table

    counted = measured["counted"] or [True] * measured["n_points"]
    judged = [i for i, counts in enumerate(counted) if counts]
    n = len(judged)
    places = [judged[i] for i in sorted({0, n // 4, n // 2, 3 * n // 4, n - 1})]
    table = Table(title="Mean squared error by number of examples before it", title_justify="left")
    table.add_column("")
    for i in places:
        table.add_column(str(i), justify="right")
    for name, values in measured["loss"].items():
        table.add_row(name, *(f"{values[i]:.4g}" for i in places))
    return table
