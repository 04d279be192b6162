"""`icgd run --model ...`: fit a linear model inside a frozen transformer, beside scikit-learn."""

from __future__ import annotations

import time
from typing import Any

import torch
import typer
from torch import Tensor

import icgd
from icgd.cli.output import finite, holding_out
from icgd.cli.run.curves import thinned
from icgd.cli.run.network import FORMAT, load_table, r_squared, versions, write_result
from icgd.cli.run.recording import recorded
from icgd.cli.run.settings import Settings
from icgd.cli.tables import Table
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.oracle.library import fitted_weights
from icgd.problems import LinearModel
from icgd.transformer.program.blueprint import DTYPES
from icgd.verification.cot_linear import LinearModelCheck

MAX_POINTS = 400
"""Points of a curve in the result file."""
FIRST = 60


@holding_out
def run_linear_model(settings: Settings) -> dict[str, Any]:
    """Do the whole job and write the results; gives back the content of result.json."""
    # Labels and counts mean what they are: only the target of a regression may be scaled.
    scaled_target = settings.standardize and settings.model in ("ridge", "lasso")
    table = load_table(
        settings.data,
        settings.example,
        settings.target,
        standardize=settings.standardize,
        standardize_target=scaled_target,
    )
    if table.Y.shape[1] != 1:
        raise InvalidParameter(
            "--target", list(table.targets.names), f"be one column for --model {settings.model}"
        )
    X, y, notes = torch.as_tensor(table.X), torch.as_tensor(table.Y[:, 0]), list[str]()
    if settings.model == "logistic":
        y, note = two_classes(y, table.targets.names[0])
        notes.append(note)
    problem = make_problem(settings, X.shape[1])
    program = icgd.compile(
        problem,
        icgd.GD(lr=settings.lr or safe_step(problem, X, y)),
        temperature=settings.temperature,
        n_grid=settings.n_grid,
        rho=settings.rho,
        radius=settings.radius,
        target_radius=max(1.0, float(y.abs().max())) if settings.model == "poisson" else None,
        dtype=DTYPES[settings.dtype],
    )
    steps = settings.steps or 1000
    typer.echo(
        f"{len(X):,} rows, {X.shape[1]} features, {steps:,} steps of one layer call, each checked against "
        "exact gradient descent",
        err=True,
    )
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    started = time.perf_counter()
    try:

        def work(recorder: icgd.Recorder | None) -> tuple[icgd.Verdict, CoefficientPath]:
            path = CoefficientPath(steps)
            check = icgd.verify(
                program,
                X,
                y,
                steps=steps,
                executor=settings.executor,  # type: ignore[arg-type]
                progress=True,
                observe=path,
                recorder=recorder,
            )
            return check, path

        (check, path), recording = recorded(settings, program, X, y, work, steps=steps)
        assert isinstance(check, LinearModelCheck)
        measured = _measured(settings, problem, program, check, X, y, table, path)
    finally:
        torch.set_num_threads(before)
    result = finite(
        {
            **measured,
            "notes": [*notes, *table.notes, *check.notes, *measured["notes"]],
            "seconds": time.perf_counter() - started,
            "command": settings.command(),
            "config": {
                "data": str(settings.data) if settings.data else f"example:{settings.example}",
                "table": table.digest,
                "rows": len(X),
                "features": list(table.features.names),
                "target": table.targets.names[0],
                "model": settings.model,
                "steps": steps,
                "standardize": settings.standardize,
                "executor": settings.executor,
                **{
                    k: program.config[k]
                    for k in ("construction", "problem", "optimizer", "options")
                },
                "dtype": settings.dtype,
            },
            "versions": versions(),
        }
    )
    assert check.run is not None
    write_result(
        settings.out,
        result,
        {"weight": check.run.weights.contiguous()},
        table,
        recording,
    )
    return result


def make_problem(settings: Settings, n_features: int) -> LinearModel:
    """The problem an option names; standardised regressions need no intercept."""
    lam = settings.lam
    if settings.model in ("ridge", "lasso"):
        intercept = settings.bias and not settings.standardize
        kind = icgd.Ridge if settings.model == "ridge" else icgd.Lasso
        return kind(n_features, lam, intercept=intercept)
    return icgd.GLM(n_features, settings.model, lam, intercept=settings.bias)


def two_classes(y: Tensor, name: str) -> tuple[Tensor, str]:
    """Labels 0 and 1 from any two values."""
    values = y.unique()
    if len(values) != 2:
        shown = ", ".join(f"{float(v):g}" for v in values[:6])
        raise InvalidParameter(
            "--target",
            name,
            "hold exactly two classes for --model logistic",
            remedy=f"It holds {len(values)} values: {shown}{', ...' if len(values) > 6 else ''}.",
        )
    note = f"{name} = {float(values[1]):g} is the positive class, {float(values[0]):g} the negative one."
    return (y == values[1]).double(), note


