"""ALGO, Figure 2: AlgoFormer, looped and standard transformers on three tasks."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from icgd.lab.baselines import Ridge
from icgd.lab.experiments.claim import Case, gated_claim
from icgd.lab.experiments.drawing import curve, legend_below, panels, title
from icgd.lab.experiments.experiment import Claim, Experiment, ResultTable, Row, Rows, Scale
from icgd.lab.experiments.learned import best_reference, shortfalls
from icgd.lab.experiments.measures import evaluation_prompts
from icgd.lab.experiments.over_seeds import positive, select, smaller, spread
from icgd.lab.metrics import loss_per_position
from icgd.lab.sweeps.cells import Cell, Workplace
from icgd.lab.tasks import TaskConfig, build_task
from icgd.papers.algo.experiments.algoformers import (
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
    naive_lines,
    naive_predictors,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS = (REGRESSION, SERIES, CHAIN)
WELL_AHEAD = 0.8
TOLD_PHI = "ridge, told phi"
NAIVE_AT_END = "best naive predictor, at the end"
PAPER = TaskSize(
    seeds=3,
    n_dims=20,
    n_points=40,
    n_layer=1,
    n_head=8,
    n_embd=256,
    init_std=0.02,
    steps=500_000,
    batch=64,
    rate=1e-4,
    schedule="constant",
    prompts=6400,
    loops=20,
    window=15,
    standard_layers=12,
    series_points=40,
    chain_layers=6,
    chains=40,
)
OVERNIGHT = TaskSize(
    seeds=3,
    n_dims=5,
    n_points=12,
    n_layer=1,
    n_head=4,
    n_embd=32,
    init_std=0.18,
    steps=15_000,
    batch=32,
    rate=1e-3,
    prompts=4096,
    loops=8,
    window=4,
    standard_layers=12,
    series_points=24,
    chain_layers=3,
    chains=6,
)
LAPTOP = TaskSize(
    seeds=3,
    n_dims=5,
    n_points=12,
    n_layer=1,
    n_head=4,
    n_embd=32,
    init_std=0.18,
    steps=1500,
    batch=32,
    rate=1e-3,
    prompts=2048,
    loops=8,
    window=4,
    standard_layers=4,
    series_points=24,
    chain_layers=3,
    chains=6,
)
SMOKE = TaskSize(
    seeds=1,
    n_dims=2,
    n_points=5,
    n_layer=1,
    n_head=2,
    n_embd=8,
    init_std=0.3,
    steps=10,
    batch=4,
    rate=1e-3,
    prompts=32,
    loops=3,
    window=1,
    standard_layers=2,
    series_points=6,
    chain_layers=2,
    chains=3,
)


class AlgoFig2(Experiment):
    """Validation error against the number of examples, for three tasks and three models."""

    name: ClassVar = "algo-fig2"
    paper: ClassVar = "ALGO"
    where: ClassVar = "Section 5.2, Figure 2"
    question: ClassVar = (
        "Does an AlgoFormer predict better than a standard and a looped transformer?"
    )
    title: ClassVar = "AlgoFormer, looped and standard transformers on three tasks"
    differs: ClassVar = (
        *DIFFERS,
        "AR(q): the paper does not give the scale of phi. With He's scale and A ~ N(0, I) series "
        "explode; A is scaled here. The noise of the series has variance 1, below which no error can go.",
        "Errors are divided by the mean square of the targets at their position: series grow along a prompt.",
    )
    sizes: ClassVar = {"smoke": SMOKE, "laptop": LAPTOP, "overnight": OVERNIGHT, "paper": PAPER}

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per task, model and seed."""
        size: TaskSize = self.size(scale)
        cells = []
        for seed in range(size.seeds):
            for name in TASKS:
                task, points, layout = size.task(name)
                for kind in KINDS:
                    key = {"task": name, "model": kind}
                    model = size.model(kind, layout=layout)
                    cells.append(
                        model_cell(size, model, task, seed, key, n_points=points, relative=True)
                    )
                if name != CHAIN:
                    options = {
                        "task": {"n_dims": size.n_dims, **task},
                        "n_points": points,
                        "n_prompts": size.prompts,
                        "seed": seed,
                    }
                    reference = {"task": name, "model": TOLD_PHI, "seed": seed}
                    cells.append(Cell(reference, f"{__name__}:told_phi", options))
        for seed in range(size.seeds):
            for name in TASKS:
                task, points, _ = size.task(name)
                cells.append(naive_predictors(size, task, seed, {"task": name}, points))
        return cells

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Errors at the end of the prompts, parameters, and seconds of a training; naive predictors below."""
        lines: list[tuple[str, ...]] = []
        for task in TASKS:
            name = TASK_NAMES[task]
            for kind in KINDS:
                seeds = select(rows, task=task, model=kind)
                seconds = median(row["training_seconds"] for row in seeds)
                size, errors = f"{seeds[0]['parameters']:,}", spread(end_errors(seeds))
                lines.append((name, kind, size, errors, f"{seconds:.0f}"))
            references = naive_lines(rows, "relative", task=task)
            informed = select(rows, task=task, model=TOLD_PHI)
            if informed:
                references.append((TOLD_PHI, spread(end_errors(informed))))
                if informed[0]["floor"]:
                    references.append(("noise alone", spread([_floor(row) for row in informed])))
            lines += [(name, what, "-", error, "-") for what, error in references]
        columns = ("Task", "Predictor", "Parameters", "Squared error", "Seconds of a training")
        heading = (
            f"Squared error over mean square of the targets, in the last {LAST_POSITIONS} positions: median "
            "(range) over seeds. Predictors without parameters need no training"
        )
        return [ResultTable(heading, columns, tuple(lines))]

    def claims(self, rows: Rows) -> list[Claim]:
        """The orderings of Section 5.2, task by task."""
        claims = []
        for rival in ("standard", "looped"):
            for task in TASKS:
                ours, theirs = (end_errors(rows, task=task, model=m) for m in ("algoformer", rival))
                claims.append(
                    gated_claim(
                        f"AlgoFormer better than {rival} on {TASK_NAMES[task]}",
                        f"{TASK_NAMES[task]}: AlgoFormer has a smaller error than the {rival} transformer",
                        f"{spread(ours)} against {spread(theirs)}",
                        [Case(smaller(ours, theirs), _short(rows, task, ("algoformer", rival)))],
                    )
                )
        return [*claims, _chains(rows), _falls(rows)]

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
            naive = best_reference(rows, "relative", task=task)
            axis.axhline(median(naive.values), color="0.4", linewidth=0.8, label=NAIVE_AT_END)
            if task == REGRESSION:
                axis.set_yscale("log")
            title(
                axis,
                TASK_NAMES[task],
                "position",
                "relative squared error" if task == REGRESSION else "",
            )
        legend_below(figure, axes[0][TASKS.index(SERIES)], len(KINDS) + 2)
        return figure


def _short(rows: Rows, task: str, kinds: Sequence[str]) -> tuple[str, ...]:
    """Models that have not learned what the best naive predictor of the task has."""
    models = {
        f"{TASK_NAMES[task]}, {kind}": end_errors(rows, task=task, model=kind) for kind in kinds
    }
    return shortfalls(models, best_reference(rows, "relative", task=task))


def _chains(rows: Rows) -> Claim:
    errors = {kind: end_errors(rows, task=CHAIN, model=kind) for kind in KINDS}
    bar = [WELL_AHEAD * looped for looped in errors["looped"]]
    return gated_claim(
        "on chains the looped transformer is far behind both others",
        "CoT with MLPs: AlgoFormer and standard transformer are both well ahead of the looped one "
        f"(here: below {WELL_AHEAD} of its error)",
        ", ".join(f"{kind} {spread(values)}" for kind, values in errors.items()),
        [
            Case(smaller(errors[kind], bar), _short(rows, CHAIN, (kind, "looped")))
            for kind in ("algoformer", "standard")
        ],
    )


def _falls(rows: Rows) -> Claim:
    cases = [
        Case(
            positive([_fall(row) for row in select(rows, task=task, model=kind)]),
            _short(rows, task, (kind,)),
        )
        for task in TASKS
        for kind in KINDS
    ]
    falling = sum(case.holds is True for case in cases)
    return gated_claim(
        "errors fall with the number of examples",
        "the error falls as examples are added",
        "last third of the positions below the first, in all seeds: "
        f"{falling} of {len(cases)} cases",
        cases,
    )


def told_phi(
    place: Workplace, *, task: dict[str, Any], n_points: int, n_prompts: int, seed: int
) -> dict[str, Any]:
    """Relative errors of ridge regression on phi, which the models are not told; and those of the noise."""
    torch.set_num_threads(1)
    built_task = build_task(TaskConfig.model_validate(task))
    batches = evaluation_prompts(built_task, n_points, n_prompts, seed)
    targets = torch.cat([b.ys for b in batches])
    noise = 0.0 if built_task.noise is None else float(getattr(built_task.noise, "std", 0.0)) ** 2
    # w ~ N(0, I) and noise N(0, noise): this penalty makes it the posterior mean, up to the gain of a series.
    ridge = Ridge(noise, features=built_task.features)
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
