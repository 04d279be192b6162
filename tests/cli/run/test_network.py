"""`icgd run`: what it prints, what it writes, and that the numbers are right."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import icgd
from icgd.cli.run.curves import error_curve, thinned
from icgd.cli.run.network import r_squared
from icgd.cli.tables import load_example, make_table

KEYS = {
    "max_error",
    "max_round_error",
    "round_bound",
    "global_bound",
    "paper_bound",
    "rounds",
    "blocks",
    "dense_flops",
    "structured_flops",
    "r2_transformer",
    "r2_sgd",
    "seconds",
    "config",
    "versions",
    "loss_before",
    "loss_after",
    "passed",
    "rounds_over_bound",
    "near_kink",
    "radius",
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, table_csv, icgd_command):
    """One run of the command: its directory, its result file and what it said."""
    out = tmp_path_factory.mktemp("run") / "deep" / "out"
    said = icgd_command(
        "run",
        table_csv,
        "--target",
        "y",
        "--target",
        "y2",
        "--widths",
        "6",
        "--epochs",
        3,
        "--lr",
        0.02,
        "--out",
        out,
    )
    assert said.exit_code == 0, said.output
    return out, json.loads((out / "result.json").read_text()), said


def test_result_file_has_every_key(finished):
    _, result, _ = finished
    assert result.keys() >= KEYS
    assert result["versions"].keys() >= {"icgd", "python", "torch", "numpy"}
    assert result["config"]["problem"]["widths"] == [3, 6, 2]
    assert result["config"]["targets"] == ["y", "y2"]


def test_numbers_are_consistent(finished):
    _, result, _ = finished
    assert result["passed"]
    assert result["rounds"] == 24 * 3
    assert result["blocks"] == 24 * 3 * 4
    assert result["max_round_error"] <= result["round_bound"] < 1e-10
    assert result["rounds_over_bound"] == 0
    assert result["max_error"] < 1e-12
    assert result["loss_after"] < result["loss_before"]
    assert result["r2_transformer"] == pytest.approx(result["r2_sgd"], abs=1e-10)


def test_it_trained_what_plain_torch_trains(finished, table_csv):
    """Not one line of ours: the same rows, the same start, torch.optim.SGD."""
    out, _, _ = finished
    frame = pd.read_csv(table_csv)
    z = (frame - frame.mean()) / frame.std(ddof=0)
    x = torch.tensor(z[["a", "b", "c"]].to_numpy(copy=True))
    y = torch.tensor(z[["y", "y2"]].to_numpy(copy=True))
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2)
    ).double()
    (W1, b1), (W2, b2) = icgd.Network((3, 6, 2)).init(seed=0)
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), (W1, b1, W2, b2), strict=True):
            parameter.copy_(value)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    for i in [*range(24)] * 3:
        optimizer.zero_grad()
        (0.5 * (net(x[i]) - y[i]).square().sum()).backward()
        optimizer.step()
    stored = load_file(out / "weights.safetensors")
    assert sorted(stored) == ["layer1.bias", "layer1.weight", "layer2.bias", "layer2.weight"]
    trained = [stored[f"layer{i}.{part}"] for i in (1, 2) for part in ("weight", "bias")]
    for have, want in zip(trained, net.parameters(), strict=True):
        assert float((have - want.detach()).abs().max()) < 1e-12


def test_weights_carry_their_standardisation(finished, table_csv):
    out, result, _ = finished
    with safe_open(out / "weights.safetensors", "pt") as stored:
        scales = json.loads(stored.metadata()["standardization"])
    assert scales == result["standardization"]
    assert scales["features"]["a"]["centre"] == pytest.approx(pd.read_csv(table_csv)["a"].mean())


def test_files_and_nothing_else(finished):
    out, _, _ = finished
    expected = {
        "result.json",
        "weights.safetensors",
        "report.html",
        "loss.png",
        "error.png",
        "cost.png",
    }
    assert {p.name for p in out.iterdir()} == expected
    assert [p.name for p in out.parent.iterdir()] == ["out"]
    for picture in out.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_table_and_progress_are_printed(finished):
    _, _, said = finished
    for words in (
        "passed",
        "R²",
        "Bound: per round",
        "Bound: whole run, as in the paper",
        "FLOPs",
        "kink",
        "Range used",
        "Seconds",
        "report.html",
    ):
        assert words in said.stdout
    assert "rounds 72/72" in said.stderr


@pytest.mark.usefixtures("unpainted")
def test_other_files_in_the_directory_are_kept_and_ours_replaced(tmp_path, table_csv, icgd_command):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("keep me")
    (out / "result.json").write_text("old")
    said = icgd_command(
        "run", table_csv, "--target", "y,y2", "--widths", "none", "--epochs", 1, "--out", out
    )
    assert said.exit_code == 0, said.output
    assert (out / "mine.txt").read_text() == "keep me"
    assert json.loads((out / "result.json").read_text())["rounds"] == 24
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(
    ("options", "largest", "exit_code"),
    [
        (["--dtype", "float32"], 1e-5, 0),
        # So coarse a grid leaves ReLUs undecided, and the run strays by more than a hundredth of its way.
        (["--temperature", "hard", "--n-grid", "256", "--radius", "8"], 0.1, 1),
        (["--executor", "dense"], 1e-12, 0),
        (["--output", "relu", "--no-bias"], 1e-12, 0),
        (["--no-standardize"], 1e-12, 0),
    ],
)
def test_every_option_reaches_the_program(
    tmp_path, table_csv, icgd_command, options, largest, exit_code
):
    out = tmp_path / "out"
    said = icgd_command(
        "run", table_csv, "--target", "y", "--widths", "4", "--epochs", 1, "--out", out, *options
    )
    assert said.exit_code == exit_code, said.output
    result = json.loads((out / "result.json").read_text())
    assert 0 <= result["max_error"] < largest
    config = result["config"]
    flat = {**config, **config["options"], **config["problem"]}
    for name, value in zip(options[::2], options[1::2], strict=False):
        if name in ("--dtype", "--temperature", "--executor", "--output"):
            assert flat[name.removeprefix("--")] == value
    assert config["standardize"] == ("--no-standardize" not in options)
    assert flat["bias"] == ("--no-bias" not in options)


def test_the_bundled_example():
    frame, targets = load_example("diabetes")
    table = make_table(frame, targets, standardize=True)
    assert table.X.shape == (442, 10)
    assert targets == ["progression"]
    assert np.abs(table.X.mean(axis=0)).max() < 1e-12


@pytest.mark.slow
def test_the_demo_learns(tmp_path, icgd_command):
    """What `make demo` does."""
    said = icgd_command("run", "--example", "diabetes", "--out", tmp_path / "out")
    assert said.exit_code == 0, said.output
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["config"]["problem"]["widths"] == [10, 16, 16, 1]
    assert result["r2_transformer"] > 0.5
    assert result["max_error"] < 1e-13


def test_a_constant_column_gets_scale_one():
    frame = pd.DataFrame({"c": [0.1, 0.1, 0.1], "x": [1.0, 2.0, 3.0], "y": [1.0, 0.0, 1.0]})
    table = make_table(frame, ["y"], standardize=True)
    assert table.features.scale[0] == 1.0
    assert (table.X[:, 0] == 0).all()
    assert table.X[:, 1].std() == pytest.approx(1.0)


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(
    ("text", "words"),
    [("a,y\n1,0.1\n2,0.1\n3,0.1\n", "Target 'y' is the same"), ("a,y\n1,2\n", "single row")],
)
@pytest.mark.parametrize("option", ["--standardize", "--no-standardize"])
def test_an_undefined_r_squared_is_explained(tmp_path, icgd_command, text, words, option):
    (tmp_path / "t.csv").write_text(text)
    out = tmp_path / "out"
    said = icgd_command(
        "run", tmp_path / "t.csv", "--target", "y", "--widths", "none", "--out", out, option
    )
    # One row standardised is all zeros: nothing moves, so nothing is shown.
    nothing_moves = words == "single row" and option == "--standardize"
    assert said.exit_code == int(nothing_moves), said.output
    result = json.loads((out / "result.json").read_text())
    assert result["r2_transformer"] is None
    assert words in " ".join(result["notes"])
    assert words in said.stdout


def test_r_squared():
    y = np.array([[1.0], [2.0], [3.0]])
    assert r_squared(y, y) == 1.0
    assert r_squared(y, np.full((3, 1), 2.0)) == 0.0
    assert r_squared(np.ones((3, 1)), y) is None


def test_thinning_keeps_both_ends_and_the_worst():
    assert thinned(1, 5) == [0]
    marks = thinned(5000, 1000)
    assert len(marks) <= 1000
    assert (marks[0], marks[-1]) == (0, 4999)

    class Record:
        def __init__(self, i: int) -> None:
            self.round = i
            self.error = self.round_error = 9.0 if i == 1234 else 1.0
            self.round_bound = self.global_bound = self.paper_bound = math.inf

    curve = error_curve([Record(i) for i in range(1, 5001)])
    assert max(curve["round_error"]) == 9.0
    assert len({len(values) for values in curve.values()}) == 1


def test_help_is_complete_and_loads_nothing_heavy():
    """Counted, not timed: whatever is slow to import must not be imported."""
    probe = (
        "import sys; from typer.testing import CliRunner; from icgd.cli import app\n"
        "for args in (['--help'], ['run', '--help'], ['verify', '--help'], ['bench', 'cot', '--help']):\n"
        "    result = CliRunner().invoke(app, args); assert result.exit_code == 0; print(result.output)\n"
        "heavy = {'torch', 'numpy', 'pandas', 'matplotlib', 'sklearn', 'plotly', 'scipy'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stderr
    for option in (
        "--target",
        "--widths",
        "--lr",
        "--epochs",
        "--no-standardize",
        "--seed",
        "--out",
        "--temperature",
        "--n-grid",
        "--rho",
        "--radius",
        "--dtype",
        "--executor",
        "--output",
        "--no-bias",
        "--example",
        "--paper",
        "--json",
        "--program",
    ):
        assert option in done.stdout
    assert "[default: 16,16]" in done.stdout


@pytest.mark.parametrize(
    ("words", "rounds"),
    [
        (["--epochs", "10000000"], "240,000,000 rounds"),
        (["--epochs", "10000000", "--trace", "--trace-budget", "1000000"], "240,000,000 rounds"),
        (["--method", "stack", "--steps", "1000000000"], "1,000,000,000 rounds"),
        (["--model", "ridge", "--steps", "1000000000"], "1,000,000,000 rounds"),
        (["--model", "linear", "--steps", "1000000000"], "1,000,000,000 loops"),
    ],
    ids=["epochs", "trace", "stack", "ridge", "linear"],
)
def test_absurd_lengths_are_one_sentence_with_bytes(
    table_csv, icgd_command, tmp_path, monkeypatch, words, rounds
):
    monkeypatch.setenv("ICGD_MEMORY_LIMIT", "1GB")
    out = tmp_path / "out"
    result = icgd_command("run", table_csv, "--target", "y", "--out", out, *words)
    assert result.exit_code == 2
    complaint = result.stderr.strip().splitlines()[-1]
    assert complaint.startswith("icgd: error: ")
    assert rounds in complaint
    if "--trace" in words:
        assert "no reader opens such a file" in complaint
    else:
        option = "--steps" if "--steps" in words else "--epochs"
        assert f"Lower `{option}`" in complaint
        assert "B of memory" in complaint
        assert "1 GB are available" in complaint
    assert not out.exists()
