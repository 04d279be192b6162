"""`icgd run --program` and `icgd verify --program` for programs that `icgd compile` wrote."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from icgd.base.atomic import only_writer, staged
from icgd.base.atomic.tensors import tensor_bytes
from icgd.cli.output import as_json, check_directory
from icgd.cli.run.compiled import RecipeFile, Rows, read_compiled, rows_of
from icgd.cli.run.network import versions
from icgd.cli.run.recipe import load_recipe
from icgd.errors import InvalidParameter

if TYPE_CHECKING:
    from icgd.mechanisms.machine.programs.program import TrainingRun
    from icgd.transformer.runtime.executors.choose import ExecutorName

FORMAT = "icgd-machine-run/1"


@dataclass(frozen=True)
class MachineRequest:
    """What the command line asks for; None: as it was compiled."""

    program: Path
    data: Path | None
    target: tuple[str, ...]
    epochs: int
    batch_size: int | None
    shuffle: int | None
    executor: str
    out: Path | None = None


def run_program(request: MachineRequest) -> None:
    """Train in context from the compiled initial weights; writes result.json and weights.safetensors."""
    assert request.out is not None
    check_directory("--out", request.out)
    program, settings, initial = read_compiled(request.program)
    rows = table_for(request, settings)
    size = request.batch_size or settings.batch_size
    started = time.perf_counter()
    with only_writer(request.out):
        run = program.run(
            rows.X,
            rows.y,
            init=initial,
            epochs=request.epochs,
            batch_size=size,
            shuffle=request.shuffle,
            executor=cast("ExecutorName", request.executor),
            progress=True,
        )
        result = {
            "format": FORMAT,
            "program": str(request.program),
            "rows": len(rows.X),
            "epochs": request.epochs,
            "batch_size": size,
            "shuffle": request.shuffle,
            **run.cost.as_dict(),
            "losses": [float(value) for value in run.losses],
            "range_use": run.range_use,
            "seconds": time.perf_counter() - started,
            "settings": settings.model_dump(),
            "versions": versions(),
        }
        with staged(request.out) as directory:
            (directory / "result.json").write_text(as_json(result) + "\n", encoding="utf-8")
            weights = {name: value.contiguous() for name, value in run.state_dict.items()}
            (directory / "weights.safetensors").write_bytes(tensor_bytes(weights, {"format": "pt"}))
    _show(run, rows, request)


def _show(run: TrainingRun, rows: Rows, request: MachineRequest) -> None:
    typer.echo(
        f"{run.cost.rounds:,} rounds on {len(rows.X):,} rows, {run.cost.blocks:,} calls of one frozen layer"
    )
    if run.losses.numel():
        per_epoch = run.losses.reshape(request.epochs, -1).mean(dim=1)
        typer.echo(
            f"loss {float(run.losses[0]):.6g} in the first round, {float(per_epoch[-1]):.6g} on average in "
            "the last epoch"
        )
    typer.echo(f"Results: {request.out}")


def table_for(request: MachineRequest, settings: RecipeFile) -> Rows:
    """The table it was compiled for, or another one with the same columns."""
    data = request.data
    if data is None and settings.data is not None:
        data = Path(settings.data)
    example = settings.example if data is None else None
    rows = rows_of(
        data,
        example,
        request.target or tuple(settings.target),
        standardize=settings.standardize,
        classes=settings.classes,
    )
    n_features = len(settings.features)
    if (rows.X.shape[1], len(rows.table.targets.names)) != (n_features, len(settings.target)):
        raise InvalidParameter(
            "DATA",
            f"{rows.X.shape[1]} features and {len(rows.table.targets.names)} targets",
            f"have {n_features} features and {len(settings.target)} targets, as the program was compiled",
            remedy="Choose other --target columns, or compile for this table.",
        )
    return rows


def verify_program(request: MachineRequest, reference: str | None) -> Any:
    """icgd.verify beside the user's own model, optimizer and loss, which only the recipe has."""
    import icgd

    program, settings, initial = read_compiled(request.program)
    if reference is None:
        raise InvalidParameter(
            "--recipe",
            None,
            "be given: the function that made model, loss and optimizer",
            remedy=f"It was compiled from {settings.recipe}; code that a directory names is never run unasked.",
        )
    recipe = load_recipe(reference)
    rows = table_for(request, settings)
    try:
        recipe.model.load_state_dict(initial)
    except RuntimeError as error:
        raise InvalidParameter(
            "--recipe",
            reference,
            "return the model the program was compiled from",
            remedy=" ".join(str(error).split()),
        ) from error
    return icgd.verify(
        program,
        rows.X,
        rows.y,
        epochs=request.epochs,
        batch_size=request.batch_size or settings.batch_size,
        model=recipe.model,
        optimizer=recipe.optimizer,
        loss=recipe.loss,
    )
