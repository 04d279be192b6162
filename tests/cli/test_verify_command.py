"""`icgd verify` and `icgd bench`: tables on the terminal, numbers in a file, exit codes."""

from __future__ import annotations

import json
import sys
import types
from dataclasses import dataclass

import pytest
import torch

import icgd


@dataclass(frozen=True)
class Row:
    statement: str
    passed: bool


def fake_table(*passed: bool) -> types.ModuleType:
    module = types.ModuleType("icgd.papers.theorem_table")
    rows = [Row(f"Theorem {i}", ok) for i, ok in enumerate(passed, 1)]
    names = {
        "PAPERS": {"COT": (), "LSA": ()},
        "theorem_table": lambda paper: rows if paper == "COT" else [Row("Theorem 4.2", True)],
        "labelled": lambda tables: [
            Row(f"[{paper}] {row.statement}", row.passed)
            for paper in tables
            for row in tables[paper]
        ],
        "render": lambda rows: "\n".join(row.statement for row in rows),
        "render_tallies": lambda tables: f"tallies of {', '.join(tables)}",
        "to_json": lambda rows: json.dumps([row.__dict__ for row in rows]),
    }
    vars(module).update(names)
    return module


@pytest.mark.parametrize(("passed", "code"), [((True, True), 0), ((True, False), 1)])
def test_exit_code_says_whether_every_row_held(tmp_path, monkeypatch, icgd_command, passed, code):
    monkeypatch.setitem(sys.modules, "icgd.papers.theorem_table", fake_table(*passed))
    file = tmp_path / "table.json"
    said = icgd_command("verify", "--paper", "cot", "--json", file)
    assert said.exit_code == code, said.output
    assert "Theorem 2" in said.stdout
    assert len(json.loads(file.read_text())) == 2
    assert [p.name for p in file.parent.iterdir()] == ["table.json"]
    assert "tallies of COT\n" in said.stdout
    assert "0 of 33 numbered statements of COT have a row; none: Definition 2.1" in said.stdout


def test_all_papers_end_in_a_tally_of_each(tmp_path, monkeypatch, icgd_command):
    monkeypatch.setitem(sys.modules, "icgd.papers.theorem_table", fake_table(True))
    file = tmp_path / "table.json"
    said = icgd_command("verify", "--paper", "all", "--json", file)
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith("[COT] Theorem 1\n[LSA] Theorem 4.2\ntallies of COT, LSA\n")
    assert "1 of 5 numbered statements of LSA have a row" in said.stdout
    assert [row["statement"] for row in json.loads(file.read_text())] == [
        "[COT] Theorem 1",
        "[LSA] Theorem 4.2",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["icgd verify --paper COT"]),
        (["--paper", "XYZ"], ["'XYZ'", "COT"]),
        (["--paper", "COT", "--program", "somewhere"], ["not both"]),
        (["--program", "somewhere"], ["DATA", "--program"]),
        (["--program", "somewhere", "TABLE", "--target", "y"], ["somewhere", "save_pretrained"]),
        (["--program", "somewhere", "TABLE", "--target", "y", "--executor", "x"], ["'x'"]),
        (["--paper", "COT", "--json", "."], ["--json", "directory"]),
        (["--paper", "COT", "--json", "no/deep/t.json"], ["--json", "no/deep", "mkdir"]),
    ],
)
def test_bad_requests(tmp_path, monkeypatch, table_csv, icgd_command, arguments, words):
    monkeypatch.chdir(tmp_path)
    said = icgd_command("verify", *[table_csv if a == "TABLE" else a for a in arguments])
    assert said.exit_code == 2, said.output
    (line,) = said.stderr.splitlines()
    assert line.startswith("icgd: error: ")
    for word in words:
        assert word in line
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    where = tmp_path_factory.mktemp("program")
    icgd.compile(icgd.Network((3, 4, 2)), icgd.SGD(lr=0.02)).save_pretrained(where)
    return where


def test_a_saved_program_on_a_table(tmp_path, saved, table_csv, icgd_command):
    file = tmp_path / "check.json"
    said = icgd_command("verify", "--program", saved, table_csv, "--target", "y,y2", "--json", file)
    assert said.exit_code == 0, said.output
    assert "passed" in said.stdout
    check = json.loads(file.read_text())
    assert check["passed"]
    assert check["max_round_error"] <= check["round_bound"]


def test_an_altered_program_is_caught(tmp_path, saved, table_csv, icgd_command):
    program = icgd.Program.from_pretrained(saved)
    with torch.no_grad():
        program.step.attention.banks["inputs"].output["weight_forward>z"].mul_(1.001)
    program.save_pretrained(tmp_path)
    said = icgd_command("verify", "--program", tmp_path, table_csv, "--target", "y,y2")
    assert said.exit_code == 1, said.output


def test_a_table_of_another_shape(saved, table_csv, icgd_command):
    said = icgd_command("verify", "--program", saved, table_csv, "--target", "y")
    assert said.exit_code == 2
    assert "4 features and 1 targets" in said.stderr
    assert "3 features and 2 targets" in said.stderr


def test_bench_hands_the_file_over(tmp_path, monkeypatch, icgd_command):
    called = []
    module = types.ModuleType("icgd.cli.benchmarks.cot")
    module.bench_cot = called.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "icgd.cli.benchmarks.cot", module)
    assert icgd_command("bench", "cot", "--json", tmp_path / "b.json").exit_code == 0
    assert icgd_command("bench", "cot").exit_code == 0
    assert called == [tmp_path / "b.json", None]
