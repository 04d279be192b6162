"""Statements behind a run are those of the code and the table; the command does the run again."""

from __future__ import annotations

import pytest
from tests.pages.report.sample_results import linear, network, statistics

from icgd.base.construction import constructions
from icgd.pages.report.again import again
from icgd.pages.report.statements import part_statements, statement_rows, table_checkers
from icgd.papers.theorem_table import PAPERS, checkers


def test_the_table_read_off_the_source_is_the_table():
    for paper in PAPERS:
        read = {key: name for key, _, name, _ in table_checkers(paper)}
        real = {k: f"{c.__module__}.{c.__name__}" for k, c in checkers(paper).items()}
        assert read == real


def test_every_part_of_every_construction_names_a_statement():
    parts = [part for known in constructions().values() for part in known.parts]
    assert len(parts) > 40
    assert not [part for part in parts if not part_statements(part)]


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        (network(), "[COT] Proposition 4.4"),
        (network("stack"), "[DEEP] Theorem 1, 2, 4"),
        (network("forward_mode"), "[BRIDGE] Theorem 2"),
        (statistics("lasso"), "[COT] Theorem 3.3"),
        (statistics("ridge"), "[COT] Theorem 3.2"),
        (statistics("logistic"), "[COT] Theorem 3.1"),
        (linear("newton"), "[ALGO] Theorem 4.1"),
        (linear("gd"), "[ALGO] Theorem 3.1"),
    ],
)
def test_the_theorem_of_each_construction_is_among_its_rows(result, wanted):
    rows = {row.statement: row for row in statement_rows(result)}
    assert rows[wanted].command == f"icgd verify --paper {wanted[1:].split(']')[0]}"
    assert len({row.statement.split("]")[0] for row in rows.values()}) == 1


def test_an_unknown_construction_has_no_rows_and_no_command():
    assert statement_rows({"config": {"construction": "other"}}) == []
    assert again({"config": {"data": "x.csv"}}) == ""


def test_a_command_quotes_what_a_shell_would_read():
    result = network()
    result["config"]["data"] = "my table; rm -rf.csv"
    assert "'my table; rm -rf.csv'" in again(result)
