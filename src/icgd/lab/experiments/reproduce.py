"""`icgd reproduce`: run an experiment at a scale and write its record, table, figure and page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from icgd.base.atomic import only_writer, staged, write_text, write_whole
from icgd.lab.experiments.experiment import Experiment, Scale
from icgd.lab.experiments.page import page
from icgd.lab.experiments.record import Record, restored, rounded, verdicts_of
from icgd.lab.sweeps.cells import RESULT, Cell, digest_of, run_cells, seconds_of, write_table
from icgd.lab.sweeps.workers import make_executor

FIGURE = "figure.png"
RECORD = "record.json"
PAGE = "page.md"
TABLE = "results.parquet"


def reproduce(
    experiment: Experiment,
    scale: Scale,
    *,
    out: Path,
    executor: str = "joblib",
    workers: int = 2,
    device: str | None = None,
    on_done: Callable[[Cell, Mapping[str, Any]], None] | None = None,
) -> Record:
    """Run what has not been run yet; everything is in `out`/NAME-SCALE.

    Trained models are kept in `out`/models, where other experiments find them.
    """
    experiment.check_device(device)
    experiment = experiment.prepared(scale, models_directory(out))
    cells, place = experiment.cells(scale), cells_directory(experiment, scale, out).parent
    runner = make_executor(executor, workers)
    with only_writer(place):
        rows = run_cells(cells, place / "cells", runner, on_done, models_directory(out), device)
        record = _record(experiment, scale, cells, rows, place / "cells", workers)
        with staged(place) as there:
            record.write(there / RECORD)
            write_table(rows, there / TABLE)
            write_figure(experiment, record, there / FIGURE)
            write_text(there / PAGE, page(experiment, record, FIGURE))
    return record


def _record(
    experiment: Experiment,
    scale: Scale,
    cells: Sequence[Cell],
    rows: Sequence[Mapping[str, Any]],
    directory: Path,
    workers: int,
) -> Record:
    import torch

    from icgd import __version__

    kept = restored(rounded(rows))
    return Record(
        name=experiment.name,
        scale=scale,
        seeds=experiment.size(scale).seeds,
        workers=workers,
        command=f"icgd reproduce {experiment.name} --scale {scale}{experiment.more_options}",
        settings=rounded(experiment.size(scale).settings()),
        cells=digest_of(cells),
        seconds=seconds_of(cells, directory) / workers,
        torch=torch.__version__.split("+")[0],
        icgd=__version__,
        rows=kept,
        verdicts=verdicts_of(experiment.claims(kept)),
    )


def cells_directory(experiment: Experiment, scale: str, out: Path) -> Path:
    """Where the results of single cells are kept."""
    return out / f"{experiment.name}-{scale}" / "cells"


def models_directory(out: Path) -> Path:
    """Where what several experiments or cells need is kept."""
    return out / "models"


def forget(experiment: Experiment, scale: str, out: Path) -> None:
    """Leave out what was measured, so that it is measured again; models stay."""
    directory = cells_directory(experiment, scale, out)
    with only_writer(directory.parent):
        for result in directory.glob(f"*/{RESULT}"):
            result.unlink(missing_ok=True)


def write_figure(experiment: Experiment, record: Record, path: Path) -> None:
    """The figure of a record."""
    figure = experiment.draw(record.rows)
    # No date or version in the file: the same record gives the same bytes.
    write_whole(
        path, lambda there: figure.savefig(there, format="png", metadata={"Software": None})
    )
