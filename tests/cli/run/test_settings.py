"""Which options a method takes is asked of its description; methods from outside are methods like others."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import icgd
from icgd.base.construction import by_method, methods, registered, unregister
from icgd.cli.run import settings
from icgd.cli.run.settings import OF_METHODS, Settings, taken
from icgd.errors import InvalidParameter

IGNORED = {
    "cot": {"steps", "attention", "activation", "box", "n_relu", "signal_radius"},
    "stack": {"attention", "epochs", "temperature", "n_grid", "rho"},
    "forward_mode": {"epochs", "temperature", "n_grid", "rho"},
}
OTHER = {"epochs": 4, "steps": 7, "activation": "tanh", "temperature": "hard", "attention": "relu"}


@pytest.mark.parametrize("method", IGNORED)
def test_options_that_a_method_ignores_are_refused(method: str) -> None:
    assert set(OF_METHODS) - taken(by_method(method)) == IGNORED[method]
    for name in OF_METHODS:
        chosen = Settings(
            Path("out"), example="diabetes", method=method, **{name: OTHER.get(name, 3)}
        )
        if name in IGNORED[method]:
            option = f"--{name.replace('_', '-')}"
            with pytest.raises(InvalidParameter, match=f"`{option}` must be left out with") as said:
                chosen.check()
            takers = [other for other in IGNORED if name not in IGNORED[other]]
            assert re.findall(r"--method (\w+)", said.value.remedy) == takers
        else:
            chosen.check()


def test_settings_know_no_method_by_name() -> None:
    """But for the one that is taken unless given."""
    source = Path(settings.__file__).read_text(encoding="utf-8")
    code = re.sub(r'""".*?"""', "", source, flags=re.DOTALL)
    words = set(re.findall(r"\w+", " ".join(re.findall(r'"([^"]*)"', code))))
    assert words & set(methods()) == {methods()[0]}
    defaults = {field.name: field.default for field in fields(Settings)}
    assert defaults["method"] == methods()[0]


PLUGIN = """
from dataclasses import dataclass, replace
import icgd
from icgd.mechanisms.stacks.compile_backward import StackBuilder, stack_options, stack_program
from icgd.mechanisms.stacks.compile_backward import choose as usual
from icgd.mechanisms.stacks.constructions import BACKWARD_STACK


@dataclass(frozen=True)
class HalfGD:
    lr: float
    box: float | None = None


def choose(problem, optimizer, options, dtype):
    blueprint = usual(problem, icgd.GD(optimizer.lr / 2), icgd.BackwardStackOptions(), dtype)
    return replace(blueprint, construction=HALF)


HALF = icgd.register(
    replace(
        BACKWARD_STACK,
        name="half_stack",
        method="half",
        optimizer=(HalfGD, icgd.GD),
        options=None,
        choose=choose,
        settings=("activation",),
        label="half a step",
        summary="steps of half the length",
    )
)
"""


@pytest.fixture
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options that load a method from outside, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("half_stack.py").write_text(PLUGIN)
    before = set(registered())
    yield ["--plugin", "half_stack.py"]
    for name in set(registered()) - before:
        unregister(name)
    for name in ("half_stack", "bad_build"):
        sys.modules.pop(name, None)


def test_a_method_from_outside_runs(half, icgd_command, table_csv) -> None:
    run = ["run", table_csv, "--target", "y", "--widths", "3", "--steps", "5", "--method", "half"]
    done = icgd_command(*half, *run, "--activation", "tanh", "--lr", "0.2", "--out", "out")
    assert done.exit_code == 0, done.output
    result = json.loads(Path("out/result.json").read_text())
    assert (result["method"], result["passed"]) == ("half", True)
    assert result["config"]["optimizer"] == {"name": "GD", "lr": 0.1, "box": None}
    assert Path("out/report.html").is_file()
    plain = icgd_command(*run[:-1], "stack", "--activation", "tanh", "--lr", "0.1", "--out", "own")
    assert plain.exit_code == 0, plain.output
    own = json.loads(Path("own/result.json").read_text())
    assert result["loss_after"] == own["loss_after"]
    compared = icgd_command(*half, "report", "out", "own", "--out", "both.html")
    assert compared.exit_code == 0, compared.output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--method", "half", "--n-relu", "9"), "`--n-relu` must be left out with --method half"),
        (("--method", "half", "--epochs", "9"), "`--epochs` must be left out with --method half"),
        (("--method", "third"), "be one of cot, stack, forward_mode, half"),
        (("--method", "half", "--executor", "sideways"), "`--executor` must be one of"),
    ],
)
def test_a_method_from_outside_is_asked_what_it_takes(
    half, icgd_command, table_csv, options, sentence
) -> None:
    done = icgd_command(*half, "run", table_csv, "--target", "y", *options)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_method_that_trains_no_networks_says_so(icgd_command, table_csv, half) -> None:
    icgd.register(
        icgd.Construction(
            name="loop",
            method="loop",
            problem=icgd.LinearRegression,
            optimizer=icgd.GD,
            build=print,
        )
    )
    done = icgd_command("run", table_csv, "--target", "y", "--method", "loop")
    assert done.exit_code == 2
    assert (
        "`--method` must be one of cot, stack, forward_mode for Network. Got 'loop'" in done.stderr
    )


@pytest.mark.parametrize(
    ("build", "wanted"),
    [("lambda blueprint: 7", "Got int"), ("lambda blueprint: 1 / 0", "ZeroDivisionError")],
)
def test_a_method_whose_build_is_faulty_is_one_line(
    half, icgd_command, table_csv, build, wanted
) -> None:
    Path("bad_build.py").write_text(
        PLUGIN.replace("choose=choose,", f"choose=choose, build={build},").replace("half", "bad")
    )
    done = icgd_command(
        "--plugin", "bad_build.py", "run", table_csv, "--target", "y", "--method", "bad"
    )
    assert done.exit_code == 2, done.output
    assert "`build` of the construction 'bad_stack'" in done.stderr
    assert wanted in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("model", ["network", "ridge", "linear"])
def test_counts_beyond_any_memory_are_refused_before_anything_is_loaded(model: str) -> None:
    rounds = "epochs" if model == "network" else "steps"
    with pytest.raises(InvalidParameter, match=rf"`--{rounds}` must be an integer <= 2\^62"):
        Settings(Path("out"), example="diabetes", model=model, **{rounds: 10**20}).check()
