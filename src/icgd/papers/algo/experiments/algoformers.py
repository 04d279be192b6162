"""What the experiments of ALGO's Section 5 share: three tasks, three models, errors by position and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import fmean
from typing import Any, TypeVar

import torch

from icgd.lab.experiments.experiment import Row, Rows
from icgd.lab.experiments.measures import evaluation_prompts, predictions
from icgd.lab.experiments.naive import NAIVE, naive_cell
from icgd.lab.experiments.over_seeds import select, spread
from icgd.lab.experiments.trained_size import TrainedSize
from icgd.lab.metrics import loss_per_position
from icgd.lab.sweeps.cells import Cell, training_cell
from icgd.lab.tasks import build_task
from icgd.lab.training.journal import training_seconds
from icgd.lab.training.trainer import Trained

REGRESSION, SERIES, CHAIN = "representation_regression", "autoregression", "mlp_chain"
TASK_NAMES = {REGRESSION: "regression with representation", SERIES: "AR(q)", CHAIN: "CoT with MLPs"}
KINDS = ("standard", "looped", "algoformer")
LAST_POSITIONS = 3
"""How many of the last positions an error at the end of a prompt is averaged over."""

DIFFERS = (
    "The paper gives neither heads and batch size of the default model, nor slope, widths and weights "
    "of the fixed network phi, nor the scale of A. Here: leaky slope 0.1, Gaussian weights, Var(y) = 1.",
    "Equation 2 applies the loop to its own output alone; it shows no injection of the input. Looped "
    "and AlgoFormer models here add the input again in every loop (h + P), which is our choice. Models "
    "without it (`inject: false`) were not run.",
    "Equation 6 divides T - T0 + 1 terms by T - T0; here it is their mean.",
    "Scales below `paper` use fewer dimensions, smaller models and fewer steps. They replace GPT-2's "
    "initial deviation 0.02 by 1/sqrt(width) and add a warm-up and a cosine schedule. Sizes were "
    "chosen for the time they take. Models are compared at equal steps, which are not equal costs.",
    "One network phi serves all seeds. The MLPs of the models are 4 times as wide as the models. Gradients are "
    "clipped at norm 1. There is no curriculum. All models have one rate, which is not tuned.",
)


@dataclass(frozen=True, kw_only=True)
class AlgoSize(TrainedSize):
    """Settings of Section 5.

    n_points         examples of a regression prompt
    loops, window    T and dT of looped and AlgoFormer models, whose stacks have `n_layer` blocks each
    standard_layers  blocks of the standard model
    """

    loops: int
    window: int
    standard_layers: int

    def model(self, kind: str, **changes: Any) -> dict[str, Any]:
        """A model of this kind, as a configuration has it."""
        model: dict[str, Any] = {"kind": kind}
        if kind == "standard":
            model["n_layer"] = self.standard_layers
        else:
            model |= {"loops": self.loops, "window": self.window}
        return model | changes


Sized = TypeVar("Sized", bound=AlgoSize)


def resized(kind: type[Sized], of: AlgoSize, **changes: Any) -> Sized:
    """Another experiment's settings with changes; what `kind` does not have is left out."""
    names = {field.name for field in fields(kind)}
    shared = {name: value for name, value in of.settings().items() if name in names}
    return kind(**{**shared, **changes})


@dataclass(frozen=True, kw_only=True)
class TaskSize(AlgoSize):
    """Settings of all three tasks.

    series_points          entries of a series
    chain_layers, chains   states of a chain after its first, and chains of a prompt
    """

    series_points: int
    chain_layers: int
    chains: int

    def task(self, name: str) -> tuple[dict[str, Any], int, str]:
        """A task, the positions of its prompts, and their layout."""
        if name == SERIES:
            return {"name": name}, self.series_points, "series"
        if name == CHAIN:
            points = self.chains * (self.chain_layers + 1) - 1
            return {"name": name, "n_layers": self.chain_layers}, points, "series"
        return {"name": name}, self.n_points, "interleaved"


