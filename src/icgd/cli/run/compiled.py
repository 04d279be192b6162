"""Compiled recipes in directories: the program, where it starts from, and which rows it was made for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

import icgd
from icgd.base.atomic import only_writer, staged
from icgd.base.atomic.tensors import read_tensors, tensor_bytes
from icgd.base.plugins import reason
from icgd.cli.run.network import load_table
from icgd.cli.run.recipe import Recipe, load_recipe
from icgd.errors import InvalidFile, InvalidParameter
from icgd.mechanisms.machine.programs.training import TrainingProgram
from icgd.transformer.program import Program

if TYPE_CHECKING:
    from icgd.cli.run.compile_command import CompileRequest
    from icgd.cli.tables import Table

FORMAT = "icgd-recipe/1"
RECIPE, INITIAL = "recipe.json", "initial.safetensors"
MOST_CLASSES = 10_000


class RecipeFile(BaseModel):
    """What recipe.json says: the function that was called, and how rows were made of a table.

    digest   of the recipe's file, empty for a module
    classes  values of the target that stand for the indices 0, 1, ..; None where targets are numbers
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    format: str
    recipe: str
    digest: str
    data: str | None
    example: str | None
    target: list[str]
    features: list[str]
    standardize: bool
    classes: list[float] | None
    batch_size: int = Field(ge=1)


@dataclass(frozen=True)
class Rows:
    """A table as a program takes it."""

    X: Tensor
    y: Tensor
    table: Table
    classes: list[float] | None


def compile_to(request: CompileRequest) -> None:
    """Do the whole job and write the directory; prints what a round takes."""
    recipe = load_recipe(request.recipe)
    rows = rows_of(
        request.data,
        request.example,
        request.target,
        standardize=request.standardize,
        classes=[] if request.classify else None,
    )
    size = min(request.batch_size, len(rows.X))
    typer.echo(f"{len(rows.X):,} rows, batches of {size}; compiling {request.recipe}", err=True)
    with only_writer(request.out):
        program = _compiled(request, recipe, rows, size)
        _write(request, recipe, program, rows, size)
    typer.echo(f"{program.tapes.title} with {program.optimizer.called}, in batches of {size}")
    typer.echo(str(program.cost))
    typer.echo(f"Program: {request.out}")


def _compiled(request: CompileRequest, recipe: Recipe, rows: Rows, size: int) -> TrainingProgram:
    if recipe.traced is None:
        _try_once(recipe, rows, size)
    options: dict[str, Any] = {
        "heads": request.heads,
        "radius": request.radius,
        "kernels": request.kernels,
    }
    if recipe.traced is not None:
        program = icgd.compile(recipe.traced, **options)
    else:
        rest = len(rows.X) % size
        program = icgd.compile(
            recipe.model,
            recipe.optimizer,
            loss=recipe.loss,
            example=(rows.X[:size], rows.y[:size]),
            batch_sizes=[rest] if rest else [],
            **options,
        )
    if not isinstance(program, TrainingProgram):
        raise InvalidParameter("RECIPE", request.recipe, "give a step that trains a model")
    return program


def _try_once(recipe: Recipe, rows: Rows, size: int) -> None:
    """A model that does not fit the table is the user's mistake, not one of the compiler."""
    assert recipe.loss is not None
    try:
        with torch.no_grad():
            recipe.loss(recipe.model(rows.X[:size]), rows.y[:size])
    except Exception as error:
        kind = "class indices" if rows.classes is not None else f"{rows.y.shape[1]} targets"
        raise InvalidParameter(
            "RECIPE",
            recipe.reference,
            f"return a model and a loss for {rows.X.shape[1]} features and {kind}",
            remedy=f"They raised {reason(error)}.",
        ) from error


def _write(
    request: CompileRequest, recipe: Recipe, program: TrainingProgram, rows: Rows, size: int
) -> None:
    """The program, its initial weights and its settings: all or nothing."""
    place, _, _ = request.recipe.rpartition(":")
    path = Path(place)
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.suffix == ".py" else ""
    settings = RecipeFile(
        format=FORMAT,
        recipe=request.recipe,
        digest=digest,
        data=None if request.data is None else str(request.data),
        example=request.example,
        target=list(rows.table.targets.names),
        features=list(rows.table.features.names),
        standardize=request.standardize,
        classes=rows.classes,
        batch_size=size,
    )
    state = {name: value.detach().contiguous() for name, value in recipe.model.state_dict().items()}
    with staged(request.out) as directory:
        super(Program, program).save_pretrained(directory)
        (directory / INITIAL).write_bytes(tensor_bytes(_unshared(state), {"format": "pt"}))
        text = json.dumps(settings.model_dump(), indent=2, allow_nan=False)
        (directory / RECIPE).write_text(text + "\n", encoding="utf-8")


def _unshared(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tied parameters have several names; files hold each of them."""
    return {name: value.clone() for name, value in state.items()}


def rows_of(
    data: Path | None,
    example: str | None,
    targets: tuple[str, ...],
    *,
    standardize: bool,
    classes: list[float] | None,
) -> Rows:
    """Features and targets; `classes` are known ones, [] has them looked for, None is for numbers."""
    table = load_table(
        data,
        example,
        targets,
        standardize=standardize,
        standardize_target=standardize and classes is None,
    )
    X = torch.as_tensor(table.X)
    if classes is None:
        return Rows(X, torch.as_tensor(table.Y), table, None)
    name = table.targets.names[0]
    if len(table.targets.names) > 1:
        raise InvalidParameter(
            "--target", list(table.targets.names), "name one column of classes with --classify"
        )
    values = torch.as_tensor(table.Y[:, 0])
    known = torch.tensor(classes, dtype=values.dtype) if classes else values.unique()
    if len(known) < 2 or len(known) > MOST_CLASSES:
        raise InvalidParameter(
            "--target",
            name,
            f"hold 2 to {MOST_CLASSES:,} classes with --classify, not {len(known)}",
        )
    index = torch.searchsorted(known, values).clamp(max=len(known) - 1)
    if not torch.equal(known[index], values):
        strange = float(values[known[index] != values][0])
        raise InvalidParameter(
            f"column {name}", strange, f"be one of the classes compiled for: {known.tolist()[:12]}"
        )
    return Rows(X, index, table, [float(v) for v in known])


def read_compiled(directory: Path) -> tuple[TrainingProgram, RecipeFile, dict[str, Tensor]]:
    """A directory that `icgd compile` wrote: program, settings, initial weights."""
    program = icgd.Program.from_pretrained(directory)
    if not isinstance(program, TrainingProgram):
        raise InvalidParameter(
            "--program",
            str(directory),
            "hold a program that icgd compile wrote",
            remedy=f"It holds {program.construction.noun}; run it in Python, or icgd verify --program.",
        )
    path = directory / RECIPE
    try:
        settings = RecipeFile.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise InvalidFile(
            f"No {RECIPE} in {directory}: the program was saved from Python. Run it there, with "
            "init=model.state_dict()."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise InvalidFile(f"{path} is damaged ({first}). Compile again.") from error
    if settings.format != FORMAT:
        raise InvalidFile(f"{path} has format {settings.format!r}; this version reads {FORMAT!r}.")
    initial, _ = read_tensors(directory / INITIAL, "safetensors file")
    return program, settings, initial
