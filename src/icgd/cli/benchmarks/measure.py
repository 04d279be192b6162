"""Measuring: two ways in turns on one thread, ratios and not times, as a table and as JSON."""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from icgd import __version__
from icgd.cli.output import write_file

REPEATS = 7


@dataclass(frozen=True)
class BenchRow:
    """One ratio with what it was made from, in microseconds per round."""

    what: str
    ours: float
    theirs: float
    ratio: float
    target: float
    met: bool


@contextmanager
def one_thread() -> Iterator[None]:
    """Both sides on one thread: small matrices only wait for a second one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


cpu_time = time.process_time
"""Seconds this process computed: on one thread, what others do on the machine does not count."""


def compare(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float, float]:
    """Alternate the two, so that both see the same machine; medians of times and of ratios."""
    ours()
    theirs()
    a, b = [], []
    for _ in range(REPEATS):
        a.append(_seconds(ours, clock))
        b.append(_seconds(theirs, clock))
    ratio = statistics.median(x / y for x, y in zip(a, b, strict=True))
    return statistics.median(a), statistics.median(b), ratio


def _seconds(call: Callable[[], object], clock: Callable[[], float]) -> float:
    gc.collect()
    start = clock()
    call()
    return clock() - start


def resident_mb() -> float:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def bench_table(rows: list[BenchRow], title: str) -> Table:
    """The rows for the terminal."""
    table = Table(title=f"{title} (one thread; microseconds per round unless said)")
    for name in ("what", "icgd", "other", "ratio", "target", "met"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for r in rows:
        table.add_row(
            r.what,
            f"{r.ours:.1f}",
            f"{r.theirs:.1f}",
            f"{r.ratio:.2f}",
            f"<= {r.target:g}",
            "yes" if r.met else "[bold red]no",
        )
    return table


def write_bench(path: Path, **tables: Sequence[Any]) -> None:
    """Write tables of rows as JSON, atomically."""
    by_table = {name: [asdict(row) for row in rows] for name, rows in tables.items()}
    versions = {"icgd": __version__, "torch": torch.__version__}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps({**by_table, "versions": versions}, indent=2) + "\n")
