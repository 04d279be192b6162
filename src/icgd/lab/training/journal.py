"""metrics.jsonl: one line per logged step; lines after the checkpoint a run goes on from are dropped."""

from __future__ import annotations

import json
import math
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from icgd.base.atomic import write_text
from icgd.errors import InvalidFile, InvalidParameter
from icgd.lab.training.config import Config

METRICS = "metrics.jsonl"
NUMBERS = ("loss", "lr", "steps_per_second")


def check_tracking(config: Config) -> None:
    """Complain about a tracker that is not installed, before anything is written."""
    if config.training.tensorboard and not _can_track():
        raise InvalidParameter(
            "training.tensorboard",
            True,
            "be false where TensorBoard is not installed or does not import",
            remedy="pip install 'icgd[track]'. metrics.jsonl has the same numbers.",
        )


def _can_track() -> bool:
    """Whether the writer can be imported: a package that is there may still lack what it needs."""
    try:
        import_module("torch.utils.tensorboard")
    except Exception:  # whatever a package raises that does not fit its own dependencies
        return False
    return True


def read_metrics(directory: Path, last_step: int | None = None) -> list[dict[str, Any]]:
    """The lines of a run up to a step, the last one unless given; none if the run has logged nothing.

    What a killed process left at the end is dropped. A damaged line before a good one is an InvalidFile.
    """
    path = directory / METRICS
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror or error}.") from error
    lines: list[dict[str, Any]] = []
    damaged: int | None = None
    for number, text in enumerate(content.split(b"\n"), 1):
        line = _parsed(text)
        if line is None:
            damaged = damaged or (number if text.strip() else None)
        elif last_step is None or line["step"] <= last_step:
            if damaged is not None or (lines and line["step"] <= lines[-1]["step"]):
                raise InvalidFile(
                    f"Line {damaged or number} of {path} is damaged. Delete that line and start the same "
                    "command again; the checkpoint does not depend on it."
                )
            lines.append(line)
    return lines


def _parsed(text: bytes) -> dict[str, Any] | None:
    """A line as it was written, or None."""
    try:
        line = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or type(line.get("step")) is not int or line["step"] < 1:
        return None
    numbers = all(type(line.get(name)) in (int, float) for name in NUMBERS)
    return line if numbers and 0 < line["steps_per_second"] < math.inf else None


def training_seconds(directory: Path) -> float:
    """The time that training took so far, by its metrics; interruptions do not count."""
    seconds, before = 0.0, 0
    for line in read_metrics(directory):
        seconds += (line["step"] - before) / line["steps_per_second"]
        before = line["step"]
    return seconds


class Journal:
    """The metrics of a run that is going on, and the same numbers for TensorBoard if it is wanted.

    start   steps that the checkpoint has
    leads   whether this process is the one that writes
    """

    def __init__(self, directory: Path, start: int, config: Config, leads: bool) -> None:
        self.path, self.start = directory / METRICS, start
        self.config, self.leads = config, leads
        self._file: Any = None
        self._board: Any = None

    def __enter__(self) -> Journal:
        if not self.leads:
            return self
        kept = read_metrics(self.path.parent, self.start) if self.start else []
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        try:
            self._file = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise InvalidFile(
                f"{self.path} cannot be written: {error.strerror or error}."
            ) from error
        if self.config.training.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            # Steps after the checkpoint are done again: what the board has of them is dropped.
            place, again = str(self.path.parent / "tensorboard"), self.start + 1
            self._board = SummaryWriter(place, purge_step=again if self.start else None)
        return self

    def write(self, **line: Any) -> None:
        """One line."""
        try:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        except OSError as error:
            raise self._full(error) from error
        if self._board is not None:
            for name in ("loss", "lr"):
                self._board.add_scalar(name, line[name], line["step"])

    def sync(self) -> None:
        """Wait until all lines are on the disk: a checkpoint must not be ahead of them."""
        if self._file is not None:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise self._full(error) from error

    def _full(self, error: OSError) -> InvalidFile:
        return InvalidFile(
            f"{self.path} cannot be written: {error.strerror or error}. The last checkpoint is whole; free "
            "space and start the same command again."
        )

    def __exit__(self, *error: object) -> None:
        for open_ in (self._file, self._board):
            if open_ is not None:
                # What could not be written is reported by `write`; closing tries it once more.
                try:
                    open_.close()
                except OSError as failed:
                    if error[0] is None:
                        raise self._full(failed) from failed
