"""Constructions from outside work everywhere; what is not known of one is said in a true sentence."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from typer.testing import CliRunner

import icgd
from icgd.base.construction import construction, unregister
from icgd.cli import app
from icgd.mechanisms.loops.regression.fused import fuse
from icgd.transformer.nn.named_parts import named_parts
from icgd.transformer.nn.stack.stack import Stack

F64 = torch.float64
NAMES = ("clear", "pop", "keys", "training", "forward", "a.b", "")


PAGE = Path(__file__).parents[2] / "docs" / "extend.md"


def plug_in() -> str:
    """The file nesterov.py of docs/extend.md."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]


@pytest.fixture
def nesterov(monkeypatch: pytest.MonkeyPatch) -> Iterator[type]:
    """The construction of docs/extend.md, registered for one test."""
    module = ModuleType("nesterov")
    monkeypatch.setitem(sys.modules, "nesterov", module)  # dataclasses look their module up
    exec(compile(plug_in(), "nesterov.py", "exec"), vars(module))
    yield module.Nesterov
    unregister("nesterov_loop")


@pytest.fixture
def unjudged(nesterov: type) -> Iterator[icgd.Program]:
    """A program of a construction whose exact algorithm nobody has described."""
    known = construction("nesterov_loop")
    unregister("nesterov_loop")
    icgd.register(replace(known, name="unjudged", exact=None))
    yield icgd.compile(icgd.LinearRegression(2, 6), nesterov(0.1))
    unregister("unjudged")


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
    unjudged: icgd.Program, rounds: dict
) -> None:
    with pytest.raises(
        icgd.InvalidParameter, match=r"Got 'unjudged'\. Run it with record='weights'"
    ):
        icgd.verify(unjudged, *data(), **rounds)


@pytest.mark.parametrize("optimizer", [icgd.PreconditionedGD(), None])
def test_constructions_of_the_package_without_an_exact_algorithm_say_so(optimizer: object) -> None:
    problem = icgd.MLPChain(2, 2, 4) if optimizer is None else icgd.LinearRegression(2, 6)
    program = icgd.compile(problem, optimizer or icgd.GD(lr=0.1))
    with pytest.raises(icgd.InvalidParameter, match="be of a construction with an exact algorithm"):
        icgd.verify(program, *data(), steps=2)


def test_a_saved_program_of_an_unregistered_construction_names_what_is_missing(
    unjudged: icgd.Program, tmp_path: Path
) -> None:
    unjudged.save_pretrained(tmp_path / "p")
    assert icgd.Program.from_pretrained(tmp_path / "p").construction.name == "unjudged"
    words = ["verify", "--program", str(tmp_path / "p"), str(table(tmp_path / "d.csv"))]
    answer = CliRunner().invoke(app, [*words, "--target", "y"])
    assert answer.exit_code == 2
    assert "Got 'unjudged'" in answer.output
    assert "Traceback" not in answer.output
    unregister("unjudged")
    with pytest.raises(icgd.InvalidFile) as refused:
        icgd.Program.from_pretrained(tmp_path / "p")
    assert "describes the construction 'unjudged', which is not registered here" in str(
        refused.value
    )
    assert "icgd.register" in str(refused.value)
    assert "not written by icgd" not in str(refused.value)


# -- the project of docs/extend.md -----------------------------------------------------------------


def test_the_plug_in_is_short() -> None:
    assert len([line for line in plug_in().splitlines() if line.strip()]) <= 60


SCENES = [(1, 2, 0.0, 0.0, 1), (3, 8, 0.9, 0.0, 30), (2, 12, 0.5, 0.1, 30), (4, 3, 0.99, 1e-3, 60)]


