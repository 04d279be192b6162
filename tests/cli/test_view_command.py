"""`icgd view` and `icgd run --trace`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from functools import partial

import pytest
from traced_programs import case
from typer.testing import CliRunner

from icgd.cli import app

CLI = CliRunner()


def call(*arguments):
    return CLI.invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    case("network").record().save(directory / "trace.json")
    (directory / "result.json").write_text('{"format": "icgd-result/1"}')
    (directory / "secret.txt").write_text("not for you")
    return directory


def test_the_viewer_is_written_to_a_file(run, tmp_path):
    done = call("view", run, "--html", tmp_path / "v.html")
    assert done.exit_code == 0
    assert f"Viewer: {tmp_path / 'v.html'}" in done.output
    page = (tmp_path / "v.html").read_text()
    assert '"icgd-trace/1"' in page
    assert [p.name for p in tmp_path.iterdir()] == ["v.html"]


def test_a_trace_file_will_do_instead_of_a_directory(run, tmp_path):
    assert call("view", run / "trace.json", "--html", tmp_path / "v.html").exit_code == 0


def one_line(done, *words):
    assert done.exit_code == 2
    (line,) = done.output.strip().splitlines()
    assert line.startswith("icgd: error:")
    for word in words:
        assert word in line


def test_a_run_without_a_trace_says_how_to_record_one(tmp_path):
    one_line(call("view", tmp_path), "holds no trace.json", "icgd run ... --trace")
    one_line(call("view", tmp_path / "none"), "There is no run", "--trace")


def test_bad_traces_and_options_are_one_line(run, tmp_path):
    (tmp_path / "trace.json").write_text('{"format": "icgd-trace/9"}')
    one_line(call("view", tmp_path, "--html", tmp_path / "v.html"), "icgd-trace/9", "icgd-trace/1")
    (tmp_path / "trace.json").write_text((run / "trace.json").read_text()[:1000])
    one_line(call("view", tmp_path), "not valid JSON")
    one_line(call("view", run, "--port", 70000), "--port", "65535")
    one_line(call("view", run, "--port", 80, "--html", tmp_path / "v.html"), "--port", "left out")
    one_line(call("view", run, "--html", tmp_path / "no" / "v.html"), "--html")
    one_line(call("view", run, "--html", run / "trace.json"), "end in .html")
    assert not (tmp_path / "v.html").exists()


def fetched(address):
    """(status, body) of an address."""
    try:
        with urllib.request.urlopen(address) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def test_the_server_gives_the_run_and_nothing_else(run):
    """On loopback, at the printed address, until it is interrupted."""
    command = [sys.executable, "-m", "icgd", "view", str(run)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    # A shell's background job ignores interrupts, and so would its children.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, preexec_fn=heard
    ) as process:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline()).group()
            assert b"icgd-trace/1" in fetched(address)[1]
            assert json.loads(fetched(address + "result.json")[1])["format"] == "icgd-result/1"
            for path in ("secret.txt", "../secret.txt", "%2e%2e/secret.txt", "trace.json/..", "./"):
                assert fetched(address + path)[0] == 404
        finally:
            process.send_signal(signal.SIGINT)
            try:
                assert process.wait(timeout=60) == 0
            finally:
                process.kill()


DATA = "a,b,y\n" + "\n".join(f"{i % 5},{i % 3},{(i * 7) % 4}" for i in range(12)) + "\n"


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(
    "options",
    [
        ("--widths", "3", "--epochs", "1"),
        ("--method", "stack", "--widths", "2", "--steps", "3", "--activation", "tanh"),
        ("--model", "lasso", "--steps", "5"),
        ("--model", "linear", "--optimizer", "newton", "--steps", "5"),
    ],
    ids=["network", "stack", "lasso", "newton"],
)
def test_run_records_every_kind_of_model(options, tmp_path):
    (tmp_path / "d.csv").write_text(DATA)
    out = tmp_path / "out"
    done = call("run", tmp_path / "d.csv", "--target", "y", "--trace", "--out", out, *options)
    assert done.exit_code == 0, done.output
    assert f"Viewer: {out / 'viewer.html'}" in done.output
    assert call("view", out, "--html", tmp_path / "v.html").exit_code == 0
    assert (tmp_path / "v.html").read_text() == (out / "viewer.html").read_text()
    # A run without --trace leaves no trace of another one.
    done = call("run", tmp_path / "d.csv", "--target", "y", "--out", out, *options)
    assert done.exit_code == 0
    assert "Viewer" not in done.output
    assert not (out / "trace.json").exists()
    assert not (out / "viewer.html").exists()


def test_a_budget_needs_a_trace_and_a_size(tmp_path):
    asked = ("run", "--example", "diabetes", "--trace", "--out", tmp_path / "o")
    for budget in ("0", "-1", "nan"):
        one_line(call(*asked, "--trace-budget", budget), "--trace-budget")
    one_line(
        call("run", "--example", "diabetes", "--trace-budget", "3", "--out", tmp_path / "o"),
        "left out without --trace",
    )
    assert not (tmp_path / "o").exists()


def test_a_recording_that_fails_takes_nothing_else_with_it(tmp_path):
    (tmp_path / "d.csv").write_text(DATA)
    out = tmp_path / "out"
    asked = (
        "run",
        tmp_path / "d.csv",
        "--target",
        "y",
        "--epochs",
        "1",
        "--widths",
        "3",
        "--out",
        out,
    )
    done = call(*asked, "--trace", "--trace-budget", "0.02")
    assert done.exit_code == 2
    assert "--trace-budget" in done.output.splitlines()[-1]
    assert "other results are kept" in done.output.splitlines()[-1]
    assert (out / "result.json").is_file()
    assert not (out / "trace.json").exists()
