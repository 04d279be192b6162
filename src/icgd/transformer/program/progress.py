"""Progress of long runs: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, int], None]


@contextmanager
def progress_reporter(progress: bool | Report, total: int) -> Iterator[Report | None]:
    """A function to call with (done, total), or None when nothing is wanted."""
    if progress is False or progress is None:
        yield None
    elif callable(progress):
        yield progress
    elif sys.stderr.isatty():
        with _rich_bar(total) as report:
            yield report
    else:
        yield _plain_lines(sys.stderr.write)


@contextmanager
def _rich_bar(total: int) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("rounds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("rounds", total=total)

        def report(done: int, total: int) -> None:
            if done % 16 == 0 or done == total:
                bar.update(task, completed=done)

        yield report


def _plain_lines(write: Callable[[str], object]) -> Report:
    """A line at every tenth of the way."""

    def report(done: int, total: int) -> None:
        if done * 10 // total > (done - 1) * 10 // total:
            write(f"rounds {done}/{total}\n")

    return report