def model_cell(
    size: AlgoSize,
    model: dict[str, Any],
    task: dict[str, Any],
    seed: int,
    key: dict[str, Any],
    *,
    n_points: int | None = None,
    loops: Sequence[int] | None = None,
    relative: bool = False,
) -> Cell:
    """Train a model and measure its errors after so many loops (as trained unless given).

    relative  divided by the mean square of the targets at each position, where that differs between positions
    """
    config = size.config(model=model, task=task, seed=seed, n_points=n_points)
    loops = list(loops or [model.get("loops", 1)])
    options = {"n_prompts": size.prompts, "loops": loops, "relative": relative}
    return training_cell({**key, "seed": seed}, config, f"{__name__}:errors", options)


def naive_predictors(
    size: AlgoSize,
    task: dict[str, Any],
    seed: int,
    key: dict[str, Any],
    n_points: int | None = None,
) -> Cell:
    """Naive predictors on the prompts of this seed's models, judged where those are."""
    points = size.n_points if n_points is None else n_points
    return naive_cell(
        key,
        {"n_dims": size.n_dims, **task},
        n_points=points,
        n_prompts=size.prompts,
        seed=seed,
        until=points,
        last=LAST_POSITIONS,
    )


def errors(
    trained: Trained, *, n_prompts: int, loops: Sequence[int], relative: bool = False
) -> dict[str, Any]:
    """Mean squared errors by position after each number of loops; size and cost of the training beside."""
    task, training = build_task(trained.config.task), trained.config.training
    batches = evaluation_prompts(task, training.n_points, n_prompts, training.seed)
    targets, counted = torch.cat([b.ys for b in batches]), batches[0].counted
    unit = targets.double().square().mean((0, 2)) if relative else torch.ones(1)
    by_loops = {
        str(t): (loss_per_position(predictions(trained.model, batches, t), targets) / unit).tolist()
        for t in loops
    }
    return {
        "error": by_loops,
        "counted": [True] * training.n_points if counted is None else counted.tolist(),
        "parameters": sum(p.numel() for p in trained.model.parameters()),
        "training_seconds": training_seconds(trained.directory),
        "train_loss": trained.loss,
    }


# -- reading rows -----------------------------------------------------------------------------------------


def curve_of(row: Row, loops: int | None = None) -> list[float]:
    """Errors at the counted positions, after the trained number of loops unless given."""
    by_loops = row["error"]
    values = next(iter(by_loops.values())) if loops is None else by_loops[str(loops)]
    return [v for v, counts in zip(values, row["counted"], strict=True) if counts]


def end_error(row: Row, loops: int | None = None) -> float:
    """The mean error over the last counted positions."""
    return fmean(curve_of(row, loops)[-LAST_POSITIONS:])


def end_errors(rows: Rows, **key: Any) -> list[float]:
    """Errors at the end of the prompts, one per seed."""
    return [end_error(row) for row in select(rows, **key)]


def loop_pairs(rows: Rows) -> list[tuple[int, int]]:
    """(T, dT) of all models that have them, in the order of their first row."""
    return list(dict.fromkeys((row["loops"], row["window"]) for row in rows if "loops" in row))


def naive_errors(rows: Rows, measure: str, **key: Any) -> dict[str, list[float]]:
    """Errors of every naive predictor at the end of the prompts, one per seed."""
    naive = select(rows, predictor=NAIVE, **key)
    return {
        name: [fmean(row[measure][name][i] for i in row["judged"]) for row in naive]
        for name in naive[0][measure]
    }


def naive_lines(rows: Rows, measure: str, **key: Any) -> list[tuple[str, str]]:
    """Naive predictors and their errors, for a table."""
    return [(name, spread(values)) for name, values in naive_errors(rows, measure, **key).items()]
