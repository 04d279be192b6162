"""The last line of a command: usage errors in one line, messages in words of the command line."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from icgd.cli.guard import OneLineGroup, in_options, with_remedy_for_hard_heads
from icgd.errors import OutOfRange

OPTIONS = {"n_grid": "--n-grid", "radius": "--radius", "lr": "--lr", "executor": "--executor"}


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer(
        name="tool",
        cls=OneLineGroup,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )

    @made.command()
    def run(lr: float = 0.1, epochs: int = 1) -> None:
        typer.echo(f"lr {lr}, epochs {epochs}")

    @made.command()
    def other() -> None:
        pass

    return made


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--lr", "abc"], ["'--lr'", "'abc'", "run --help"]),
        (["run", "--epochs", "1.5"], ["'--epochs'", "'1.5'"]),
        (["run", "--foo"], ["--foo"]),
        (["run", "--lr"], ["--lr"]),
        (["run", "extra"], ["extra"]),
        (["foo"], ["'foo'"]),
        (["--bogus"], ["--bogus"]),
    ],
)
def test_usage_errors_are_one_line(app, arguments, words):
    said = CliRunner().invoke(app, arguments)
    assert said.exit_code == 2
    assert said.stdout == ""
    (line,) = said.stderr.splitlines()
    assert line.startswith("icgd: error: ")
    for word in words:
        assert word in line


def test_help_and_good_commands_are_left_alone(app):
    assert "Usage" in CliRunner().invoke(app, []).output
    assert CliRunner().invoke(app, ["run", "--help"]).exit_code == 0
    said = CliRunner().invoke(app, ["run", "--lr", "0.5"])
    assert (said.exit_code, said.stdout) == (0, "lr 0.5, epochs 1\n")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("`n_grid` must be > 2.", "`--n-grid` must be > 2."),
        ("Use n_grid=40, rho=1.4.", "Use --n-grid 40, rho=1.4."),
        ("Use executor='structured', which", "Use --executor structured, which"),
        (
            "Recompile with radius >= 8, or lower lr.",
            "Run again with --radius >= 8, or lower --lr.",
        ),
        ("Net(lr=0.1) of a certain radius.", "Net(lr=0.1) of a certain radius."),
        ("`X` holds 9.", "A feature holds 9."),
    ],
)
def test_messages_speak_of_options(text, wanted):
    assert in_options(text, OPTIONS) == wanted


def test_python_names_stay_where_there_is_no_option():
    text = "Recompile with radius >= 8."
    assert in_options(text, {"executor": "--executor"}) == text


RANGE = OutOfRange("Head h met |s| = 9", 9.0, 1024.0, "radius", "Recompile with radius >= 99.")


def test_a_coarse_hard_head_is_not_cured_by_a_larger_radius():
    said = str(with_remedy_for_hard_heads(RANGE, {"temperature": "hard", "n_grid": None}))
    assert said.startswith("Head h met |s| = 9, outside its certified range [-1024, 1024]. ")
    assert "= 32" in said
    assert "smaller radius" in said
    assert "99" not in said


@pytest.mark.parametrize(
    "values", [{"temperature": "spectral"}, {"temperature": "hard", "n_grid": 4096}, {}]
)
def test_other_heads_keep_their_remedy(values):
    assert with_remedy_for_hard_heads(RANGE, values) is RANGE
