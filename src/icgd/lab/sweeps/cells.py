"""Cells: independent pieces of a sweep or an experiment, each with its own directory and result file.

A cell that has a result is never run again; one that was interrupted goes on from its checkpoint. Tables are
made from the result files alone, so they do not depend on where or in which order cells ran.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from icgd.base.atomic import write_text, write_whole
from icgd.errors import AssumptionViolated, InvalidFile
from icgd.lab.sweeps.workers import Executor
from icgd.lab.training.config import Config, make_config

RESULT = "result.json"
SECONDS = "_seconds"
"""What work gives under this name is its time, instead of what the clock says: a model may be there already."""


@dataclass(frozen=True)
class Cell:
    """One piece of work.

    key      what distinguishes it from the others, in plain values: columns of the table
    work     "module:function" of (Workplace, **options) -> numbers; a name, so that it travels
    options  keyword arguments of `work`, as JSON has them
    effort   options that the time of the work grows with: its steps, and what a step goes through, such as a
             batch. A trial with 1 of each and some more of the last tells what all of it will cost; not
             needed for trainings with a configuration
    """

    key: dict[str, Any]
    work: str
    options: dict[str, Any] = field(default_factory=dict)
    effort: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A directory name that tells what is in it and changes with any setting."""
        words = "-".join(f"{value}" for value in self.key.values())
        settings = _without_homes([self.key, self.work, self.options])
        return f"{_safe(words)}-{_digest(settings)}"

    def do(self, place: Workplace, **changed: Any) -> dict[str, Any]:
        """Do the work, with some options changed."""
        return _named(self.work)(place, **{**self.options, **changed})

    @property
    def config(self) -> Config | None:
        """The training that is part of the work, if any."""
        settings = self.options.get("config")
        return None if settings is None else make_config(settings)

    @property
    def steps(self) -> int:
        """Of the training, or whatever else the work is made of; 0 if nothing of it is told."""
        config = self.config
        if config is not None:
            return config.training.train_steps
        return int(self.options[self.effort[0]]) if self.effort else 0

    @property
    def units(self) -> int:
        """What the time of the work is proportional to."""
        if self.config is not None:
            return self.steps
        return math.prod(int(self.options[name]) for name in self.effort) if self.effort else 0


def training_cell(
    key: dict[str, Any], config: Config, measure: str, options: dict[str, Any] | None = None
) -> Cell:
    """A training and what is measured afterwards.

    measure  "module:function" of (Trained, **options) -> numbers
    """
    trained = _what_is_trained(config).model_dump(mode="json")
    return Cell(
        key,
        "icgd.lab.sweeps.cells:train_and_measure",
        {"config": trained, "measure": measure, "options": options or {}},
    )


@dataclass(frozen=True)
class Workplace:
    """Where a cell does its work.

    directory  the cell's own
    models     where trained models are kept for other experiments that need the same ones; None: in the
               cell's own directory
    device     of trainings; None: as configured
    only_cost  the cost of a step is asked: what is measured after the last step is left out or cut short
    """

    directory: Path
    models: Path | None = None
    device: str | None = None
    only_cost: bool = False

    def model_directory(self, config: Config) -> Path:
        """The directory of a training: the same configuration is trained once."""
        if self.models is None:
            return self.directory
        trained = _what_is_trained(config).to_json()
        words = f"{config.task.name}-{config.model.kind}-{config.training.seed}"
        return self.models / f"{_safe(words)}-{_digest(trained)}"


@dataclass(frozen=True)
class _Job:
    """A cell and where it lives."""

    cell: Cell
    place: Workplace


def run_cells(
    cells: Sequence[Cell],
    directory: Path,
    executor: Executor,
    on_done: Callable[[Cell, Mapping[str, Any]], None] | None = None,
    models: Path | None = None,
    device: str | None = None,
) -> list[dict[str, Any]]:
    """Run what has no result yet; all rows, in the order of the cells, or an error if one has none."""
    rows, failed = attempt_cells(cells, directory, executor, on_done, models, device)
    if failed:
        cell, error = failed[0]
        raise InvalidFile(
            f"{len(failed)} of {len(cells)} cells failed; the others are kept. First: {cell.key}: {error}"
        ) from error
    return [row for row in rows if row is not None]