@pytest.mark.parametrize(("d", "n", "momentum", "decay", "steps"), SCENES)
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_plug_in_is_verified_against_torch(
    nesterov: type, d: int, n: int, momentum: float, decay: float, steps: int, outputs: int
) -> None:
    """Its bound holds, means something, and a claim that is off by a thousandth is found."""
    if momentum == 0.0:
        momentum = 1e-3  # torch refuses Nesterov without momentum
    g = torch.Generator().manual_seed(d)
    X = torch.randn(n, d, generator=g, dtype=F64).clamp(-2, 2)
    Y = torch.randn(n, outputs, generator=g, dtype=F64)
    program = icgd.compile(
        icgd.LinearRegression(d, n, outputs, x_radius=6.0), nesterov(0.05, momentum, decay)
    )
    check = icgd.verify(program, X, Y, steps=steps)
    assert check.passed, check.notes
    assert check.max_error <= check.global_bound < 1e-6
    assert check.prediction_error <= check.prediction_bound < 1e-4
    dense = program.run(X, Y, steps=3, executor="dense").weights
    assert float((dense - program.run(X, Y, steps=3).weights).abs().max()) < 1e-12
    for wrong in ("lr", "momentum", "weight_decay"):
        altered = replace(
            program.optimizer, **{wrong: 1.001 * getattr(program.optimizer, wrong) + 1e-6}
        )
        program.optimizer, right = altered, program.optimizer
        if steps > 1 or wrong == "lr":  # before the second step neither acts from w = 0
            assert not icgd.verify(program, X, Y, steps=steps).passed, wrong
        program.optimizer = right


def test_a_project_outside_the_package(tmp_path: Path) -> None:
    """Compiled, verified, traced and saved in one process; loaded, counted and verified in others."""
    (tmp_path / "nesterov.py").write_text(plug_in())
    (tmp_path / "use.py").write_text(
        "import icgd, torch\nfrom nesterov import Nesterov\n"
        "X = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)\n"
        "y = X @ torch.tensor([1.0, -2.0], dtype=torch.float64)\n"
        "program = icgd.compile(icgd.LinearRegression(2, 6), Nesterov(0.1, 0.5, 0.01))\n"
        "assert icgd.verify(program, X, y, steps=20).passed\n"
        "assert icgd.record_trace(program, X, y, steps=3).n_rounds == 3\n"
        "assert icgd.cost(program).construction == 'nesterov_loop'\n"
        "program.save_pretrained('saved')\n"
        "torch.save(program.run(X, y, steps=5).weights, 'weights.pt')\n"
    )
    (tmp_path / "load.py").write_text(
        "import icgd, torch, nesterov\n"
        "X = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)\n"
        "y = X @ torch.tensor([1.0, -2.0], dtype=torch.float64)\n"
        "program = icgd.Program.from_pretrained('saved')\n"
        "assert program.optimizer == nesterov.Nesterov(0.1, 0.5, 0.01)\n"
        "assert torch.equal(program.run(X, y, steps=5).weights, torch.load('weights.pt'))\n"
    )
    table(tmp_path / "d.csv")
    icgd_command = [sys.executable, "-m", "icgd", "--plugin", "nesterov.py"]
    for words, wanted in (
        ([sys.executable, "use.py"], ""),
        ([sys.executable, "load.py"], ""),
        ([*icgd_command, "cost", "--list"], "nesterov_loop"),
        ([*icgd_command, "cost", "--program", "saved"], "move_r"),
        (
            [*icgd_command, "verify", "--program", "saved", "d.csv", "--target", "y"],
            "icgd verify: passed",
        ),
    ):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert wanted in done.stdout
    lost = subprocess.run(
        [sys.executable, "-m", "icgd", "--plugin", "absent", "cost", "--list"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert lost.returncode == 2
    assert "`--plugin` must be a module" in lost.stderr


def test_names_of_the_package_are_taken(nesterov: type) -> None:
    known = construction("nesterov_loop")
    for name, must in (("looped_newton", "be new"), ("two words", "be a Python identifier")):
        with pytest.raises(icgd.InvalidParameter, match=must):
            icgd.register(replace(known, name=name))
    with pytest.raises(icgd.InvalidParameter, match=r"be an icgd\.Construction"):
        icgd.register(icgd.Network)


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
