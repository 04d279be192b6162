"""`icgd run --model linear`: least squares by looped transformers, three algorithms beside each other."""

from __future__ import annotations

import time
from typing import Any

import torch
import typer
from torch import Tensor

import icgd
from icgd.base.growth import TENSOR
from icgd.base.preflight import Part, require_memory
from icgd.cli.output import finite, holding_out
from icgd.cli.run.network import FORMAT, load_table, r_squared, versions, write_result
from icgd.cli.run.recording import Recording, recorded
from icgd.cli.run.settings import Settings
from icgd.cli.tables import Table
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.oracle.least_squares import (
    gd_path,
    least_squares,
    newton_path,
    preconditioned_path,
)
from icgd.transformer.program.blueprint import DTYPES

STEPS = {"gd": 100, "newton": 30, "preconditioned": 20}
NEWTON_STEPS = 10
"""Steps of Newton's iteration that make the preconditioner."""
AGREES = 1e-6
"""Largest distance to the exact algorithm, relative to the weights, that counts as the same path."""


@holding_out
def run_least_squares(settings: Settings) -> dict[str, Any]:
    """Do the whole job and write the results; gives back the content of result.json."""
    table = load_table(
        settings.data, settings.example, settings.target, standardize=settings.standardize
    )
    if table.Y.shape[1] != 1:
        raise InvalidParameter(
            "--target", list(table.targets.names), "be one column for --model linear"
        )
    X, y = torch.as_tensor(table.X), torch.as_tensor(table.Y[:, 0])
    started, before = time.perf_counter(), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        paths, programs, costs, notes, recording = _paths(settings, X, y)
    finally:
        torch.set_num_threads(before)
    chosen = settings.optimizer
    measured = _measured(settings, table, X, y, paths)
    program = programs[chosen]
    result = finite(
        {
            **measured,
            **costs[chosen],
            "notes": [*table.notes, *notes],
            "seconds": time.perf_counter() - started,
            "command": settings.command(),
            "config": {
                "data": str(settings.data) if settings.data else f"example:{settings.example}",
                "table": table.digest,
                "rows": len(X),
                "features": list(table.features.names),
                "target": table.targets.names[0],
                "model": settings.model,
                "standardize": settings.standardize,
                **{
                    k: program.config[k]
                    for k in ("construction", "problem", "optimizer", "options")
                },
                "steps": settings.steps or STEPS[chosen],
                "lr": settings.lr,
                "executor": settings.executor,
                "dtype": settings.dtype,
            },
            "versions": versions(),
        }
    )
    size = max(1.0, float(paths[f"{chosen}_exact"][-1].abs().max()))
    if chosen != "gd" and measured["distance"] > 1e-6 * size:
        result["notes"].append(
            f"Not converged: {measured['distance']:.2g} from the least-squares solution. Raise --steps, or "
            "standardise the data."
        )
    weight = paths[f"{chosen}_transformer"][-1]
    write_result(
        settings.out,
        result,
        {"weight": weight.contiguous()},
        table,
        recording,
    )
    return result


def _paths(
    settings: Settings, X: Tensor, y: Tensor
) -> tuple[
    dict[str, list[Tensor]],
    dict[str, icgd.Program],
    dict[str, dict[str, int]],
    list[str],
    Recording,
]:
    """Weights after every step, exactly and by a transformer, and what the transformer's run cost."""
    largest = float(torch.linalg.eigvalsh(X.T @ X)[-1])
    if not largest > 0:
        raise AssumptionViolated(
            "All features are constant: there is nothing to fit. Add a feature."
        )
    radius = float(X.norm(dim=1).max()) * (1 + 1e-9)
    problem = icgd.LinearRegression(X.shape[1], len(X), x_radius=radius)
    lr = settings.lr or len(X) / largest
    alpha = 1 / largest**2
    optimizers: dict[str, icgd.GD | icgd.Newton | icgd.PreconditionedGD] = {
        "gd": icgd.GD(lr),
        "newton": icgd.Newton(alpha),
        "preconditioned": icgd.PreconditionedGD(1.0, NEWTON_STEPS, alpha),
    }
    longest = max(settings.steps or STEPS[name] for name in optimizers)
    # Six paths are compared, exact ones and the transformer's.
    kept = 2 * len(optimizers) * longest * (TENSOR + 8 * X.shape[1])
    require_memory(f"Keeping the weights of {longest:,} loops", [Part("steps", longest, kept)])
    exact = {
        "gd": gd_path(X, y, lr, settings.steps or STEPS["gd"]),
        "newton": newton_path(X, y, alpha, settings.steps or STEPS["newton"]),
        "preconditioned": preconditioned_path(
            X, y, alpha, NEWTON_STEPS, 1.0, settings.steps or STEPS["preconditioned"]
        ),
    }
    paths, programs, costs, notes = {}, {}, {}, list[str]()
    recording = Recording()
    for name, optimizer in optimizers.items():
        steps = settings.steps or STEPS[name]
        typer.echo(
            f"{len(X):,} rows, {X.shape[1]} features, {steps:,} loops by {name}, beside the exact "
            "algorithm",
            err=True,
        )
        programs[name] = icgd.compile(problem, optimizer, dtype=DTYPES[settings.dtype])

        def work(
            recorder: icgd.Recorder | None, name: str = name, steps: int = steps
        ) -> tuple[icgd.Run, list[Tensor]]:
            path = list[Tensor]()

            def keep(done: int, weights: Tensor) -> None:
                path.append(weights.double().clone())

            if recorder is not None:
                recorder.after_round = keep
            run = programs[name].run(
                X,
                y,
                steps=steps,
                executor=settings.executor,
                record=recorder or keep,
                progress=True,
            )
            return run, path

        try:
            if name == settings.optimizer:
                (run, path), recording = recorded(settings, programs[name], X, y, work, steps=steps)
            else:
                run, path = work(None)
        except AssumptionViolated as refused:
            if name == settings.optimizer:
                raise
            notes.append(f"{name} was left out of the comparison: {refused}")
            continue
        paths[f"{name}_transformer"] = path
        paths[f"{name}_exact"] = list(exact[name])
        costs[name] = run.cost.as_dict()
    return paths, programs, costs, notes, recording


def _measured(
    settings: Settings, table: Table, X: Tensor, y: Tensor, paths: dict[str, list[Tensor]]
) -> dict[str, Any]:
    chosen, best = settings.optimizer, least_squares(X, y)
    size = max(1.0, float(best.abs().max()))
    errors = {
        name: [
            float((a - b).abs().max())
            for a, b in zip(paths[f"{name}_transformer"], paths[f"{name}_exact"], strict=True)
        ]
        for name in STEPS
        if f"{name}_transformer" in paths
    }
    w = paths[f"{chosen}_transformer"][-1]
    names = list(table.features.names)
    return {
        "format": FORMAT,
        "model": "linear",
        "optimizer": chosen,
        "passed": max(errors[chosen]) <= AGREES * size,
        "max_error": max(errors[chosen]),
        "distance": float((w - best).abs().max()),
        "objective_before": float(0.5 * y.square().mean()),
        "objective_after": float(0.5 * (X @ w - y).square().mean()),
        "objective_library": float(0.5 * (X @ best - y).square().mean()),
        "r2_transformer": r_squared(table.Y, (X @ w).unsqueeze(1).numpy()),
        "coefficients": {
            name: {"transformer": float(w[i]), "scikit-learn": float(best[i])}
            for i, name in enumerate(names)
        },
        "curves": {
            "distance": {
                name: [float((w - best).norm()) for w in path] for name, path in paths.items()
            },
            "error": errors,
        },
    }
