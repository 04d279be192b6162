"""What a small experiment will cost, from whole cells: one of each kind is done and timed.

A few steps say nothing about a scale where measuring, baselines and the start of processes take longer than all
trainings together. There a cell takes about a second, so the first of each kind can be done in full.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from icgd.lab.sweeps.cells import Cell, Workplace
from icgd.lab.sweeps.time_estimate import Estimate, estimate, one_thread


def estimate_whole(cells: Sequence[Cell], workers: int, device: str = "cpu") -> Estimate:
    """The estimate of `estimate`, with measuring, baselines and the start of the workers in its seconds."""
    cost = estimate(cells, workers, device)
    if not cells:
        return cost
    known: dict[str, float] = {}
    with TemporaryDirectory() as directory, one_thread():
        for cell in cells:
            kind = kind_of_cell(cell)
            if kind not in known:
                place = Workplace(Path(directory) / str(len(known)), device=device)
                place.directory.mkdir()
                started = time.perf_counter()
                cell.do(place)
                known[kind] = time.perf_counter() - started
    work = sum(known[kind_of_cell(cell)] for cell in cells)
    n = max(1, min(workers, len(cells)))
    return replace(cost, seconds=start_of_processes(n) + work / n)


def kind_of_cell(cell: Cell) -> str:
    """What decides the cost of a cell: everything but seeds."""

    def without_seeds(value: object) -> object:
        if isinstance(value, dict):
            return {k: without_seeds(v) for k, v in value.items() if k not in ("seed", "seeds")}
        return value

    return f"{cell.work} {json.dumps(without_seeds(cell.options), sort_keys=True)}"


LOADED = "import icgd.papers.registry, matplotlib.pyplot"
"""What the command loads, and what its workers load: nothing of it is small beside cells of a second."""


def start_of_processes(n: int) -> float:
    """Seconds until the command itself and then n workers, side by side, have loaded what they need."""
    started = time.perf_counter()
    workers = [subprocess.Popen([sys.executable, "-c", LOADED]) for _ in range(n)]
    codes = [worker.wait() for worker in workers]
    if any(codes):
        raise RuntimeError(f"A worker could not be started: {LOADED} failed.")
    return 2 * (time.perf_counter() - started)
