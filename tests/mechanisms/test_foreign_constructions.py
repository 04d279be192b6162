"""Programs of constructions the verifier does not know get a sentence that is true, everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import icgd
from icgd.cli import app
from icgd.mechanisms.loops.regression.fused import fuse
from icgd.transformer.nn.named_parts import named_parts
from icgd.transformer.nn.stack.stack import Stack

F64 = torch.float64
NAMES = ("clear", "pop", "keys", "training", "forward", "a.b", "")


@pytest.fixture
def heavy_ball(monkeypatch: pytest.MonkeyPatch) -> icgd.Program:
    """The construction of docs/extend.md, registered for one test."""
    monkeypatch.setattr(icgd.Program, "builders", dict(icgd.Program.builders))
    page = (Path(__file__).parents[2] / "docs" / "extend.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict = {"__name__": "extend"}
    for block in blocks[:2]:
        exec(block, scope)
    return scope["compile_heavy_ball"](2, 6, 8.0, lr=0.1, momentum=0.5)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(6, 2, generator=g, dtype=F64)
    return X, X @ torch.tensor([1.0, -2.0], dtype=F64)


def table(path: Path) -> Path:
    X, y = data()
    rows = [
        "a,b,y",
        *(f"{a:.6f},{b:.6f},{c:.6f}" for (a, b), c in zip(X.tolist(), y.tolist(), strict=True)),
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("rounds", [{"steps": 3}, {"epochs": 1}, {}])
def test_verify_says_that_it_does_not_know_a_construction(
    heavy_ball: icgd.Program, rounds: dict
) -> None:
    with pytest.raises(
        icgd.InvalidParameter, match=r"Got 'heavy_ball'\. Run it with record='weights'"
    ):
        icgd.verify(heavy_ball, *data(), **rounds)


@pytest.mark.parametrize("optimizer", [icgd.PreconditionedGD(), None])
def test_constructions_of_the_package_without_an_exact_algorithm_say_so(optimizer: object) -> None:
    problem = icgd.MLPChain(2, 2, 4) if optimizer is None else icgd.LinearRegression(2, 6)
    program = icgd.compile(problem, optimizer or icgd.GD(lr=0.1))
    with pytest.raises(icgd.InvalidParameter, match="be of a construction with an exact algorithm"):
        icgd.verify(program, *data(), steps=2)


def test_a_saved_program_of_an_unregistered_construction_names_what_is_missing(
    heavy_ball: icgd.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heavy_ball.save_pretrained(tmp_path / "p")
    assert icgd.Program.from_pretrained(tmp_path / "p").config["construction"] == "heavy_ball"
    words = ["verify", "--program", str(tmp_path / "p"), str(table(tmp_path / "d.csv"))]
    answer = CliRunner().invoke(app, [*words, "--target", "y"])
    assert answer.exit_code == 2
    assert "Got 'heavy_ball'" in answer.output
    assert "Traceback" not in answer.output
    monkeypatch.delitem(icgd.Program.builders, "heavy_ball")
    with pytest.raises(icgd.InvalidFile) as refused:
        icgd.Program.from_pretrained(tmp_path / "p")
    assert "describes the construction 'heavy_ball'" in str(refused.value)
    assert "icgd.Program.builders['heavy_ball']" in str(refused.value)
    assert "not written by icgd" not in str(refused.value)


def test_a_fused_program_is_verified_on_the_command_line_too(tmp_path: Path) -> None:
    program = fuse(icgd.compile(icgd.LinearRegression(2, 6), icgd.GD(lr=0.2)))
    X, y = data()
    for steps in (1, 5):
        check = icgd.verify(program, X, y, steps=steps)
        assert check.passed, check.notes
        assert len(check.rounds) == steps
    program.save_pretrained(tmp_path / "p")
    how = ["--steps", "5", "--target", "y"]
    answer = CliRunner().invoke(
        app, ["verify", "--program", str(tmp_path / "p"), str(table(tmp_path / "d.csv")), *how]
    )
    assert answer.exit_code == 0, answer.output
    assert "icgd verify: passed" in answer.output
    assert "predictions with the final weights" in answer.output


@pytest.mark.parametrize("name", NAMES)
def test_names_that_torch_keeps_for_itself_are_refused_by_name(name: str) -> None:
    program = icgd.compile(icgd.LinearRegression(2, 4), icgd.GD(lr=0.1))
    part = next(iter(program.step.sublayers.values()))
    with pytest.raises(icgd.InvalidParameter, match="`sublayers` must have names") as refused:
        Stack(program.layout, {name: part}, n_layers=1, radius=1.0)
    assert f"Got {name!r}" in str(refused.value)
    assert list(named_parts("sublayers", {"erase": part})) == ["erase"]