def attempt_cells(
    cells: Sequence[Cell],
    directory: Path,
    executor: Executor,
    on_done: Callable[[Cell, Mapping[str, Any]], None] | None = None,
    models: Path | None = None,
    device: str | None = None,
) -> tuple[list[dict[str, Any] | None], list[tuple[Cell, BaseException]]]:
    """Run what has no result yet; all rows, None for cells that failed, and those cells with their errors."""
    # Workers may have another working directory.
    directory, models = directory.resolve(), None if models is None else models.resolve()
    failed: list[tuple[Cell, BaseException]] = []
    jobs = [
        _Job(c, Workplace(directory / c.name, models, device))
        for c in missing_cells(cells, directory)
    ]
    died: AssumptionViolated | None = None
    try:
        for job, result in executor.run(run_cell, jobs):
            if isinstance(result, BaseException):
                failed.append((job.cell, result))
            elif on_done is not None:
                on_done(job.cell, result)
    except AssumptionViolated as error:  # workers that die again and again take no cell with them
        died = error
    rows = [read_row(directory / c.name) for c in cells]
    if died is not None:
        known = {cell.name for cell, _ in failed}
        left = [c for c, row in zip(cells, rows, strict=True) if row is None]
        failed += [(c, died) for c in left if c.name not in known]
    lost = rows.count(None) - len(failed)
    if lost > 0:
        raise InvalidFile(
            f"{lost} of {len(cells)} cells left no result in {directory}. Workers on other machines need a "
            "directory that all of them share: choose another --out."
        )
    return rows, failed


def missing_cells(cells: Sequence[Cell], directory: Path) -> list[Cell]:
    """The cells without a result."""
    return [c for c in cells if read_row(directory / c.name) is None]


def digest_of(cells: Sequence[Cell]) -> str:
    """Changes with any setting of any cell."""
    return _digest([c.name for c in cells])


def run_cell(job: _Job) -> dict[str, Any]:
    """Do the work and write row and time; called in a worker."""
    started = time.perf_counter()
    measured = job.cell.do(job.place)
    seconds = measured.pop(SECONDS, time.perf_counter() - started)
    row = {**job.cell.key, **measured}
    result = {"row": row, "seconds": seconds}
    write_text(job.place.directory / RESULT, json.dumps(result, allow_nan=True) + "\n")
    return row


def train_and_measure(
    place: Workplace, *, config: dict[str, Any], measure: str, options: dict[str, Any]
) -> dict[str, Any]:
    """The work of a training cell."""
    from icgd.lab.training.journal import training_seconds
    from icgd.lab.training.trainer import train

    settings = make_config(config)
    if place.device is not None:
        training = settings.training.model_copy(update={"device": place.device})
        settings = settings.model_copy(update={"training": training})
    directory = place.model_directory(settings)
    # Another experiment may want the same model.
    trained = train(settings.model_copy(update={"out_dir": str(directory)}), wait=True)
    started = time.perf_counter()
    measured: dict[str, Any] = _named(measure)(trained, **options)
    measuring = time.perf_counter() - started
    return {**measured, SECONDS: training_seconds(directory) + measuring}


def read_row(directory: Path) -> dict[str, Any] | None:
    """The result of a cell, if it is done."""
    result = _read(directory)
    return None if result is None else dict(result["row"])


def seconds_of(cells: Sequence[Cell], directory: Path) -> float:
    """The time that finished cells took, one after the other."""
    return sum(float(result["seconds"]) for c in cells if (result := _read(directory / c.name)))


def _read(directory: Path) -> dict[str, Any] | None:
    try:
        result = json.loads((directory / RESULT).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    whole = isinstance(result, dict) and isinstance(result.get("row"), dict) and "seconds" in result
    return result if whole else None


def write_table(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """All rows as a Parquet file, whole or not at all."""
    import pandas as pd

    frame = pd.DataFrame(list(rows))
    write_whole(path, lambda temporary: frame.to_parquet(temporary, index=False))


def _named(name: str) -> Callable[..., dict[str, Any]]:
    module, _, function = name.partition(":")
    work: Callable[..., dict[str, Any]] = getattr(import_module(module), function)
    return work


def _without_homes(settings: Any) -> Any:
    """Settings with "module:function" as ":function": a function that moves house does the same work.

    >>> _without_homes(["icgd.here.measures:final", {"steps": 3, "measure": "icgd.there:final"}])
    [':final', {'steps': 3, 'measure': ':final'}]
    """
    if isinstance(settings, dict):
        return {name: _without_homes(value) for name, value in settings.items()}
    if isinstance(settings, (list, tuple)):
        return [_without_homes(value) for value in settings]
    if isinstance(settings, str):
        return re.sub(r"^icgd(\.\w+)+(?=:\w+$)", "", settings)
    return settings


def _what_is_trained(config: Config) -> Config:
    """A configuration without what names places and not the training."""
    training = config.training.model_copy(update={"device": "cpu"})
    return config.model_copy(update={"out_dir": "", "name": "", "training": training})


def _safe(words: str) -> str:
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in words)[:60]


def _digest(settings: Any) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:10]
