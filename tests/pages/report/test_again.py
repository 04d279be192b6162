"""The command in a report is the command that was run: parsed, it gives the same settings."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from icgd.cli import app
from icgd.cli.run.settings import Settings
from icgd.pages.report.again import again

HERE = Path("runs/latest")
EXAMPLE = Settings(HERE, example="diabetes")
CASES = {
    "plain": EXAMPLE,
    "seed": replace(EXAMPLE, seed=17, epochs=2, lr=0.003, widths="8,4", bias=False),
    "stack": replace(
        EXAMPLE, method="stack", activation="tanh", steps=7, box=2.5, n_relu=99, radius=6.0
    ),
    "forward": replace(
        EXAMPLE,
        method="forward_mode",
        activation="gelu",
        attention="relu",
        signal_radius=4.0,
        steps=3,
    ),
    "lasso": replace(EXAMPLE, model="lasso", lam=0.25, steps=11, standardize=False),
    "logistic": replace(EXAMPLE, example="breast_cancer", model="logistic", target=("benign",)),
    "linear": replace(EXAMPLE, model="linear", optimizer="newton", steps=5, dtype="float32"),
    "grid": replace(
        EXAMPLE, temperature="hard", n_grid=256, rho=1.25, radius=16.0, executor="dense"
    ),
    "traced": replace(EXAMPLE, trace=True, trace_budget=3.5),
    "names": Settings(
        HERE, data=Path('a table\'s $x; "y".csv'), target=("a b", "c,d", "--e"), output="relu"
    ),
}


def parsed(command, monkeypatch):
    """The settings the command line makes of a command, before anything is run."""
    seen = []

    def note(self):
        seen.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Settings, "check", note)
    words = shlex.split(command)
    assert words[:2] == ["icgd", "run"]
    CliRunner().invoke(app, words[1:])
    (settings,) = seen
    return settings


@pytest.mark.parametrize("case", CASES)
def test_parsing_the_command_gives_the_same_settings(case, monkeypatch):
    settings = CASES[case]
    command = again({"command": settings.command(), "config": {}})
    assert parsed(command, monkeypatch) == settings


def test_every_setting_is_an_option_of_the_command():
    """None can be added to Settings and be forgotten in the command."""
    for field in Settings.__dataclass_fields__.values():
        if field.name in ("out", "data"):
            continue
        other = {bool: not field.default, tuple: ("t",)}.get(type(field.default), "changed")
        assert len(replace(EXAMPLE, **{field.name: other}).command()) > 2
        assert replace(EXAMPLE, **{field.name: other}).command() != EXAMPLE.command()
