"""Bad input, interrupts and full disks: one line, the right exit code, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import icgd
from icgd.base.atomic import only_writer, staged
from icgd.errors import AssumptionViolated, InvalidFile

FILES = {
    "ok.csv": "a,b,y\n1,2,3\n2,1,4\n3,5,6\n0,1,2\n",
    "text.csv": "a,b,y\n1,red,3\n2,blue,4\n",
    "missing.csv": "a,b,y\n1,,3\n2,1,4\n",
    "empty.csv": "",
    "header.csv": "a,b,y\n",
    "semicolon.csv": "a;b;y\n1;2;3\n",
    "index.csv": ",a,y\n0,2,3\n1,1,2\n",
    "ragged.csv": "a,b,y\n1,2,3\n1,2,3,4\n",
    "wide.csv": "a,y\n1,2,3\n2,2,3\n",
    "labels.csv": "a,y\n1,2,3\n1,2,3\n",
    "twice.csv": "a,b,a,y\n1,2,3,4\n2,3,4,5\n",
    "bool.csv": "a,y\nTrue,1\nFalse,2\n",
    "lr.csv": "lr,y\nred,1\nblue,2\n",
    "tiny.csv": "a,y\n5e-324,1\n0,2\n",
    "infinite.csv": "a,y\n1,inf\n1,2\n",
    "large.csv": "a,y\n1,1e9\n1,2\n",
    "latin.csv": "a,y\nÿ,2\n1,2\n".encode("latin-1"),
}

OK = ["ok.csv", "--target", "y"]
CASES = [
    (["nowhere.csv", "--target", "y"], ["nowhere.csv", "--example diabetes"]),
    ([".", "--target", "y"], ["directory", "CSV"]),
    (["text.csv", "--target", "y"], ["'b'", "'red'", "row 1", "remove"]),
    (["missing.csv", "--target", "y"], ["'b'", "missing", "row 1", "drop"]),
    (["empty.csv", "--target", "y"], ["empty.csv is empty"]),
    (["header.csv", "--target", "y"], ["no rows"]),
    (["semicolon.csv", "--target", "y"], ["'a;b;y'", "commas"]),
    (["index.csv", "--target", "y"], ["Column 1", "no name"]),
    (["ragged.csv", "--target", "y"], ["line 3"]),
    (
        ["wide.csv", "--target", "y"],
        ["line 2", "wide.csv", "3 cells", "2 names", "Name every column"],
    ),
    (["labels.csv", "--target", "y"], ["line 2", "3 cells", "2 names"]),
    (["twice.csv", "--target", "y"], ["Columns 1 and 3", "'a'", "Rename"]),
    (["bool.csv", "--target", "y"], ["'a'", "'True'", "row 1", "finite number"]),
    (["lr.csv", "--target", "y"], ["Column 'lr'", "'red'"]),
    (["tiny.csv", "--target", "y"], ["column a", "5e-324", "Multiply"]),
    (["infinite.csv", "--target", "y"], ["'y'", "'inf'"]),
    (["latin.csv", "--target", "y"], ["not UTF-8", "with encoding UTF-8"]),
    (
        ["large.csv", "--target", "y", "--no-standardize"],
        ["A target", "1e+09", "1024", "tandardise", "run again with --radius >= 1e+09"],
    ),
    (["ok.csv"], ["--target", "a, b, y"]),
    (["ok.csv", "--target", "z"], ["'z'", "a, b, y"]),
    (["ok.csv", "--target", "y,y"], ["once"]),
    (["ok.csv", "--target", "a,b,y"], ["feature"]),
    ([*OK, "--widths", "0,a"], ["'0,a'", "--widths 16,16"]),
    ([*OK, "--widths", ""], ["--widths"]),
    ([*OK, "--lr", "0"], ["--lr", "0.0", "0.01"]),
    ([*OK, "--lr", "-1"], ["--lr", "-1.0"]),
    ([*OK, "--lr", "nan"], ["--lr", "nan"]),
    ([*OK, "--epochs", "0"], ["--epochs", "0"]),
    ([*OK, "--seed", "-1"], ["--seed", "-1"]),
    ([*OK, "--dtype", "float16"], ["'float16'", "float64"]),
    ([*OK, "--executor", "fast"], ["'fast'", "structured"]),
    ([*OK, "--temperature", "warm"], ["'warm'", "spectral"]),
    ([*OK, "--output", "sigmoid"], ["'sigmoid'", "linear"]),
    ([*OK, "--n-grid", "8"], ["`--n-grid`", "8", "25", "Raise --n-grid, or lower --rho"]),
    ([*OK, "--radius", "0", "--rho", "-1"], ["2 assumptions", "`--radius`", "`--rho`"]),
    ([*OK, "--widths", "64", "--executor", "dense"], ["--executor structured", "24"]),
    ([*OK, "--lr", "1e4"], ["Run again with --radius >=", "lower --lr"]),
    ([*OK, "--temperature", "hard", "--epochs", "20"], ["= 32", "--radius 16 --n-grid 256"]),
    ([*OK, "--example", "diabetes"], ["not both"]),
    ([], ["icgd run --example diabetes"]),
    (["--example", "iris"], ["'iris'", "diabetes"]),
]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    for name, content in FILES.items():
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_refused(result, code: int = 2) -> str:
    """One line on stderr that starts with icgd:, after any progress; gives back that line."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert sum(line.startswith("icgd: ") for line in lines) == 1
    assert lines[-1].startswith("icgd: ")
    assert "Traceback" not in result.stderr
    return lines[-1]


