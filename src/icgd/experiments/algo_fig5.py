"""ALGO, Figure 5: AlgoFormers beside gradient descent and Newton's method, with and without noise."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from icgd.experiments.algo_fig2 import LAPTOP as FIG2_LAPTOP
from icgd.experiments.algo_fig2 import OVERNIGHT as FIG2_OVERNIGHT
from icgd.experiments.algo_fig2 import PAPER as FIG2_PAPER
from icgd.experiments.algo_fig2 import SMOKE as FIG2_SMOKE
from icgd.experiments.algoformers import DIFFERS, PROMPTS_SEED, AlgoSize, errors, resized
from icgd.experiments.cells import Cell, Workplace, training_cell
from icgd.experiments.compiled import compiled_iterates
from icgd.experiments.drawing import curve, legend_below, panels, title
from icgd.experiments.experiment import Claim, Experiment, ResultTable, Row, Rows, Scale
from icgd.experiments.measures import evaluation_prompts, predictions
from icgd.experiments.over_seeds import distinct, select, smaller, told
from icgd.training.baselines import GradientDescent, NewtonIterations, Ridge, optimal_ridge
from icgd.training.batch import Batch
from icgd.training.metrics import best_matching_iterate, cosine_of_gradients, squared_errors
from icgd.training.tasks import TaskConfig, build_task
from icgd.training.trainer import Trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISES = (0.0, 0.1, 1.0)
LAST = -1
"""The position that is looked at: the end of the prompt."""
GD, NEWTON, RIDGE = "gradient descent", "Newton", "optimal ridge"
FEW = 2
"""Iterations that count as the beginning."""
FAR = 1e-2
"""An error that is so many times smaller is far ahead."""
N_GRADIENTS = 64
"""Prompts whose gradients are compared."""


@dataclass(frozen=True, kw_only=True)
class NoiseSize(AlgoSize):
    """Settings of Figure 5.

    pairs       (T, dT) of the AlgoFormers
    iterations  up to which everything is followed
    """

    pairs: tuple[tuple[int, int], ...]
    iterations: int


class AlgoFig5(Experiment):
    """Error at the end of a prompt against loops, beside the iterates of two algorithms."""

    name: ClassVar = "algo-fig5"
    paper: ClassVar = "ALGO"
    where: ClassVar = "Section 5.4, Figure 5"
    title: ClassVar = "AlgoFormers, gradient descent and Newton's method under noise"
    differs: ClassVar = (
        *DIFFERS,
        "The task is y = w.x / sqrt(d) + noise with w ~ N(0, I), so Var(y) = 1 without noise; errors "
        "include the noise of the target. The paper gives no scale.",
        "Gradient descent takes the step 1/L of each prompt, Newton's iteration starts at S / |S|^2: the best "
        "fixed choices. The paper searched a grid it does not show.",
        "Compiled programs cannot see the data: their step and start come from the problem's radius. Each "
        "is held against the exact algorithm with the same step and start.",
    )
    sizes: ClassVar = {
        "smoke": resized(NoiseSize, FIG2_SMOKE, pairs=((3, 2), (2, 2)), iterations=5),
        "laptop": resized(
            NoiseSize, FIG2_LAPTOP, pairs=((8, 6), (5, 5)), iterations=16, steps=1200
        ),
        "overnight": resized(
            NoiseSize, FIG2_OVERNIGHT, pairs=((8, 6), (5, 5)), iterations=24, steps=15_000
        ),
        "paper": resized(NoiseSize, FIG2_PAPER, pairs=((20, 15), (10, 10)), iterations=40),
    }

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per noise, pair and seed; the algorithms once per noise."""
        size: NoiseSize = self.size(scale)
        made = []
        for noise in NOISES:
            task = {
                "name": "noisy_linear_regression",
                "noise_std": noise,
                "scale": size.n_dims**-0.5,
            }
            for seed in range(size.seeds):
                for loops, window in size.pairs:
                    model = size.model("algoformer", loops=loops, window=window)
                    config = size.config(model=model, task=task, seed=seed)
                    key = {
                        "what": "algoformer",
                        "noise": noise,
                        "loops": loops,
                        "window": window,
                        "seed": seed,
                    }
                    options = {"n_prompts": size.prompts, "iterations": size.iterations}
                    made.append(training_cell(key, config, f"{__name__}:by_loops", options))
            given: dict[str, Any] = {
                "task": {"n_dims": size.n_dims, **task}, "n_points": size.n_points, "n_prompts": size.prompts,
                "iterations": size.iterations,
            }  # fmt: skip
            made.append(
                Cell({"what": "algorithms", "noise": noise}, f"{__name__}:algorithms", given)
            )
        return made

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Errors of models and algorithms; which iterates a model errs like; compiled programs."""
        lines, alike, compiled = [], [], []
        for noise in distinct(rows, "noise"):
            exact = _exact(rows, noise)
            for loops, window in _pairs(rows):
                found = select(rows, what="algoformer", noise=noise, loops=loops, window=window)
                shape = (f"{noise:g}", f"{loops}", f"{window}")
                others = [
                    exact["error"][GD][loops],
                    exact["error"][NEWTON][loops],
                    exact["error"][RIDGE][0],
                ]
                ours = told([_at_the_end(row) for row in found])
                lines.append((*shape, ours, *(f"{value:.3g}" for value in others)))
                like = [_told_alike(found, name) for name in (GD, NEWTON)]
                alike.append((*shape, *like, told([row["gradient_cosine"] for row in found])))
            for name in (GD, NEWTON):
                end, difference = exact["compiled"][name][-1], exact["difference"][name]
                compiled.append((f"{noise:g}", name, f"{end:.3g}", f"{difference:.1e}"))
        return [
            ResultTable(
                "Squared error at the end of a prompt, after T loops or as many iterations",
                ("Noise", "T", "dT", "AlgoFormer", GD, NEWTON, RIDGE), tuple(lines),
            ),
            ResultTable(
                "The iterate whose errors are most like the AlgoFormer's, and their cosine; cosine of its "
                "gradients in the query with those of optimal ridge",
                ("Noise", "T", "dT", GD, NEWTON, "gradients"), tuple(alike),
            ),
            ResultTable(
                "Compiled programs after the last iteration: squared error, and the largest difference of a "
                "prediction to the exact algorithm's with the same step and start, over all iterations",
                ("Noise", "Program", "Squared error", "Difference"), tuple(compiled),
            ),
        ]  # fmt: skip

    def claims(self, rows: Rows) -> list[Claim]:
        """Statements of Section 5.4, for the AlgoFormer with the longer loop."""
        loops, window = _pairs(rows)[0]
        clean, noisy = (
            select(rows, what="algoformer", noise=n, loops=loops, window=window) for n in (0.0, 1.0)
        )
        exact, with_noise = (_exact(rows, n)["error"] for n in (0.0, 1.0))
        few = [row["by_loops"][FEW - 1] for row in clean]
        rivals = [exact[name][FEW] for name in (GD, NEWTON)]
        ends, newton = [_at_the_end(row) for row in clean], exact[NEWTON]
        noisy_ends = [_at_the_end(row) for row in noisy]
        after = [with_noise[name][loops] for name in (GD, NEWTON)]
        best = [min(with_noise[name]) for name in (GD, NEWTON)]
        return [
            Claim(
                "without noise the AlgoFormer is ahead after few iterations",
                "no noise: in the beginning the AlgoFormer's error is smaller than that of both algorithms "
                f"(here: after {FEW} loops or iterations)",
                f"{told(few)} against {rivals[0]:.3g} and {rivals[1]:.3g}",
                smaller(few, [min(rivals)] * len(few)),
            ),
            Claim(
                "Newton's method is far ahead in the end",
                "no noise: Newton's method then reaches machine precision while the AlgoFormer stays behind",
                f"Newton {newton[-1]:.2g} after {len(newton) - 1} iterations, AlgoFormer {told(ends)} "
                f"after {loops}",
                smaller([newton[-1]] * len(ends), [FAR * value for value in ends]),
            ),
            Claim(
                "with noise 1 the AlgoFormer beats both algorithms after as many iterations",
                "with noise the AlgoFormer has smaller errors than both algorithms",
                f"noise 1, T = {loops}: {told(noisy_ends)} against {after[0]:.3g} and {after[1]:.3g}; "
                f"optimal ridge {with_noise[RIDGE][0]:.3g}",
                smaller(noisy_ends, [min(after)] * len(noisy_ends)),
            ),
            Claim(
                "with noise 1 it beats them at their best iteration too",
                "the paper explains this by slow convergence under noise. Both minimise the error on the "
                "examples, so that stopping early helps them: held against their best iteration",
                f"noise 1: {told(noisy_ends)} against {best[0]:.3g} and {best[1]:.3g}",
                smaller(noisy_ends, [min(best)] * len(noisy_ends)),
            ),
        ]  # fmt: skip

    def draw(self, rows: Rows) -> Figure:
        """A panel per noise."""
        figure, (axes,) = panels(1, len(NOISES), sharey=False)
        for axis, noise in zip(axes, NOISES, strict=True):
            for i, (loops, window) in enumerate(_pairs(rows)):
                found = select(rows, what="algoformer", noise=noise, loops=loops, window=window)
                seeds = [row["by_loops"] for row in found]
                label = f"AlgoFormer, T = {loops}, dT = {window}"
                curve(axis, range(1, len(seeds[0]) + 1), seeds, label, i)
            exact = _exact(rows, noise)
            for i, name in enumerate((GD, NEWTON), 2):
                curve(axis, range(len(exact["error"][name])), [exact["error"][name]], name, i, 1)
                compiled = exact["compiled"][name]
                curve(axis, range(1, len(compiled) + 1), [compiled], f"compiled {name}", i, 2)
            axis.axhline(exact["error"][RIDGE][0], color="0.4", linewidth=0.8, label=RIDGE)
            axis.set_yscale("log")
            axis.set_ylim(bottom=1e-8 if noise == 0 else None)
            title(
                axis,
                f"noise {noise:g}",
                "loops or iterations",
                "squared error" if noise == 0 else "",
            )
        legend_below(figure, axes[0], 4)
        return figure


def by_loops(trained: Trained, *, n_prompts: int, iterations: int) -> dict[str, Any]:
    """Errors at the end of the prompts after 1, 2, .. loops, and which iterates they are like."""
    loops = trained.config.model.loops
    task, n_points = build_task(trained.config.task), trained.config.training.n_points
    batches = evaluation_prompts(task, n_points, n_prompts, PROMPTS_SEED)
    whole = _joined(batches)
    made = {t: predictions(trained.model, batches, t) for t in range(1, iterations + 1)}
    alike = {}
    for name, algorithm in _algorithms(iterations).items():
        at_the_end = algorithm.iterates(whole)[:, :, LAST:]
        step, how = best_matching_iterate(made[loops][:, LAST:], at_the_end, whole.ys[:, LAST:])
        alike[name] = (int(step), float(how))
    few = Batch(whole.xs[:N_GRADIENTS], whole.ys[:N_GRADIENTS])
    ridge = optimal_ridge(task) if task.noise is not None else Ridge(0.0)
    cosine = cosine_of_gradients(
        lambda b: trained.model(b.xs, b.ys, b.kind), ridge, few, [n_points - 1]
    )
    return {
        **errors(trained, n_prompts=n_prompts, loops=[loops]),
        "by_loops": [_end(made[t], whole) for t in made],
        "alike": alike,
        "gradient_cosine": float(cosine),
    }


def algorithms(
    place: Workplace, *, task: dict[str, Any], n_points: int, n_prompts: int, iterations: int
) -> dict[str, Any]:
    """Errors of exact and compiled gradient descent and Newton's method at the end of the prompts."""
    torch.set_num_threads(1)
    made = build_task(TaskConfig.model_validate(task))
    # Drawn in the models' precision, so that the prompts are theirs.
    drawn = _joined(evaluation_prompts(made, n_points, n_prompts, PROMPTS_SEED))
    whole = Batch(drawn.xs.double(), drawn.ys.double())
    error = {
        name: [_end(p, whole) for p in algorithm.iterates(whole)]
        for name, algorithm in _algorithms(iterations).items()
    }
    ridge = optimal_ridge(made) if made.noise is not None else Ridge(0.0)
    error[RIDGE] = [_end(ridge(whole), whole)]
    compiled, difference = {}, {}
    for name in (GD, NEWTON):
        outputs, exact = compiled_iterates(name, whole, iterations)
        targets = whole.ys[:, LAST]
        compiled[name] = [fmean((p - targets).square().flatten().tolist()) for p in outputs]
        difference[name] = float((outputs - exact).abs().max())
    return {"error": error, "compiled": compiled, "difference": difference}


def _algorithms(iterations: int) -> dict[str, GradientDescent | NewtonIterations]:
    return {GD: GradientDescent(iterations), NEWTON: NewtonIterations(iterations)}


def _joined(batches: list[Batch]) -> Batch:
    return Batch(torch.cat([b.xs for b in batches]), torch.cat([b.ys for b in batches]))


def _end(made: torch.Tensor, whole: Batch) -> float:
    return float(squared_errors(made, whole.ys)[:, LAST].mean())


def _at_the_end(row: Row) -> float:
    """The error after as many loops as trained."""
    return float(row["by_loops"][row["loops"] - 1])


def _exact(rows: Rows, noise: float) -> Row:
    """The row of the algorithms."""
    return select(rows, what="algorithms", noise=noise)[0]


def _told_alike(rows: Rows, name: str) -> str:
    """The iterate of an algorithm that models err like, and how much."""
    step = median(row["alike"][name][0] for row in rows)
    return f"step {step:g}, {told([row['alike'][name][1] for row in rows])}"


def _pairs(rows: Rows) -> list[tuple[int, int]]:
    return list(dict.fromkeys((r["loops"], r["window"]) for r in select(rows, what="algoformer")))