def safe_step(problem: LinearModel, X: Tensor, y: Tensor) -> float:
    """1 / beta from the Gram matrix.

    A Poisson model bends like its fitted means; those of a fit do not exceed the largest count by
    much, so the largest count stands for them.
    """
    radius = 1.0
    if problem.spec.loss.name == "poisson":
        radius = float(torch.log(y.max().clamp(min=2.0)))
    beta = problem.constants_on(X, radius)[1]
    if not beta > 0:
        raise AssumptionViolated(
            "All features are constant: there is nothing to fit. Add a feature."
        )
    return 1.0 / beta


def _measured(
    settings: Settings,
    problem: LinearModel,
    program: icgd.Program,
    check: LinearModelCheck,
    X: Tensor,
    y: Tensor,
    table: Table,
    path: CoefficientPath,
) -> dict[str, Any]:
    run = check.run
    if run is None:
        raise AssumptionViolated(
            " ".join(check.notes)
            + " The compiled program fails its own probes: please report this."
        )
    w = run.weights.double()
    library, notes = _library(problem, X, y)
    names = [*table.features.names, *(["intercept"] if problem.spec.intercept else [])]
    zero = torch.zeros_like(w)
    away = None if library is None else float((w - library).abs().max())
    return {
        "format": FORMAT,
        "model": settings.model,
        "passed": bool(check.passed),
        **{
            name: float(getattr(check, name))
            for name in (
                "max_error",
                "max_round_error",
                "round_bound",
                "global_bound",
                "paper_bound",
                "distance",
            )
        },
        "rounds_over_bound": sum(not r.step_error <= r.step_bound for r in check.rounds),
        **run.cost.as_dict(),
        "objective_before": float(problem.objective(zero, X, y)),
        "objective_after": float(problem.objective(w, X, y)),
        "objective_library": None if library is None else float(problem.objective(library, X, y)),
        "max_difference_library": away,
        **_scores(settings.model, run.predict(X).double(), y),
        "range_use": float(run.range_use),
        "radius": program.radius,
        "head_error": program.certificate.sup_error,
        "rank": problem.rank_on(X),
        "constants": {k: float(v) for k, v in vars(check.constants).items()},
        "coefficients": {
            name: {
                "transformer": float(w[i]),
                "scikit-learn": None if library is None else float(library[i]),
            }
            for i, name in enumerate(names)
        },
        "notes": notes,
        "curves": _curves(check, path, names),
    }


def _library(problem: LinearModel, X: Tensor, y: Tensor) -> tuple[Tensor | None, list[str]]:
    try:
        return fitted_weights(problem, X, y), []
    except ValueError as error:
        return None, [f"scikit-learn could not fit the same model: {error}"]


def _scores(model: str, predicted: Tensor, y: Tensor) -> dict[str, float | None]:
    """How good the fit is on the training data, by the transformer's own predictions."""
    if model == "logistic":
        return {"accuracy": float(((predicted > 0.5) == (y > 0.5)).double().mean())}
    if model == "poisson":
        from sklearn.metrics import d2_tweedie_score

        if not float(y.max()) > float(y.min()):
            return {"d2": None}
        return {"d2": float(d2_tweedie_score(y.numpy(), predicted.numpy(), power=1))}
    return {"r2_transformer": r_squared(y.unsqueeze(1).numpy(), predicted.unsqueeze(1).numpy())}


class CoefficientPath:
    """Weights along a run, thinned; all of the first steps, where most happens."""

    def __init__(self, steps: int) -> None:
        self.marks = sorted({*range(min(steps, FIRST)), *thinned(steps, MAX_POINTS)})
        self._wanted, self.weights = frozenset(mark + 1 for mark in self.marks), list[Tensor]()

    def __call__(self, round_: int, w: Tensor, exact: Tensor) -> None:
        """Keep a step if it is one of those that are shown."""
        if round_ in self._wanted:
            self.weights.append(w.double().clone())


def _curves(check: LinearModelCheck, path: CoefficientPath, names: list[str]) -> dict[str, Any]:
    """Errors with bounds, and the path of every coefficient, thinned."""
    rows = [check.rounds[mark] for mark in path.marks]
    return {
        "fit": {
            "round": [float(r.step) for r in rows],
            **{
                name: [float(getattr(r, name)) for r in rows]
                for name in (
                    "error",
                    "step_error",
                    "step_bound",
                    "global_bound",
                    "distance",
                    "theorem",
                    "objective",
                )
            },
        },
        "path": {
            "round": [float(r.step) for r in rows],
            "coefficients": {
                name: [float(w[i]) for w in path.weights] for i, name in enumerate(names)
            },
        },
    }
