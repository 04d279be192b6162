"""What the experiments of DEEP's Appendix G share: targets are N-layer networks, one per prompt.

Models are judged by R2 at every prompt length, beside networks trained on the prompt and least squares on
the same prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icgd.lab.baselines import LeastSquares, NetworkFit, PromptNetwork
from icgd.lab.experiments.experiment import Rows
from icgd.lab.experiments.learned import best_reference, shortfalls
from icgd.lab.experiments.measures import evaluation_prompts, predictions
from icgd.lab.experiments.naive import NAIVE, naive_cell
from icgd.lab.experiments.over_seeds import select, spread
from icgd.lab.experiments.trained_size import TrainedSize
from icgd.lab.metrics import r2_per_position
from icgd.lab.sweeps.cells import Cell, Workplace, training_cell
from icgd.lab.tasks import Task, TaskConfig, build_task
from icgd.lab.tasks.batch import Batch
from icgd.lab.training.trainer import Trained

ATTENTIONS = ("relu", "softmax")
MATCHES = 0.05
"""How far below a trained network's R2 counts as matching it."""
RIVAL = 0.2
"""R2 below which a network trained on the prompt is no rival: to match it says nothing."""
BEST, LAST, LINEAR = "network, best epoch", "network, last epoch", "least squares"


