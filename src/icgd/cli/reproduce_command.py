"""`icgd reproduce`: the experiments of the papers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icgd.cli.guard import GOES_ON, one_line_errors

if TYPE_CHECKING:
    from icgd.lab.experiments.experiment import Experiment
    from icgd.lab.experiments.record import Record

ALL = "all"


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", show_default=False, help="Experiment (icgd reproduce --list), or all."
        ),
    ] = "",
    scale: Annotated[
        str,
        typer.Option(
            help="smoke (a minute), laptop (half an hour at most), overnight (8 hours at most) or paper (the "
            "paper's own configuration)."
        ),
    ] = "laptop",
    out: Annotated[Path, typer.Option(help="Directory of results and trained models.")] = Path(
        "runs/reproduce"
    ),
    executor: Annotated[
        str, typer.Option(help="joblib (this machine) or ray (a cluster, or a local one).")
    ] = "joblib",
    workers: Annotated[int, typer.Option(help="Cells run at a time.")] = 2,
    device: Annotated[
        str,
        typer.Option(
            help="Of the trainings: cpu, cuda or cuda:1. Baselines and experiments with small trainings ("
            "cot-d, lsa-train, deep-h, bridge-resources) run on the CPU."
        ),
    ] = "cpu",
    text: Annotated[
        list[Path] | None,
        typer.Option(
            "--text",
            show_default=False,
            help="Sentences for algo-nmt: a TSV file of German and English, or two aligned files (twice).",
        ),
    ] = None,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Measure all cells anew; trained models are kept."),
    ] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Say what it would cost and stop.")
    ] = False,
    list: Annotated[
        bool,
        typer.Option("--list", help="Show the experiments, or NAME, and their verdicts, and stop."),
    ] = False,
) -> None:
    """Run an experiment of a paper: trainings, baselines, figure, table, and what of it reproduced.

    Says first what it will cost. Finished cells are never run again, interrupted trainings go on where
    they stopped. Exit code 0: done, whatever reproduced; 2: bad input.
    """
    with one_line_errors(GOES_ON):
        _check(name, scale, executor, workers, listed=list)
        from icgd.cli.output import check_directory

        if not list:
            check_directory("--out", out)
        from icgd.papers.registry import EXPERIMENTS, find_experiment

        if list:
            named = name not in ("", ALL)
            _show_list([find_experiment(name)] if named else [*EXPERIMENTS.values()])
            return
        from icgd.lab.experiments.reproduce import forget
        from icgd.lab.training.trainer import check_device

        chosen = [*EXPERIMENTS.values()] if name == ALL else [find_experiment(name)]
        for experiment in chosen:
            experiment.size(scale)
            if name != ALL:
                experiment.check_device(device)
        check_device(device, "--device")
        chosen = _with_what_they_need(chosen, scale, out, text or [], fetch=not estimate)
        for experiment in chosen:
            there = "cpu" if experiment.only_cpu else device
            how = {"out": out, "executor": executor, "workers": workers, "device": there}
            if restart and not estimate:
                forget(experiment, scale, out)
            _reproduce(experiment, scale, how, only_estimate=estimate)


def _check(name: str, scale: str, executor: str, workers: int, *, listed: bool) -> None:
    """Complain before anything heavy is imported."""
    from icgd.errors import InvalidParameter
    from icgd.lab.scales import check_scale
    from icgd.lab.sweeps.workers import make_executor
    from icgd.papers.names import NAMES, check_name

    if name not in ("", ALL):
        check_name(name)
    if listed:
        return
    if not name:
        raise InvalidParameter("NAME", name, f"be one of {', '.join(NAMES)}, or all")
    make_executor(executor, workers)
    check_scale(scale)


def _with_what_they_need(
    chosen: list[Experiment], scale: Any, out: Path, text: Sequence[Path], *, fetch: bool
) -> list[Experiment]:
    """Experiments with their texts: what cannot be had is said before any work is done."""
    from icgd.lab.experiments.reproduce import models_directory

    if text:
        takers = [e for e in chosen if e.takes_text] or chosen
        chosen = [e.with_text(text) if e in takers else e for e in chosen]
    return [e.prepared(scale, models_directory(out), fetch=fetch) for e in chosen]


def _reproduce(
    experiment: Experiment, scale: Any, how: dict[str, Any], *, only_estimate: bool
) -> None:
    from icgd.lab.experiments.reproduce import PAGE, cells_directory, reproduce
    from icgd.lab.sweeps.cells import missing_cells
    from icgd.lab.sweeps.time_estimate import estimate
    from icgd.lab.sweeps.whole_cells import estimate_whole

    out = how["out"]
    cells = experiment.cells(scale)
    left = missing_cells(cells, cells_directory(experiment, scale, out))
    typer.echo(f"{experiment.name} ({experiment.paper}, {experiment.where}), scale {scale}")
    to_do = f"{len(left)} of {len(cells)} cells to do."
    if scale != "smoke":
        cost = estimate(left, how["workers"], how["device"])
        typer.echo(f"{to_do} {cost}, without measuring and baselines.")
    elif only_estimate:
        cost = estimate_whole(left, how["workers"], how["device"])
        typer.echo(f"{to_do} {cost}, with everything that is measured.")
    else:
        # An estimate of so little work would take as long as the work.
        typer.echo(to_do)
    if only_estimate:
        return
    with _progress(len(left)) as done:
        record = reproduce(
            experiment,
            scale,
            **how,
            on_done=lambda cell, _: done(", ".join(f"{k} {v}" for k, v in cell.key.items())),
        )
    _show(experiment, record)
    typer.echo(f"Page: {out / f'{experiment.name}-{scale}' / PAGE}")


def _show(experiment: Experiment, record: Record) -> None:
    from rich.console import Console
    from rich.table import Table

    from icgd.lab.experiments.claim import tally
    from icgd.lab.sweeps.time_estimate import duration

    console = Console(highlight=False, markup=False)
    for result in experiment.tables(record.rows):
        table = Table(title=result.title, title_justify="left")
        for column in result.columns:
            table.add_column(column)
        for row in result.rows:
            table.add_row(*row)
        console.print(table)
    claims = experiment.claims(record.rows)
    for claim in claims:
        console.print(f"- {claim.word}: {claim.paper}. {claim.found}")
        for text in claim.shortfalls:
            console.print(f"  worse than a naive predictor: {text}")
    console.print(f"{tally(claims)}.")
    console.print(f"Work: {duration(record.seconds)} on {record.workers} workers")


def _show_list(experiments: Sequence[Experiment]) -> None:
    """A block for each experiment: its tally, and a line for every claim with the verdict in front."""
    from rich.console import Console
    from rich.padding import Padding

    from icgd.lab.experiments.claim import tally
    from icgd.lab.experiments.experiment import SCALES
    from icgd.lab.experiments.record import recorded
    from icgd.lab.sweeps.time_estimate import duration

    console = Console(highlight=False, markup=False)
    for experiment in experiments:
        console.print(experiment.name, style="bold")
        lines = [f"{experiment.paper}, {experiment.where}: {experiment.title}"]
        record = recorded(experiment.name)
        if record is not None:
            costs = {**record.costs, record.scale: record.seconds}
            lines.append(", ".join(f"{s} {duration(costs[s])}" for s in SCALES if s in costs))
            claims = experiment.claims(record.rows)
            lines.append(
                f"Recorded at {record.scale} scale, {record.seeds} seeds: {tally(claims)}."
            )
            lines += [
                f"{'(our question) ' if claim.ours else ''}{claim.word}: {claim.short}"
                for claim in claims
            ]
        for line in lines:
            console.print(Padding(line, (0, 0, 0, 2), expand=False))
    console.print(
        "Times are those of two cores; of scales that are not recorded, of the trainings alone."
    )


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """Finished cells: a bar on a terminal, plain lines elsewhere."""
    import sys

    if not sys.stderr.isatty():
        count = [0]

        def line(what: str) -> None:
            count[0] += 1
            typer.echo(f"{count[0]} of {total} cells: {what}", err=True)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("cells"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("cells", total=total, last="")
        yield lambda what: bar.update(task, advance=1, last=what)