def nothing_new(where: Path) -> bool:
    return {p.name for p in where.iterdir()} == set(FILES)


@pytest.mark.parametrize(("arguments", "words"), CASES, ids=lambda v: " ".join(v)[:40])
def test_bad_input(here, icgd_command, arguments, words):
    line = assert_refused(icgd_command("run", *arguments, "--out", "out/deep"))
    assert line.startswith("icgd: error: ")
    for word in words:
        assert word in line
    assert nothing_new(here)


@pytest.mark.parametrize("out", ["ok.csv", "ok.csv/deep"])
def test_out_that_cannot_be_a_directory(here, icgd_command, out):
    line = assert_refused(icgd_command("run", *OK, "--out", out))
    assert "--out" in line
    assert "ok.csv" in line
    assert nothing_new(here)


def test_out_without_permission(here, icgd_command, monkeypatch):
    monkeypatch.setattr("icgd.cli.output._may_write", lambda directory: False)
    line = assert_refused(icgd_command("run", *OK, "--out", "out"))
    assert "permission" in line
    assert nothing_new(here)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--bogus"], ["--bogus", "run --help"]),
        (["run", *OK, "--lr", "fast"], ["'--lr'", "'fast'"]),
        (["run", *OK, "--epochs", "1.5"], ["'--epochs'", "'1.5'"]),
        (["bench", "foo"], ["'foo'", "bench --help"]),
        (["nonsense"], ["'nonsense'"]),
    ],
)
def test_usage_errors_are_one_line(icgd_command, arguments, words):
    said = icgd_command(*arguments)
    assert said.stderr.count("\n") == 1
    line = assert_refused(said)
    for word in words:
        assert word in line


def raising(error: BaseException):
    def fail(*arguments, **options):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (AssumptionViolated("Head h met\n|s| = 9."), 2, "Head h met |s| = 9."),
        (MemoryError(), 2, "memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 2, "memory"),
    ],
)
def test_failure_while_training(here, icgd_command, monkeypatch, error, code, words):
    monkeypatch.setattr(icgd, "verify", raising(error), raising=False)
    line = assert_refused(icgd_command("run", *OK, "--out", "out/deep"), code)
    assert words in line
    assert nothing_new(here)


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (OSError(28, "No space left on device"), 2)]
)
def test_failure_while_writing(here, icgd_command, monkeypatch, error, code):
    monkeypatch.setattr("icgd.pages.report.write_report", raising(error))
    options = ["--widths", "none", "--epochs", "1", "--out", "out/deep"]
    line = assert_refused(icgd_command("run", *OK, *options), code)
    assert ("interrupted" if code == 130 else "No space left") in line
    assert nothing_new(here)


def test_a_bug_is_not_hidden(here, icgd_command, monkeypatch):
    monkeypatch.setattr(icgd, "verify", raising(ZeroDivisionError("bug")), raising=False)
    with pytest.raises(ZeroDivisionError):
        icgd_command("run", *OK, "--out", "out")


def test_staging_moves_nothing_if_one_file_cannot_move(tmp_path):
    (tmp_path / "out" / "b.txt").mkdir(parents=True)

    def write() -> None:
        with staged(tmp_path / "out") as directory:
            (directory / "a.txt").write_text("a")
            (directory / "b.txt").write_text("b")

    with pytest.raises(InvalidFile, match=r"b\.txt"):
        write()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["b.txt"]


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_for_real(here):
    """The installed entry point, a real signal, in the middle of training."""
    command = "import sys; from icgd.cli import main; sys.argv[0] = 'icgd'; main()"
    options = ["run", *OK, "--epochs", "100000", "--out", "out/deep"]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *options],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # Background jobs of a shell ignore SIGINT and hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stderr is not None
        first = process.stderr.readline()  # printed when everything is imported and compiled
        assert "rows" in first
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=300)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert stdout == ""
    assert stderr.splitlines() == ["icgd: interrupted; nothing was written."]
    assert nothing_new(here)


def test_a_directory_that_another_run_writes_to_is_refused_before_any_work(here, icgd_command):
    with only_writer(here / "out"):
        line = assert_refused(icgd_command("run", *OK, "--out", "out"))
    assert "is being written by another process (process" in line
    assert nothing_new(here)


def test_a_run_killed_while_its_files_move_is_read_whole(here, icgd_command):
    """Everything was complete: `icgd report` and `icgd view` put it in place first."""
    done = icgd_command("run", *OK, "--widths", "none", "--epochs", "1", "--out", "out")
    assert done.exit_code == 0, done.output
    ready = here / "out" / ".icgd-ready"
    ready.mkdir()
    for name in ("result.json", "report.html"):
        (here / "out" / name).rename(ready / name)
    assert icgd_command("report", "out").exit_code == 0
    assert not ready.exists()
