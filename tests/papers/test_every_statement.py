"""DEEP, BRIDGE, ALGO and LSA: no numbered statement lacks a row, and every row passes."""

from __future__ import annotations

import pytest

from icgd.papers.numbered_statements import without_row
from icgd.papers.theorem_table import checkers

PAPERS = ("DEEP", "BRIDGE", "ALGO", "LSA")


@pytest.mark.parametrize("paper", PAPERS)
def test_no_statement_is_missing(paper):
    assert without_row(paper, checkers(paper)) == []


@pytest.mark.parametrize(
    ("paper", "statement"),
    [(paper, statement) for paper in PAPERS for statement in checkers(paper)],
)
def test_every_row_passes(paper, statement, row_of):
    row = row_of(checkers(paper)[statement])
    assert row.passed, row
    assert row.statement == statement
    assert 0.0 <= row.measured <= row.bound
    assert "nan" not in row.counterexample
