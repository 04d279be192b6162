"""icgd run --model linear: gradient descent and Newton's method by looped transformers, on a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from typer.testing import CliRunner

from icgd.cli import app

runner = CliRunner()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    X = generator.normal(size=(25, 3))
    y = X @ np.array([1.0, -2.0, 0.5]) + 0.1 * generator.normal(size=25)
    header = {"delimiter": ",", "header": "a,b,c,y", "comments": ""}
    np.savetxt("data.csv", np.column_stack([X, y]), **header)
    np.savetxt("twice.csv", np.column_stack([X[:, 0], X[:, 0], X[:, 1], y]), **header)
    return tmp_path


def run(*options: str, file: str = "data.csv") -> tuple[int, str, dict[str, object]]:
    command = ["run", file, "--target", "y", "--model", "linear", "--out", "out", *options]
    found = runner.invoke(app, command)
    written = Path("out/result.json")
    return (
        found.exit_code,
        found.output,
        json.loads(written.read_text()) if written.exists() else {},
    )


@pytest.mark.parametrize(
    ("optimizer", "steps"), [("newton", 12), ("gd", 40), ("preconditioned", 12)]
)
def test_both_algorithms_run_beside_the_exact_ones(here, optimizer, steps):
    code, output, result = run("--optimizer", optimizer, "--steps", str(steps))
    assert code == 0, output
    assert result["passed"] is True
    assert result["optimizer"] == optimizer
    assert result["rounds"] == steps
    assert result["max_error"] <= 1e-12
    table = np.loadtxt("data.csv", delimiter=",", skiprows=1)
    table = (table - table.mean(0)) / table.std(0)
    best = np.linalg.lstsq(table[:, :3], table[:, 3], rcond=None)[0]
    stored = load_file("out/weights.safetensors")["weight"].numpy()
    assert abs(stored - best).max() <= (1e-3 if optimizer == "gd" else 1e-10)
    distance = result["curves"]["distance"]
    assert set(distance) == {
        f"{name}_{how}"
        for name in ("gd", "newton", "preconditioned")
        for how in ("exact", "transformer")
    }
    # Newton's method squares its error: it must end far below gradient descent.
    assert distance["newton_transformer"][-1] < 1e-3 * distance["gd_transformer"][11]
    assert {p.name for p in Path("out").iterdir()} >= {"report.html", "distance.png", "result.json"}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--optimizer", "adam"), "--optimizer"),
        (("--lam", "0.5"), "--lam"),
        (("--radius", "3"), "--radius"),
        (("--widths", "3"), "--widths"),
        (("--method", "stack"), "--method"),
        (("--steps", "0"), "--steps"),
        (("--lr", "-1"), "--lr"),
    ],
)
def test_bad_input_is_one_line(here, options, name):
    code, output, result = run(*options)
    assert code == 2, output
    line = output.strip().splitlines()[-1]
    assert line.startswith("icgd: error: ")
    assert name in line
    assert result == {}


def test_collinear_features_are_refused_for_newton(here):
    code, output, _ = run("--optimizer", "newton", file="twice.csv")
    assert code == 2, output
    assert "rank" in output.strip().splitlines()[-1]
    code, output, result = run("--optimizer", "gd", "--steps", "20", file="twice.csv")
    assert code == 0, output
    assert set(result["curves"]["error"]) == {"gd"}
    assert any("newton was left out" in note for note in result["notes"])


def test_newton_is_for_linear_models(here):
    found = runner.invoke(
        app, ["run", "data.csv", "--target", "y", "--optimizer", "newton", "--out", "out"]
    )
    assert found.exit_code == 2
    assert "--optimizer" in found.output
