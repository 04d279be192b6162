"""ALGO, Figure 2: AlgoFormer, looped and standard transformers on three tasks."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from icgd.experiments.algoformers import (
    CHAIN,
    DIFFERS,
    KINDS,
    LAST_POSITIONS,
    REGRESSION,
    SERIES,
    TASK_NAMES,
    TaskSize,
    curve_of,
    end_errors,
    model_cell,
)
from icgd.experiments.cells import Cell, Workplace
from icgd.experiments.drawing import curve, legend_below, panels, title
from icgd.experiments.experiment import Claim, Experiment, ResultTable, Row, Rows, Scale
from icgd.experiments.measures import evaluation_prompts
from icgd.experiments.over_seeds import combined, positive, select, smaller, told
from icgd.training.baselines import Ridge
from icgd.training.metrics import loss_per_position
from icgd.training.tasks import TaskConfig, build_task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS = (REGRESSION, SERIES, CHAIN)
WELL_AHEAD = 0.8
TOLD_PHI = "ridge, told phi"
PAPER = TaskSize(
    seeds=3, n_dims=20, n_points=40, n_layer=1, n_head=8, n_embd=256, init_std=0.02, steps=500_000, batch=64,
    rate=1e-4, schedule="constant", prompts=6400, loops=20, window=15, standard_layers=12, series_points=40,
    chain_layers=6, chains=40,
)  # fmt: skip
OVERNIGHT = TaskSize(
    seeds=3, n_dims=5, n_points=12, n_layer=1, n_head=4, n_embd=32, init_std=0.18, steps=15_000, batch=32,
    rate=1e-3, prompts=4096, loops=8, window=4, standard_layers=12, series_points=24, chain_layers=3, chains=6,
)  # fmt: skip
LAPTOP = TaskSize(
    seeds=3, n_dims=5, n_points=12, n_layer=1, n_head=4, n_embd=32, init_std=0.18, steps=1500, batch=32,
    rate=1e-3, prompts=2048, loops=8, window=4, standard_layers=4, series_points=24, chain_layers=3, chains=6,
)  # fmt: skip
SMOKE = TaskSize(
    seeds=1, n_dims=2, n_points=5, n_layer=1, n_head=2, n_embd=8, init_std=0.3, steps=10, batch=4,
    rate=1e-3, prompts=32, loops=3, window=1, standard_layers=2, series_points=6, chain_layers=2, chains=3,
)  # fmt: skip


class AlgoFig2(Experiment):
    """Validation error against the number of examples, for three tasks and three models."""

    name: ClassVar = "algo-fig2"
    paper: ClassVar = "ALGO"
    where: ClassVar = "Section 5.2, Figure 2"
    title: ClassVar = "AlgoFormer, looped and standard transformers on three tasks"
    differs: ClassVar = (
        *DIFFERS,
        "AR(q): the paper's A ~ N(0, I) makes series explode; A is scaled here. The noise of the series has "
        "variance 1, below which no error can go.",
        "Errors are divided by the mean square of the targets at their position: series grow along a prompt.",
    )
    sizes: ClassVar = {"smoke": SMOKE, "laptop": LAPTOP, "overnight": OVERNIGHT, "paper": PAPER}

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per task, model and seed."""
        size: TaskSize = self.size(scale)
        made = []
        for seed in range(size.seeds):
            for name in TASKS:
                task, points, layout = size.task(name)
                for kind in KINDS:
                    key = {"task": name, "model": kind}
                    model = size.model(kind, layout=layout)
                    made.append(
                        model_cell(size, model, task, seed, key, n_points=points, relative=True)
                    )
                if name != CHAIN:
                    options = {
                        "task": {"n_dims": size.n_dims, **task}, "n_points": points, "n_prompts": size.prompts,
                        "seed": seed,
                    }  # fmt: skip
                    reference = {"task": name, "model": TOLD_PHI, "seed": seed}
                    made.append(Cell(reference, f"{__name__}:told_phi", options))
        return made

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Errors at the end of the prompts, parameters, and seconds of a training."""
        lines = []
        for task in TASKS:
            for kind in KINDS:
                found = select(rows, task=task, model=kind)
                seconds = median(row["training_seconds"] for row in found)
                size, errors = f"{found[0]['parameters']:,}", told(end_errors(found))
                lines.append((TASK_NAMES[task], kind, size, errors, f"{seconds:.0f}"))
            for row in select(rows, task=task, model=TOLD_PHI)[:1]:
                found = select(rows, task=task, model=TOLD_PHI)
                lines.append((TASK_NAMES[task], TOLD_PHI, "-", told(end_errors(found)), "-"))
                if row["floor"]:
                    lines.append(
                        (
                            TASK_NAMES[task],
                            "noise alone",
                            "-",
                            told([_floor(r) for r in found]),
                            "-",
                        )
                    )
        columns = ("Task", "Model", "Parameters", "Squared error", "Seconds of a training")
        heading = (
            f"Squared error over mean square of the targets, in the last {LAST_POSITIONS} positions: median "
            "(range) over seeds"
        )
        return [ResultTable(heading, columns, tuple(lines))]

    def claims(self, rows: Rows) -> list[Claim]:
        """The orderings of Section 5.2, task by task."""
        claims = []
        for rival in ("standard", "looped"):
            for task in TASKS:
                ours, theirs = (end_errors(rows, task=task, model=m) for m in ("algoformer", rival))
                claims.append(
                    Claim(
                        f"AlgoFormer better than {rival} on {TASK_NAMES[task]}",
                        f"{TASK_NAMES[task]}: AlgoFormer has a smaller error than the {rival} transformer",
                        f"{told(ours)} against {told(theirs)}",
                        smaller(ours, theirs),
                    )
                )
        chain = {m: end_errors(rows, task=CHAIN, model=m) for m in KINDS}
        claims.append(
            Claim(
                "on chains the looped transformer is far behind both others",
                "CoT with MLPs: AlgoFormer and standard transformer are both well ahead of the looped one "
                f"(here: below {WELL_AHEAD} of its error)",
                ", ".join(f"{m} {told(values)}" for m, values in chain.items()),
                combined(
                    [
                        smaller(chain[m], [WELL_AHEAD * looped for looped in chain["looped"]])
                        for m in ("algoformer", "standard")
                    ]
                ),
            )
        )
        falls = [
            positive([_fall(row) for row in select(rows, task=task, model=kind)])
            for task in TASKS
            for kind in KINDS
        ]
        claims.append(
            Claim(
                "errors fall with the number of examples",
                "the error falls as examples are added",
                "last third of the positions below the first, in all seeds: "
                f"{falls.count(True)} of {len(falls)} cases",
                combined(falls),
            )
        )
        return claims

    def draw(self, rows: Rows) -> Figure:
        """A panel per task."""
        figure, axes = panels(1, len(TASKS), sharey=False)
        for axis, task in zip(axes[0], TASKS, strict=True):
            for i, kind in enumerate(KINDS):
                seeds = [curve_of(row) for row in select(rows, task=task, model=kind)]
                curve(axis, range(1, len(seeds[0]) + 1), seeds, kind, i, i)
            seeds = [curve_of(row) for row in select(rows, task=task, model=TOLD_PHI)]
            if seeds and task == SERIES:
                curve(axis, range(1, len(seeds[0]) + 1), seeds, TOLD_PHI, 6, 3)
                axis.set_ylim(0, 1.5)
            if task == REGRESSION:
                axis.set_yscale("log")
            title(
                axis,
                TASK_NAMES[task],
                "position",
                "relative squared error" if task == REGRESSION else "",
            )
        legend_below(figure, axes[0][TASKS.index(SERIES)], len(KINDS) + 1)
        return figure


def told_phi(
    place: Workplace, *, task: dict[str, Any], n_points: int, n_prompts: int, seed: int
) -> dict[str, Any]:
    """Relative errors of ridge regression on phi, which the models are not told; and those of the noise."""
    torch.set_num_threads(1)
    made = build_task(TaskConfig.model_validate(task))
    batches = evaluation_prompts(made, n_points, n_prompts, seed)
    targets = torch.cat([b.ys for b in batches])
    noise = 0.0 if made.noise is None else float(getattr(made.noise, "std", 0.0)) ** 2
    # w ~ N(0, I) and noise N(0, noise): this penalty makes it the posterior mean, up to the gain of a series.
    ridge = Ridge(noise, features=made.features)
    predicted = torch.cat([ridge(b) for b in batches])
    unit, counted = targets.double().square().mean((0, 2)), batches[0].counted
    return {
        "error": {"1": (loss_per_position(predicted, targets) / unit).tolist()},
        "floor": (noise / unit).tolist() if noise else [],
        "counted": [True] * n_points if counted is None else counted.tolist(),
    }


def _floor(row: Row) -> float:
    """The relative error of a predictor that knows everything but the noise, at the end of the prompts."""
    kept = [v for v, counts in zip(row["floor"], row["counted"], strict=True) if counts]
    return fmean(kept[-LAST_POSITIONS:])


def _fall(row: Row) -> float:
    """How much the error falls from the first third of the positions to the last."""
    values = curve_of(row)
    third = max(1, len(values) // 3)
    return fmean(values[:third]) - fmean(values[-third:])
