"""icgd run --model: the whole job, and one-line errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Lasso, Ridge
from typer.testing import CliRunner

import icgd
from icgd.cli import app

runner = CliRunner()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, 3))
    s = X @ np.array([1.0, -2.0, 0.0]) + 0.1 * generator.normal(size=40)
    columns = {
        "number": s,
        "label": (s > 0) + 4.0,
        "count": generator.poisson(np.exp(0.4 * s)),
        "three": np.arange(40) % 3,
    }
    for name, y in columns.items():
        table = np.column_stack([X, y])
        np.savetxt(f"{name}.csv", table, delimiter=",", header="a,b,c,y", comments="")
    return tmp_path


def run(*options: str) -> tuple[int, str, dict[str, object]]:
    found = runner.invoke(app, ["run", *options, "--target", "y", "--out", "out"])
    written = Path("out/result.json")
    result = json.loads(written.read_text()) if written.exists() else {}
    return found.exit_code, found.output, result


@pytest.mark.parametrize(
    ("model", "file"),
    [("ridge", "number"), ("lasso", "number"), ("logistic", "label"), ("poisson", "count")],
)
def test_every_model_fits_and_agrees_with_scikit_learn(here, model: str, file: str) -> None:
    code, output, result = run(f"{file}.csv", "--model", model, "--lam", "0.05", "--steps", "600")
    assert code == 0, output
    assert result["passed"] is True
    assert result["max_error"] <= 1e-12
    assert result["max_difference_library"] <= 1e-5
    assert result["rounds"] == 600
    assert result["rounds_over_bound"] == 0
    assert result["round_bound"] <= 1e-10
    expected = {
        "report.html",
        "result.json",
        "weights.safetensors",
        "path.png",
        "fit.png",
        "cost.png",
    }
    assert expected == {path.name for path in (here / "out").iterdir()}
    page = (here / "out" / "report.html").read_text()
    assert f"fitted this {model} model" in page
    assert "scikit-learn" in page


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(("model", "oracle"), [("ridge", Ridge), ("lasso", Lasso)])
def test_the_coefficients_are_those_of_standardised_data(here, model: str, oracle: type) -> None:
    _, _, result = run("number.csv", "--model", model, "--lam", "0.1", "--steps", "2000")
    table = np.loadtxt("number.csv", delimiter=",", skiprows=1)
    table = (table - table.mean(0)) / table.std(0)
    alpha = 0.1 * 40 if model == "ridge" else 0.1
    fitted = oracle(alpha=alpha, tol=1e-14).fit(table[:, :3], table[:, 3])
    ours = [c["transformer"] for c in result["coefficients"].values()]
    assert np.abs(np.array(ours) - fitted.coef_).max() <= 1e-9


@pytest.mark.usefixtures("unpainted")
def test_without_standardising_there_is_an_intercept(here) -> None:
    _, _, result = run("number.csv", "--model", "ridge", "--no-standardize", "--steps", "300")
    assert list(result["coefficients"]) == ["a", "b", "c", "intercept"]


BAD = {
    "model": (["number.csv", "--model", "svm"], "--model.*be one of network, linear, ridge"),
    "lam": (["number.csv", "--model", "ridge", "--lam", "-1"], "--lam.*>= 0"),
    "steps": (["number.csv", "--model", "ridge", "--steps", "0"], "--steps.*>= 1"),
    "classes": (["three.csv", "--model", "logistic"], "exactly two classes.*3 values: 0, 1, 2"),
    "counts": (["number.csv", "--model", "poisson"], "must be >= 0 for a Poisson model"),
    "widths": (["number.csv", "--model", "ridge", "--widths", "8"], "--widths.*left out"),
    "lam of a network": (["number.csv", "--lam", "0.5"], "--lam.*left out with --method cot"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_leaves_nothing(here, name: str) -> None:
    options, message = BAD[name]
    found = runner.invoke(app, ["run", *options, "--target", "y", "--out", "out"])
    assert found.exit_code == 2
    lines = [line for line in found.output.splitlines() if line.startswith("icgd: error:")]
    assert len(lines) == 1
    assert re.search(message, lines[0])
    assert not (here / "out").exists()


@pytest.mark.parametrize(("model", "file"), [("ridge", "number"), ("logistic", "label")])
def test_a_saved_program_is_verified_on_a_table(here, model: str, file: str) -> None:
    problem = icgd.Ridge(3, 0.1) if model == "ridge" else icgd.GLM(3, "logistic", 0.1)
    icgd.compile(problem, icgd.GD(0.1)).save_pretrained("program")
    found = runner.invoke(
        app, ["verify", "--program", "program", f"{file}.csv", "--target", "y", "--json", "v.json"]
    )
    assert found.exit_code == 0, found.output
    verdict = json.loads(Path("v.json").read_text())
    assert verdict["passed"] is True
    assert verdict["max_error"] <= 1e-12


def test_a_program_of_another_shape_is_refused(here) -> None:
    icgd.compile(icgd.Ridge(2, 0.1), icgd.GD(0.1)).save_pretrained("program")
    found = runner.invoke(app, ["verify", "--program", "program", "number.csv", "--target", "y"])
    assert found.exit_code == 2
    assert "have 2 features and 1 targets" in found.output
