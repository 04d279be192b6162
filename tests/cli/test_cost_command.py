"""`icgd cost`: a table, numbers in a file, a figure, and one line for bad input."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

import icgd
from icgd.cli.cost_command import counted_methods, shown
from icgd.costs import MethodCost
from icgd.costs.account import known_methods
from icgd.costs.method_cost import LeftOut

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def test_table_file_and_figure(tmp_path, icgd_command):
    numbers, figure = tmp_path / "cost.json", tmp_path / "cost.png"
    said = icgd_command(
        "cost",
        "--widths",
        "3,4,4,2",
        "--error",
        "1e-3",
        "--activation",
        "tanh",
        "--json",
        numbers,
        "--plot",
        figure,
    )
    assert said.exit_code == 0, said.output
    for words in ("layers of a step", "scanning the prompt", "linear in D", "ReLU network"):
        assert words in said.stdout
    found = json.loads(numbers.read_text())
    assert list(found) == list(counted_methods()) == list(known_methods())
    net = icgd.Network((3, 4, 4, 2), "tanh")
    for method, values in found.items():
        cost = icgd.cost(net, method, error=1e-3)
        assert values == json.loads(json.dumps(cost.to_dict()))
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cost.json", "cost.png"]


def test_what_is_not_reached_is_said(tmp_path, icgd_command):
    numbers = tmp_path / "cost.json"
    said = icgd_command(
        "cost",
        "--widths",
        "3,4,2",
        "--methods",
        "stack",
        "--error",
        "1e-12",
        "--activation",
        "tanh",
        "--json",
        numbers,
        "--plot",
        tmp_path / "cost.png",
    )
    assert said.exit_code == 0, said.output
    assert "not reached" in said.stdout
    assert "out of reach" in said.stdout
    found = json.loads(numbers.read_text())["stack"]
    assert found["parameters"] is None
    assert found["flops_per_pass"]["dense"] is None


def test_options_reach_the_methods_they_are_for(tmp_path, icgd_command):
    numbers = tmp_path / "cost.json"
    said = icgd_command(
        "cost",
        "--widths",
        "3,4,2",
        "--activation",
        "sigmoid",
        "--n-relu",
        "30",
        "--attention",
        "sigmoid",
        "--no-bias",
        "--steps",
        "3",
        "--examples",
        "7",
        "--json",
        numbers,
    )
    assert said.exit_code == 0, said.output
    found = json.loads(numbers.read_text())
    assert found["stack"]["sizes"]["value"] == 30
    assert found["forward_mode"]["sizes"]["value"] == 1
    assert found["sgd"]["parameters"] == 20
    assert (found["cot"]["steps"], found["cot"]["n_examples"]) == (3, 7)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--widths", "3,x"], ["--widths", "'3,x'", "10,16,16,1"]),
        (["--widths", "3"], ["--widths"]),
        (["--widths", "3,0,1"], ["--widths"]),
        (["--methods", "cot,magic"], ["--methods", "'magic'", "forward_mode"]),
        (["--methods", "cot,cot"], ["--methods", "once"]),
        (["--activation", "sine"], ["--activation", "'sine'"]),
        (["--output", "tanh"], ["--output", "'tanh'"]),
        (["--steps", "0"], ["--steps", "Got 0"]),
        (["--examples", "0"], ["--examples", "Got 0"]),
        (["--error", "-1"], ["--error", "Got -1.0"]),
        (["--error", "nan"], ["--error", "nan"]),
        (["--error", "1e-3", "--n-relu", "9"], ["--n-relu", "--error"]),
        (["--n-relu", "1"], ["--n-relu", "Got 1"]),
        (["--activation", "tanh", "--attention", "cosine"], ["--attention", "'cosine'"]),
        (["--attention", "tanh"], ["corner", "relu"]),
        (["--json", "no/deep/c.json"], ["--json", "no/deep"]),
        (["--plot", "."], ["--plot", "directory"]),
    ],
)
def test_bad_requests(tmp_path, monkeypatch, icgd_command, arguments, words):
    monkeypatch.chdir(tmp_path)
    said = icgd_command("cost", "--widths", "3,4,2", *arguments)
    assert said.exit_code == 2, said.output
    (line,) = said.stderr.splitlines()
    assert line.startswith("icgd: error: ")
    for word in words:
        assert word in line
    assert not list(tmp_path.iterdir())


def test_every_option_and_key_is_in_the_manual(icgd_command):
    manual = MANUAL.read_text(encoding="utf-8")
    told = manual[manual.index("## icgd cost") :]
    told = told[: told.index("\n## ", 3)]
    for option in set(re.findall(r"--[a-z][a-z-]+", icgd_command("cost", "--help").output)):
        assert option in told or option == "--help", option
    for kind in (MethodCost, LeftOut):
        for field in dataclasses.fields(kind):
            assert f"`{field.name}`" in told, field.name


def test_numbers_for_a_table():
    assert shown(0) == "0"
    assert shown(0.5) == "0.5"
    assert shown(1e-6) == "1.00e-06"
