"""`icgd verify`: the theorem table of a paper, or a saved program on a user's data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icgd.cli.guard import FAILED, one_line_errors
from icgd.cli.options import (
    BatchOption,
    DataOption,
    EpochsOption,
    ExecutorOption,
    JsonOption,
    SeedOption,
    StandardizeOption,
    TargetsOption,
)
from icgd.cli.output import as_json, check_file_in_place, write_file
from icgd.cli.run.compile_command import check_batch, the_table
from icgd.cli.run.settings import EXECUTORS, PAPERS, check_targets
from icgd.errors import InvalidParameter

if TYPE_CHECKING:
    from icgd.cli.tables import Table
    from icgd.transformer.program import Program


def verify(
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA.csv]", show_default=False, help="With --program: CSV file to train on."
        ),
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(
            help="Check the statements of a paper and print the theorem table: COT, DEEP, BRIDGE, "
            "ALGO, LSA, or all.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
    program: Annotated[
        Path | None,
        typer.Option(
            help="Directory made by program.save_pretrained: check this program instead.",
            show_default=False,
        ),
    ] = None,
    data_file: DataOption = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="With --program of icgd compile: FILE.py:FUNCTION that gives model, loss and optimizer again.",
            show_default=False,
        ),
    ] = None,
    batch_size: BatchOption = None,
    target: TargetsOption = None,
    epochs: EpochsOption = 1,
    steps: Annotated[
        int, typer.Option(help="With --program: gradient steps if it makes full-batch steps.")
    ] = 100,
    standardize: StandardizeOption = True,
    seed: SeedOption = 0,
    executor: ExecutorOption = "structured",
) -> None:
    """Check the statements of a paper (--paper), or a saved program on your data (--program).

    Exit code 0: everything held; 1: something did not, or bounds were too large to show it; 2: bad input.
    """
    with one_line_errors():
        data = the_table(data, data_file)
        check_request(paper, program, data, json, tuple(target or ()), recipe)
        check_batch(batch_size)
        if paper is not None:
            passed = verify_paper(paper, json)
        else:
            assert program is not None
            passed = verify_program(
                program,
                data,
                tuple(target or ()),
                json,
                epochs=epochs,
                steps=steps,
                standardize=standardize,
                seed=seed,
                executor=executor,
                recipe=recipe,
                batch_size=batch_size,
            )
    if not passed:
        raise typer.Exit(FAILED)


def check_request(
    paper: str | None,
    program: Path | None,
    data: Path | None,
    json: Path | None,
    targets: tuple[str, ...],
    recipe: str | None = None,
) -> None:
    """Refuse what can never work, before anything heavy is imported."""
    if (paper is None) == (program is None):
        raise InvalidParameter(
            "--paper",
            paper,
            "be given, or --program, but not both",
            remedy="Try: icgd verify --paper COT",
        )
    if recipe is not None and program is None:
        raise InvalidParameter("--recipe", recipe, "be left out without --program")
    needs_data = program is not None and not (program / "recipe.json").is_file()
    if (program is None and data is not None) or (needs_data and data is None):
        raise InvalidParameter(
            "DATA",
            None if data is None else str(data),
            "be given together with --program",
            remedy="Try: icgd verify --program DIR data.csv --target y",
        )
    if paper is not None and paper.upper() not in (*PAPERS, "ALL"):
        raise InvalidParameter("--paper", paper, f"be one of {', '.join(PAPERS)}, or all")
    if data is not None and (needs_data or targets):
        check_targets(data, targets)
    if json is not None:
        check_file_in_place("--json", json)


def verify_paper(paper: str, json: Path | None) -> bool:
    """Print the theorem table, its tally and what has no row; gives back whether every row passed."""
    from rich.console import Console

    from icgd.papers.numbered_statements import coverage
    from icgd.papers.theorem_table import (
        PAPERS,
        labelled,
        render,
        render_tallies,
        theorem_table,
        to_json,
    )

    every = paper.lower() == "all"
    tables = {key: theorem_table(key) for key in (PAPERS if every else [paper.upper()])}
    rows = labelled(tables) if every else tables[paper.upper()]
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=140)
    console.print(render(rows))
    console.print(render_tallies(tables))
    for key, listed in tables.items():
        console.print(coverage(key, [row.statement for row in listed]), markup=False)
    if json is not None:
        write_file(json, to_json(rows))
    return all(row.passed for row in rows)


def verify_program(
    program: Path,
    data: Path | None,
    targets: tuple[str, ...],
    json: Path | None,
    *,
    epochs: int,
    steps: int,
    standardize: bool,
    seed: int,
    executor: str,
    recipe: str | None = None,
    batch_size: int | None = None,
) -> bool:
    """Print the verdict on a saved program; gives back whether it passed."""
    if executor not in EXECUTORS:
        raise InvalidParameter("--executor", executor, f"be one of {', '.join(EXECUTORS)}")
    import icgd
    from icgd.verification.verify import check_verifiable

    loaded = icgd.Program.from_pretrained(program, allow_altered=True)
    if is_compiled(loaded):
        from icgd.cli.run.machine import MachineRequest, verify_program

        request = MachineRequest(program, data, targets, epochs, batch_size, None, executor)
        return shown(verify_program(request, recipe), json)
    for option, value in (("--recipe", recipe), ("--batch-size", batch_size)):
        if value is not None:
            raise InvalidParameter(option, value, "be left out for this program")
    assert data is not None
    check_verifiable(loaded)
    rounds = {"epochs": epochs, "steps": steps}
    how: dict[str, Any] = {
        "standardize": standardize,
        "executor": executor,
        "progress": True,
        loaded.construction.rounds: rounds[loaded.construction.rounds],
    }
    if isinstance(loaded.problem, icgd.Network):
        check = _verify_network(loaded, data, targets, seed=seed, **how)
    elif isinstance(loaded.problem, icgd.LinearModel):
        check = _verify_linear_model(loaded, data, targets, **how)
    else:
        check = _verify_regression(loaded, data, targets, **how)
    return shown(check, json)


def shown(check: Any, json: Path | None) -> bool:
    """Print a verdict and write its numbers; gives back whether it passed."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(check.table())
    for note in check.notes:
        console.print(f"Note: {note}", markup=False)
    if json is not None:
        write_file(json, as_json(check.to_dict()))
    return bool(check.passed)


