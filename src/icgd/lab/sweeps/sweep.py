"""`icgd sweep`: a grid of settings and seeds around one configuration, and a table of what came out."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from icgd.base.atomic import only_writer
from icgd.errors import InvalidFile
from icgd.lab.sweeps.cells import Cell, attempt_cells, training_cell, write_table
from icgd.lab.sweeps.workers import make_executor
from icgd.lab.training.config import load_config

TABLE = "results.parquet"
FAILED = "failed"
"""Column of the table: why a cell has no result."""


@dataclass(frozen=True)
class Swept:
    """A finished sweep: its table, how many cells it has, and those that failed."""

    table: Path
    n_cells: int
    failed: Sequence[tuple[Cell, BaseException]]


def read_sweep(path: Path) -> tuple[list[Cell], str]:
    """The cells of a sweep file, and where results go.

    base:  preset or YAML file     grid: {setting: [values]}     seeds: [..]     out_dir: runs/sweep
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidFile(f"There is no sweep file {path}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path} is not valid YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(data, dict) or "base" not in data:
        raise InvalidFile(
            f"{path} must name `base`, a preset or a file; `grid`, `seeds` and `out_dir` may follow."
        )
    strange = sorted(set(data) - {"base", "grid", "seeds", "out_dir"})
    if strange:
        raise InvalidFile(
            f"Unknown setting `{strange[0]}` in {path}. Known: base, grid, seeds, out_dir."
        )
    base = path.parent / str(data["base"])
    source = base if base.is_file() else data["base"]
    grid = data.get("grid") or {}
    if not isinstance(grid, dict):
        raise InvalidFile(f"{path}: grid must hold names and lists of values. Got {grid!r}.")
    seeds = _list(path, "seeds", data.get("seeds") or [0])
    if "training.seed" in grid:
        raise InvalidFile(f"{path}: training.seed cannot be in the grid. List seeds under `seeds`.")
    cells = []
    for values in itertools.product(*(_list(path, f"grid.{name}", v) for name, v in grid.items())):
        for seed in seeds:
            settings = dict(zip(grid, values, strict=True)) | {"training.seed": seed}
            # JSON is YAML: values go through unchanged.
            overrides = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
            config = load_config(source, overrides)
            cells.append(training_cell(settings, config, "icgd.lab.experiments.measures:final"))
    return cells, str(data.get("out_dir", "runs/sweep"))


def _list(path: Path, name: str, values: Any) -> list[Any]:
    if not isinstance(values, list) or not values:
        raise InvalidFile(f"{path}: {name} must be a list of values. Got {values!r}.")
    return values


def sweep(
    path: Path,
    *,
    executor: str,
    workers: int,
    out: Path | None = None,
    on_done: Callable[[Cell, Mapping[str, Any]], None] | None = None,
) -> Swept:
    """Run the cells that have no result yet and write the table of all.

    A cell that fails, by a loss that is not finite or anything else, has a row as well: the error is in its
    column "failed", which is empty in all others. It is tried again the next time.
    """
    cells, place = read_sweep(path)
    directory = out or Path(place)
    runner = make_executor(executor, workers)
    with only_writer(directory):
        finished, failed = attempt_cells(cells, directory / "cells", runner, on_done)
        errors = {cell.name: str(error) or type(error).__name__ for cell, error in failed}
        rows = [
            {**(row or cell.key), FAILED: errors.get(cell.name)}
            for cell, row in zip(cells, finished, strict=True)
        ]
        write_table(rows, directory / TABLE)
    return Swept(directory / TABLE, len(cells), failed)
