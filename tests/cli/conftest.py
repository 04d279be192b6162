"""A small table and a way to call the command in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from icgd.cli import app


@pytest.fixture(scope="session")
def table_csv(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=24)
    path = tmp_path_factory.mktemp("data") / "table.csv"
    rows = np.column_stack([x, y, x[:, 0] ** 2])
    np.savetxt(path, rows, delimiter=",", header="a,b,c,y,y2", comments="", fmt="%.6f")
    return path


@pytest.fixture(scope="session")
def icgd_command():
    """Call `icgd ...` here; exit codes and messages are those of the real command."""

    def call(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call
