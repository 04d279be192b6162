"""Experiments at smoke scale and rows of the theorem table, computed once for all tests that read them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from icgd.base.atomic import only_writer, write_text
from icgd.cli import app
from icgd.lab.experiments.record import Record, read_record
from icgd.papers.theorem_table import Checker, Row, to_json


@dataclass(frozen=True)
class Reproduced:
    """What the command said, and where it put its results: nobody may change them."""

    name: str
    out: Path
    exit_code: int
    stdout: str
    stderr: str

    @property
    def place(self) -> Path:
        return self.out / f"{self.name}-smoke"

    @property
    def record(self) -> Record:
        return read_record(self.place / "record.json")

    def copied_to(self, out: Path) -> Path:
        """The results in another `--out`, with their times, to be changed there; the experiment's place."""
        shutil.copytree(self.out, out)
        return out / self.place.name


@pytest.fixture(scope="session")
def reproduce_smoke() -> Callable[[str, Path], Result]:
    """`icgd reproduce NAME --scale smoke` in this process, with results in a directory."""

    def run(name: str, out: Path) -> Result:
        options = ["--scale", "smoke", "--workers", "1", "--out", str(out)]
        return CliRunner().invoke(app, ["reproduce", name, *options])

    return run


@pytest.fixture(scope="session")
def shared_directory(tmp_path_factory, worker_id) -> Path:
    """The directory of this run of the tests, common to its workers: what one has made the others read."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


@pytest.fixture(scope="session")
def row_of(shared_directory) -> Callable[[Checker], Row]:
    """The row that a checker of the theorem table gives."""
    shared = shared_directory / "rows"

    def of(checker: Checker) -> Row:
        name = f"{checker.__module__}.{checker.__name__}"
        file = shared / f"{name}.json"
        with only_writer(shared / f"{name}.lock", wait=True):
            if not file.is_file():
                write_text(file, to_json([checker()]))
        (row,) = json.loads(file.read_text(encoding="utf-8"))
        numbers = {name: float(row[name]) for name in ("measured", "bound")}
        return Row(**{**row, **numbers, "errata": tuple(row["errata"])})

    return of


@pytest.fixture(scope="session")
def reproduced(shared_directory, reproduce_smoke) -> Callable[[str], Reproduced]:
    """The finished experiment of a name."""
    shared = shared_directory / "reproduced"

    def of(name: str) -> Reproduced:
        told = shared / f"{name}.json"
        with only_writer(shared / f"{name}.lock", wait=True):
            if not told.is_file():
                said = reproduce_smoke(name, shared / name)
                text = {"exit_code": said.exit_code, "stdout": said.stdout, "stderr": said.stderr}
                write_text(told, json.dumps(text))
        return Reproduced(name, shared / name, **json.loads(told.read_text()))

    return of
