"""Cells: single trainings of a sweep or an experiment, each with its own directory and result file.

A cell that has a result is never run again; one that was interrupted goes on from its checkpoint. The
table of a sweep is made from the result files alone, so it does not depend on where or in which order
cells ran.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icgd.atomic import write_text, write_whole
from icgd.errors import InvalidFile
from icgd.experiments.executors import Executor
from icgd.training.config import Config

RESULT = "result.json"


@dataclass(frozen=True)
class Cell:
    """One training and what is measured afterwards.

    key      what distinguishes it from the others, in plain values: columns of the table
    measure  "module:function" of (trained model, config) -> numbers; a name, so that it travels
    options  keyword arguments of `measure`
    """

    key: dict[str, Any]
    config: Config
    measure: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """A directory name that tells what is in it and changes with any setting."""
        words = "-".join(f"{value}" for value in self.key.values())
        safe = "".join(c if c.isalnum() or c in "-._" else "_" for c in words)[:60]
        config = self.config.model_copy(update={"out_dir": "", "name": ""}).to_json()
        told = json.dumps([config, self.measure, self.options], sort_keys=True)
        return f"{safe}-{hashlib.sha256(told.encode()).hexdigest()[:10]}"


@dataclass(frozen=True)
class _Job:
    """A cell and where it lives."""

    cell: Cell
    directory: str


def run_cells(
    cells: Sequence[Cell], directory: Path, executor: Executor,
    on_done: Callable[[Cell, Mapping[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Run what has no result yet; all rows, in the order of the cells."""
    missing = [c for c in cells if read_row(directory / c.name) is None]
    failed: list[tuple[Cell, BaseException]] = []
    jobs = [_Job(c, str(directory / c.name)) for c in missing]
    for job, result in executor.run(run_cell, jobs):
        if isinstance(result, BaseException):
            failed.append((job.cell, result))
        elif on_done is not None:
            on_done(job.cell, result)
    if failed:
        cell, error = failed[0]
        raise InvalidFile(
            f"{len(failed)} of {len(cells)} cells failed; the others are kept. First: {cell.key}: {error}"
        ) from error
    return [row for c in cells if (row := read_row(directory / c.name)) is not None]


def run_cell(job: _Job) -> dict[str, Any]:
    """Train, measure, write the row; called in a worker."""
    from importlib import import_module

    from icgd.training.trainer import train

    directory = Path(job.directory)
    config = job.cell.config.model_copy(update={"out_dir": str(directory)})
    trained = train(config)
    module, _, function = job.cell.measure.partition(":")
    measured = getattr(import_module(module), function)(trained, **job.cell.options)
    row = {**job.cell.key, **measured}
    write_text(directory / RESULT, json.dumps(row, allow_nan=True) + "\n")
    return row


def read_row(directory: Path) -> dict[str, Any] | None:
    """The result of a cell, if it is done."""
    try:
        row = json.loads((directory / RESULT).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return row if isinstance(row, dict) else None


def write_table(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """All rows as a Parquet file, whole or not at all."""
    import pandas as pd

    frame = pd.DataFrame(list(rows))
    write_whole(path, lambda temporary: frame.to_parquet(temporary, index=False))
