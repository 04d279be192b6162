"""Sweeps: one table wherever the cells ran, and no finished cell is lost or run twice."""

from __future__ import annotations

import os
import subprocess
import sys

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import icgd
from icgd.cli import app
from icgd.lab.sweeps.cells import RESULT, run_cells
from icgd.lab.sweeps.sweep import read_sweep, sweep
from icgd.lab.sweeps.workers import make_executor

BASE = {
    "model": {"n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 6},
    "task": {"name": "noisy_linear_regression", "n_dims": 2, "noise_std": 0.5},
    "training": {"batch_size": 4, "train_steps": 6, "n_points": 5, "threads": 1},
}


@pytest.fixture
def file(tmp_path):
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    path = tmp_path / "sweep.yaml"
    grid = {"training.learning_rate": [0.001, 0.01], "model.attention": ["softmax", "relu"]}
    path.write_text(yaml.safe_dump({"base": "base.yaml", "grid": grid, "seeds": [0, 1]}))
    return path


def test_every_combination_is_a_cell(file):
    cells, _ = read_sweep(file)
    assert len(cells) == 8
    assert len({cell.name for cell in cells}) == 8
    assert {cell.config.model.attention for cell in cells} == {"softmax", "relu"}
    assert {cell.config.training.seed for cell in cells} == {0, 1}


def test_the_same_table_on_joblib_and_on_ray(file, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed")
    first = pd.read_parquet(sweep(file, executor="joblib", workers=1, out=tmp_path / "a").table)
    second = pd.read_parquet(sweep(file, executor="ray", workers=1, out=tmp_path / "b").table)
    pd.testing.assert_frame_equal(first, second)
    assert len(first) == 8


def test_finished_cells_are_kept_and_the_others_done(file, tmp_path):
    swept = sweep(file, executor="joblib", workers=1, out=tmp_path / "s")
    assert (swept.n_cells, len(swept.failed)) == (8, 0)
    before = pd.read_parquet(swept.table)
    done = sorted((tmp_path / "s" / "cells").glob(f"*/{RESULT}"))
    stamps = {path: path.stat().st_mtime_ns for path in done[1:]}
    done[0].unlink()
    after = pd.read_parquet(sweep(file, executor="joblib", workers=1, out=tmp_path / "s").table)
    pd.testing.assert_frame_equal(before, after)
    assert {path: path.stat().st_mtime_ns for path in done[1:]} == stamps


WORK = """
import os, signal, sys, time
from pathlib import Path

def work(place, *, number):
    with (place.directory.parent / "ran").open("a") as ran:
        ran.write(f"{number}\\n")
    if number == 3 and not (mark := place.directory.parent / "died").exists():
        while len(list(place.directory.parent.glob("*/result.json"))) < 3:
            time.sleep(0.05)  # the others are finished: nothing of theirs may be lost or done again
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"squared": number**2}

if __name__ == "__main__":
    from icgd.lab.sweeps.cells import Cell, run_cells
    from icgd.lab.sweeps.workers import make_executor

    cells = [Cell({"number": n}, "killed_worker:work", {"number": n}) for n in range(4)]
    rows = run_cells(cells, Path(sys.argv[2]), make_executor(sys.argv[1], 2))
    assert rows == [{"number": n, "squared": n**2} for n in range(4)], rows
"""


@pytest.mark.parametrize("executor", ["joblib", "ray"])
def test_a_worker_that_is_killed_loses_no_finished_cell(tmp_path, executor):
    """A worker kills itself at its first try of the last cell, when the others are finished.

    In a process of its own: what a killed worker leaves behind is no matter of the other tests.
    """
    pytest.importorskip(executor, reason=f"{executor} is not installed")
    (tmp_path / "killed_worker.py").write_text(WORK)
    (tmp_path / "cells").mkdir()
    path = os.pathsep.join([str(tmp_path), *sys.path])
    said = subprocess.run(
        [sys.executable, "killed_worker.py", executor, "cells"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=300,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    ran = (tmp_path / "cells" / "ran").read_text().split()
    assert (tmp_path / "cells" / "died").exists()
    assert sorted(ran) == ["0", "1", "2", "3", "3"]


def test_a_cell_that_fails_stops_no_other(file, tmp_path):
    data = yaml.safe_load(file.read_text())
    data["grid"] = {"training.n_points": [5, 50]}  # more than the model has positions for
    file.write_text(yaml.safe_dump(data))
    swept = sweep(file, executor="joblib", workers=1, out=tmp_path / "s")
    assert (swept.n_cells, len(swept.failed)) == (4, 2)
    assert len(list((tmp_path / "s" / "cells").glob(f"*/{RESULT}"))) == 2
    assert len(pd.read_parquet(swept.table)) == 4


def test_a_diverged_cell_is_marked_in_the_table(file, tmp_path):
    """The table is written, the exit code is 1, and the message does not contradict itself."""
    data = yaml.safe_load(file.read_text())
    data["grid"] = {"training.learning_rate": [0.01, 1e30], "training.optimizer": ["sgd"]}
    file.write_text(yaml.safe_dump({**data, "seeds": [0]}))
    options = ["sweep", str(file), "--workers", "1", "--out", str(tmp_path / "s")]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 1, done.output
    assert "Table:" in done.stdout
    line = done.stderr.splitlines()[-1]
    assert line.startswith("icgd: 1 of 2 cells failed; column `failed` of the table says why.")
    assert "there is no checkpoint yet. Begin anew" in line
    assert "Go on from it" not in line
    table = pd.read_parquet(tmp_path / "s" / "results.parquet")
    assert list(table["training.learning_rate"]) == [0.01, 1e30]
    assert pd.isna(table["failed"][0])
    assert "training diverged" in table["failed"][1]
    assert table.drop(columns="failed").loc[0].notna().all()


def test_tensorboard_that_is_not_installed_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    # An entry of None makes the import fail, as for a package that is not installed.
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    options = ["--set", "training.tensorboard=true", "--set", f"out_dir={tmp_path / 'run'}"]
    done = CliRunner().invoke(app, ["train", str(tmp_path / "base.yaml"), *options])
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "`training.tensorboard` must be false" in line
    assert "pip install 'icgd[track]'" in line
    assert not (tmp_path / "run").exists()


def test_an_evaluation_writes_numbers_and_figure_or_nothing(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    command = ["eval", "looped_small", "--prompts", "4", "--json", str(tmp_path / "e.json")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert "No space left on device" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML"),
        ("grid: {}", "must name `base`"),
        ("base: noisy_linear_small\nseed: [1]", "Unknown setting `seed`"),
        ("base: noisy_linear_small\ngrid: {training.batch_size: 3}", "must be a list"),
    ],
)
def test_bad_sweep_files_are_explained(tmp_path, text, message):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(icgd.InvalidFile, match=message):
        read_sweep(tmp_path / "s.yaml")


def test_unknown_executors_and_workers():
    with pytest.raises(icgd.InvalidParameter, match="joblib, ray"):
        make_executor("slurm", 2)
    with pytest.raises(icgd.InvalidParameter, match="--workers"):
        make_executor("joblib", 0)


def test_train_and_eval_on_the_command_line(tmp_path):
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    run, cli = tmp_path / "run", CliRunner()
    done = cli.invoke(app, ["train", str(tmp_path / "base.yaml"), "--set", f"out_dir={run}"])
    assert done.exit_code == 0, done.output
    assert "step 6" in done.output
    done = cli.invoke(app, ["eval", str(run), "--prompts", "8"])
    assert done.exit_code == 0, done.output
    assert "optimal ridge" in done.output
    assert (run / "eval.json").is_file()
    done = cli.invoke(app, ["train", str(tmp_path / "base.yaml"), "--set", "model.n_layrs=2"])
    assert done.exit_code == 2
    assert "Did you mean `model.n_layer`?" in done.output
    done = cli.invoke(app, ["train", "--list"])
    assert "noisy_linear_small" in done.output
    assert cli.invoke(app, ["eval", str(tmp_path / "none")]).exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: noisy_linear_small\nseeds: 3", "seeds must be a list"),
        ("base: noisy_linear_small\ngrid: [1]", "grid must hold names"),
        ("base: noisy_linear_small\ngrid: {training.seed: [1, 2]}", "List seeds under `seeds`"),
    ],
)
def test_strange_sweeps_are_one_clear_error(tmp_path, text, message):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(icgd.InvalidFile, match=message):
        read_sweep(tmp_path / "s.yaml")


def test_a_result_that_is_not_there_is_no_shorter_table(file, tmp_path):
    class Elsewhere:
        """Workers whose directory is not this machine's."""

        def run(self, function, items):
            yield from ((item, {}) for item in items)

    cells, _ = read_sweep(file)
    with pytest.raises(icgd.InvalidFile, match="8 of 8 cells left no result"):
        run_cells(cells, tmp_path / "cells", Elsewhere())
