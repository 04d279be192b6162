"""`icgd train`, `icgd eval`, `icgd sweep`: the laboratory on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from icgd.cli.guard import FAILED, GOES_ON, leave, one_line_errors
from icgd.errors import InvalidFile, InvalidParameter

if TYPE_CHECKING:
    from icgd.lab.training.trainer import Report

_Config = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG",
        show_default=False,
        help="YAML file, or the name of a preset (icgd train --list).",
    ),
]
_Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="A.B=C",
        help="Change a setting, for example training.seed=3; may be repeated.",
        show_default=False,
    ),
]
_Workers = Annotated[int, typer.Option(help="Cells run at a time.")]


def train(
    config: _Config = "",
    set: _Set = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew where a run is already.")
    ] = False,
    compile: Annotated[
        bool,
        typer.Option("--compile", help="The same as --set training.compile=true: torch.compile."),
    ] = False,
    list: Annotated[bool, typer.Option("--list", help="Show the presets and stop.")] = False,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Begin with the weights of this run or checkpoint; everything else is new.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train a transformer on an in-context-learning task, or go on where such a run stopped.

    Writes checkpoint.safetensors and metrics.jsonl into out_dir. Under torchrun the batch is shared by
    all processes. Exit code 0: done; 2: bad input or a loss that is not finite.
    """
    with one_line_errors(GOES_ON):
        from icgd.lab.training.preset_files import find_config, presets

        if list:
            for name in presets():
                typer.echo(name)
            return
        if not config:
            raise InvalidParameter(
                "CONFIG", config, "be given", remedy="Presets: " + ", ".join(presets()) + "."
            )
        find_config(config)
        for text in set or ():
            if not text.partition("=")[0].strip() or "=" not in text:
                raise InvalidParameter(
                    "--set", text, "have the form a.b=c", remedy="For example training.seed=3."
                )
        from icgd.lab.training.config import load_config

        settings = load_config(
            config, [*(set or ()), *(["training.compile=true"] if compile else [])]
        )
        from icgd.lab.training.trainer import train as job

        with progress_with_loss(settings.training.train_steps) as report:
            done = job(settings, restart=restart, report=report, weights_of=start)
        if done.leads:
            typer.echo(f"step {done.step:,}, loss {done.loss:.4g}: {done.directory}")


def evaluate(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            show_default=False,
            help="Directory of a training run, a checkpoint, or the name of a trained model that comes along.",
        ),
    ],
    points: Annotated[
        int | None,
        typer.Option(
            help="Pairs of a prompt; as trained unless given, and may be more.", show_default=False
        ),
    ] = None,
    prompts: Annotated[int, typer.Option(help="Prompts to measure on.")] = 1280,
    seed: Annotated[int, typer.Option(help="Of the prompts.")] = 0,
    json: Annotated[
        Path | None,
        typer.Option(
            help="Write the numbers here, and a figure beside; RUN/eval.json unless given.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Measure a trained model on fresh prompts, position by position, beside the baselines of its task."""
    with one_line_errors():
        from icgd.base.atomic import staged
        from icgd.cli.output import as_json, check_file
        from icgd.lab.training.preset_files import check_run

        for name, value, least in (
            ("--prompts", prompts, 1),
            ("--seed", seed, 0),
            ("--points", points, 1),
        ):
            if value is not None and value < least:
                raise InvalidParameter(name, value, f"be an integer >= {least}")
        check_run(run)
        out = json or (run if run.is_dir() else Path("runs") / run.stem) / "eval.json"
        check_file("--json", out)
        picture = out.with_suffix(".png")
        if picture == out:
            raise InvalidParameter(
                "--json", str(out), "not end in .png", remedy="The figure has that name."
            )
        from icgd.lab.experiments.measures import evaluate_run, evaluation_figure, evaluation_table

        measured = evaluate_run(run, n_points=points, n_prompts=prompts, seed=seed)
        figure = evaluation_figure(measured)
        with staged(out.parent) as place:
            (place / out.name).write_text(as_json(measured) + "\n", encoding="utf-8")
            figure.savefig(place / picture.name, format="png")
        from rich.console import Console

        Console(highlight=False).print(evaluation_table(measured))
        typer.echo(f"Numbers: {out}; figure: {picture}")


def sweep(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", show_default=False, help="YAML: base, grid, seeds, out_dir."
        ),
    ],
    executor: Annotated[
        str, typer.Option(help="joblib (this machine) or ray (a cluster, or a local one).")
    ] = "joblib",
    workers: _Workers = 2,
    out: Annotated[
        Path | None,
        typer.Option(help="Instead of the file's out_dir.", show_default=False),
    ] = None,
) -> None:
    """Train a grid of settings and seeds; finished cells are never run again.

    Writes results.parquet, one row per cell, also for cells that failed. Exit code 0: all cells have a
    result; 1: one failed; 2: bad input.
    """
    with one_line_errors(GOES_ON):
        from icgd.lab.sweeps.workers import make_executor

        make_executor(executor, workers)
        if not file.is_file():
            raise InvalidFile(f"There is no sweep file {file}.")
        from icgd.lab.sweeps.sweep import sweep as job

        def on_done(cell: object, row: object) -> None:
            typer.echo(f"{getattr(cell, 'key', cell)} done", err=True)

        swept = job(file, executor=executor, workers=workers, out=out, on_done=on_done)
        typer.echo(f"Table: {swept.table}")
    if swept.failed:
        cell, error = swept.failed[0]
        leave(
            f"{len(swept.failed)} of {swept.n_cells} cells failed; column `failed` of the table says why. "
            f"First: {cell.key}: {error}",
            FAILED,
        )


def bench_train(
    json: Annotated[
        Path | None,
        typer.Option(help="Also write the numbers to this JSON file.", show_default=False),
    ] = None,
) -> None:
    """Time training steps against a plain loop around GPT2Model of transformers, at equal losses."""
    with one_line_errors():
        from icgd.cli.output import check_file

        if json is not None:
            check_file("--json", json)
        from icgd.cli.benchmarks.train import bench_train as job

        job(json)


@contextmanager
def progress_with_loss(total: int) -> Iterator[Report]:
    """A bar with the loss and the time left on a terminal, plain lines elsewhere."""
    import sys
    import time

    if not sys.stderr.isatty():
        started, first = time.monotonic(), list[int]()

        def lines(done: int, total: int, loss: float) -> None:
            first.append(done)
            rate = (done - first[0]) / max(1e-9, time.monotonic() - started)
            left = f", {(total - done) / rate:,.0f} s left" if rate > 0 and done < total else ""
            if len(first) == 1 or done == total or done * 20 // total > first[-2] * 20 // total:
                typer.echo(f"step {done:,} of {total:,}, loss {loss:.4g}{left}", err=True)

        yield lines
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("steps"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("steps", total=total, loss="")

        def show(done: int, total: int, loss: float) -> None:
            bar.update(task, completed=done, loss=f"{loss:.4g}")

        yield show