@dataclass(frozen=True, kw_only=True)
class NetworkSize(TrainedSize):
    """Settings of Appendix G.

    width            of the networks that make the targets, and of those trained on the prompt
    tested_points    length of the prompts on which models are measured
    baseline_every   networks are trained on the prompt at every so many-th length
    """

    width: int
    tested_points: int
    baseline_every: int

    @property
    def lengths(self) -> list[int]:
        """Numbers of examples at which networks are trained: multiples, and the ends of training and test."""
        every = self.baseline_every
        ends = (self.n_points - 1, self.tested_points - 1)
        between = range(every, self.tested_points, every)
        # No multiple right beside an end: every length costs a training per prompt.
        return sorted(
            {*ends, *(n for n in between if all(abs(n - end) > every // 2 for end in ends))}
        )

    def network_task(self, n_layers: int, **more: Any) -> dict[str, Any]:
        """Targets of N-layer networks."""
        return {
            "name": "network_regression",
            "n_layers": n_layers,
            "hidden_layer_size": self.width,
            **more,
        }


def model_cell(
    size: NetworkSize,
    attention: str,
    seed: int,
    task: dict[str, Any],
    tests: dict[str, dict[str, Any]],
    key: dict[str, Any],
    **model: Any,
) -> Cell:
    """Train a transformer on `task`, measure it on each of `tests` (changes of the task by name)."""
    config = size.config(
        model={"attention": attention, "n_positions": size.tested_points, **model},
        task=task,
        seed=seed,
    )
    options = {"tests": tests, "n_points": size.tested_points, "n_prompts": size.prompts}
    key = {"predictor": "transformer", "attention": attention, "seed": seed, **key}
    return training_cell(key, config, f"{__name__}:r2_of_a_model", options)


def baseline_cell(
    size: NetworkSize, seed: int, n_layers: int, task: dict[str, Any], key: dict[str, Any]
) -> Cell:
    """Networks trained on prompts of `task`, and least squares."""
    options = {
        "task": {"n_dims": size.n_dims, **task},
        "n_layers": n_layers,
        "width": size.width,
        "seed": seed,
        "n_points": size.tested_points,
        "n_prompts": size.prompts,
        "lengths": size.lengths,
    }
    key = {"predictor": "baselines", "seed": seed, **key}
    return Cell(key, f"{__name__}:r2_of_baselines", options)


def naive_predictors(
    size: NetworkSize, seed: int, task: dict[str, Any], key: dict[str, Any]
) -> Cell:
    """Naive predictors on prompts of `task`, judged with the longest trained prompt."""
    return naive_cell(
        key,
        {"n_dims": size.n_dims, **task},
        n_points=size.tested_points,
        n_prompts=size.prompts,
        seed=seed,
        until=size.n_points,
        last=1,
    )


def r2_of_a_model(
    trained: Trained, *, tests: dict[str, dict[str, Any]], n_points: int, n_prompts: int
) -> dict[str, Any]:
    """R2 by number of examples for every test, and the last training loss."""
    settings = trained.config.task.model_dump(mode="json")
    by_test = {}
    for name, change in tests.items():
        task = _task({**settings, **change})
        batches = evaluation_prompts(task, n_points, n_prompts, trained.config.training.seed)
        targets = torch.cat([b.ys for b in batches])
        by_test[name] = r2_per_position(predictions(trained.model, batches), targets).tolist()
    points = trained.config.training.n_points
    return {"r2": by_test, "train_loss": trained.loss, "trained_points": points}


def r2_of_baselines(
    place: Workplace,
    *,
    task: dict[str, Any],
    n_layers: int,
    width: int,
    seed: int,
    n_points: int,
    n_prompts: int,
    lengths: Sequence[int],
) -> dict[str, Any]:
    """R2 of networks trained on the prompt and of least squares, at some numbers of examples."""
    torch.set_num_threads(1)
    batches = evaluation_prompts(_task(task), n_points, n_prompts, seed)
    # Batch by batch: networks of all prompts at once would need too much memory at the paper's scale.
    fits = [
        PromptNetwork(n_layers=n_layers, hidden_layer_size=width, seed=seed * len(batches) + i).fit(
            batch, lengths
        )
        for i, batch in enumerate(batches)
    ]
    fit = NetworkFit(
        torch.cat([f.epochs for f in fits], 1),
        fits[0].positions,
        torch.cat([f.targets for f in fits]),
    )
    solve = LeastSquares(features=with_constant)
    linear = torch.cat([solve(batch)[:, list(lengths)] for batch in batches])
    predicted = {BEST: fit.best, LAST: fit.last, LINEAR: linear}
    r2 = {name: r2_per_position(p, fit.targets).tolist() for name, p in predicted.items()}
    return {"lengths": list(lengths), "r2": r2}


def with_constant(batch: Batch) -> Tensor:
    """Inputs and a 1: least squares with an intercept."""
    return torch.cat([batch.xs, torch.ones_like(batch.xs[..., :1])], -1)


def _task(settings: dict[str, Any]) -> Task:
    return build_task(TaskConfig.model_validate(settings))


# -- reading rows -----------------------------------------------------------------------------------------


def model_curves(rows: Rows, test: str, **key: Any) -> list[list[float]]:
    """R2 by number of examples, one curve per seed."""
    return [row["r2"][test] for row in select(rows, predictor="transformer", **key)]


def baseline_curves(rows: Rows, name: str, **key: Any) -> tuple[list[int], list[list[float]]]:
    """Numbers of examples, and a curve per seed."""
    baselines = select(rows, predictor="baselines", **key)
    return list(baselines[0]["lengths"]), [row["r2"][name] for row in baselines]


def short_of_naive(
    rows: Rows,
    test: str,
    attentions: Sequence[str],
    *,
    naive: Mapping[str, Any] | None = None,
    **key: Any,
) -> tuple[str, ...]:
    """Transformers that are worse than the best naive predictor at the end of the trained prompts.

    test   as in training: what models were never trained for is no part of the gate
    naive  key of the naive predictors; of the models unless given
    """
    end, _ = ends(rows)
    where = ", ".join(f"{name.removeprefix('n_')} {value}" for name, value in key.items())
    models = {
        f"{attention}{f', {where}' if where else ''}": [
            curve[end] for curve in model_curves(rows, test, attention=attention, **key)
        ]
        for attention in attentions
    }
    return shortfalls(models, best_reference(rows, "r2", **(key if naive is None else naive)))


def naive_r2(rows: Rows, at: Sequence[int], **key: Any) -> list[tuple[str, ...]]:
    """Naive predictors and their R2 at some numbers of examples, for a table."""
    naive = select(rows, predictor=NAIVE, **key)
    return [
        (name, *(spread([row["r2"][name][n] for row in naive]) for n in at))
        for name in naive[0]["r2"]
    ]


def is_a_rival(values: Sequence[float]) -> bool:
    """Whether a baseline has learned enough, in all seeds, for it to mean something to match it."""
    return all(value > RIVAL for value in values)


def gaps(rows: Rows, test: str, at: int, *, attention: str, **key: Any) -> list[float]:
    """R2 of the transformer minus the best of the network with `at` examples, seed by seed."""
    ours = [c[at] for c in model_curves(rows, test, attention=attention, **key)]
    theirs = baseline_at(rows, BEST, at, test=test, **key)
    return [a - b for a, b in zip(ours, theirs, strict=True)]


def baseline_at(rows: Rows, name: str, length: int, **key: Any) -> list[float]:
    """R2 of a baseline at one number of examples, for every seed."""
    lengths, curves = baseline_curves(rows, name, **key)
    return [curve[lengths.index(length)] for curve in curves]


def ends(rows: Rows) -> tuple[int, int]:
    """The numbers of examples at the end of the trained and of the tested prompts."""
    row = select(rows, predictor="transformer")[0]
    (curve, *_) = row["r2"].values()
    return int(row["trained_points"]) - 1, len(curve) - 1
