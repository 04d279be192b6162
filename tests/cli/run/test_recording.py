"""One run serves the verdict, the curves and the recording."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import icgd
from icgd.cli import app
from icgd.transformer.program.program import Program

pytestmark = pytest.mark.usefixtures("unpainted")

DATA = "a,b,y\n" + "".join(f"{i % 5 - 2},{(3 * i) % 7 - 3},{(i * i) % 4}\n" for i in range(12))
MODELS = {
    "network": (["--epochs", "2", "--widths", "3"], 1),
    "stack": (["--method", "stack", "--widths", "3", "--steps", "4"], 1),
    "ridge": (["--model", "ridge", "--steps", "6"], 1),
    "linear": (["--model", "linear", "--steps", "4"], 3),  # gd, newton and preconditioned
}


@pytest.fixture
def trainings(monkeypatch):
    """Runs of a program of more than one round, which is what probes make."""
    counted, train = [], Program._train

    def count(self, session, *rest, **more):
        if session.n_rounds > 1:
            counted.append(session.n_rounds)
        return train(self, session, *rest, **more)

    monkeypatch.setattr(Program, "_train", count)
    return counted


def run(tmp_path, *words):
    (tmp_path / "d.csv").write_text(DATA)
    command = ["run", str(tmp_path / "d.csv"), "--target", "y", "--out", str(tmp_path / "out")]
    return CliRunner().invoke(app, [*command, *words])


@pytest.mark.parametrize("model", MODELS)
def test_every_program_is_trained_once_and_has_its_numbers_recorded_or_not(
    model, trainings, tmp_path
):
    words, programs = MODELS[model]
    results = []
    for name, more in (("plain", []), ("traced", ["--trace"])):
        (tmp_path / name).mkdir()
        trainings.clear()
        done = run(tmp_path / name, *words, *more)
        assert done.exit_code in (0, 1), done.output
        assert len(trainings) == programs
        assert (tmp_path / name / "out" / "trace.json").exists() == bool(more)
        results.append(json.loads((tmp_path / name / "out" / "result.json").read_text()))
    plain, traced = results
    for key in ("curves", "passed", "rounds", "max_error"):
        assert plain[key] == traced[key]


def test_a_budget_that_is_too_small_costs_a_second_run_and_keeps_the_results(trainings, tmp_path):
    done = run(tmp_path, *MODELS["network"][0], "--trace", "--trace-budget", "0.02")
    assert done.exit_code == 2
    assert "--trace-budget" in done.output.splitlines()[-1]
    assert len(trainings) <= 2
    assert (tmp_path / "out" / "result.json").is_file()


def test_the_verifier_shows_its_rounds_to_whoever_looks():
    net = icgd.Network((2, 3, 1))
    program, init = icgd.compile(net, icgd.SGD(lr=0.05)), net.init(seed=0)
    X, Y = icgd.Network((2, 5)).init(seed=1)[0][0], icgd.Network((1, 5)).init(seed=2)[0][0]
    seen = []

    def look(done, weights, exact):
        seen.append(
            (
                done,
                max(float((a - b).abs().max()) for a, b in zip(weights[0], exact[0], strict=True)),
            )
        )

    check = icgd.verify(program, X, Y, init=init, observe=look)
    assert [done for done, _ in seen] == [1, 2, 3, 4, 5]
    assert max(apart for _, apart in seen) <= check.max_error