def is_compiled(program: Program) -> bool:
    """Whether its step is a user's own, which only a recipe has."""
    from icgd.mechanisms.machine.programs.program import MachineProgram

    return isinstance(program, MachineProgram)


def _verify_network(
    loaded: Program,
    data: Path,
    targets: tuple[str, ...],
    *,
    standardize: bool,
    seed: int,
    **how: Any,
) -> Any:
    import icgd
    from icgd.cli.run.network import fitting_threads, load_table

    table = load_table(data, None, targets, standardize=standardize)
    network = loaded.problem
    _check_shape(table, network.widths[0], network.widths[-1])
    with fitting_threads(network):
        init = network.init(seed=seed, dtype=loaded.dtype)
        return icgd.verify(loaded, table.X, table.Y, init=init, **how)


def _verify_linear_model(
    loaded: Program, data: Path, targets: tuple[str, ...], *, standardize: bool, **how: Any
) -> Any:
    import torch

    import icgd
    from icgd.cli.run.linear_model import two_classes
    from icgd.cli.run.network import load_table

    spec = loaded.problem.spec
    regression = spec.loss.form == "residual"
    table = load_table(
        data, None, targets, standardize=standardize, standardize_target=standardize and regression
    )
    _check_shape(table, spec.n_features, 1)
    y = torch.as_tensor(table.Y[:, 0])
    if spec.loss.name == "logistic":
        y, _ = two_classes(y, table.targets.names[0])
    return icgd.verify(loaded, table.X, y, **how)


def _verify_regression(
    loaded: Program, data: Path, targets: tuple[str, ...], *, standardize: bool, **how: Any
) -> Any:
    import icgd
    from icgd.cli.run.network import load_table

    problem = loaded.problem
    table = load_table(data, None, targets, standardize=standardize)
    n_outputs = getattr(problem, "n_outputs", 1)
    n_features = getattr(problem, "n_features", table.X.shape[1])
    _check_shape(table, int(n_features or 0), int(n_outputs))
    y = table.Y[:, 0] if table.Y.shape[1] == 1 else table.Y
    return icgd.verify(loaded, table.X, y, **how)


def _check_shape(table: Table, n_features: int, n_targets: int) -> None:
    shape = (table.X.shape[1], table.Y.shape[1])
    if shape != (n_features, n_targets):
        raise InvalidParameter(
            "DATA",
            f"{shape[0]} features and {shape[1]} targets",
            f"have {n_features} features and {n_targets} targets, as the program was compiled",
            remedy="Choose other --target columns, or compile a program for this table.",
        )
