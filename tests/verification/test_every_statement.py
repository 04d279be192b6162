"""DEEP, BRIDGE, ALGO and LSA: no numbered statement lacks a row, and every row passes."""

from __future__ import annotations

import re

import pytest

from icgd.verification.theorem_table import checkers

NUMBERED = {
    "DEEP": {
        "Problem": range(1, 4), "Definition": range(1, 14), "Remark": range(1, 4),
        "Lemma": range(1, 20), "Theorem": range(1, 7),
    },
    "BRIDGE": {
        "Definition": range(1, 5), "Assumption": range(1, 3), "Theorem": range(1, 5),
        "Remark": range(1, 3), "Lemma": range(1, 6),
    },
    "ALGO": {},
    "LSA": {},
}  # fmt: skip
ALSO = {
    "DEEP": {"Corollary 1.1", "Corollary 4.1"},
    "BRIDGE": set[str](),
    "ALGO": {
        *(f"Lemma A.{n}" for n in range(1, 6)),
        *(f"Theorem {n}" for n in ("3.1", "3.2", "3.3", "4.1", "4.2")),
    },
    "LSA": {"Theorem 3.1", "Theorem 3.2", "Corollary 3.1", "Theorem 4.1", "Theorem 4.2"},
}


def named(statement: str) -> set[str]:
    """The statements a row's title stands for: "Lemma 2, 9" is two of them."""
    found, kind = set(), ""
    for part in re.split(r",\s*|\s*\(", statement):
        match = re.fullmatch(r"(?:([A-Z][a-z]+) )?((?:[A-Z]\.)?\d+(?:\.\d+)?)", part)
        if match:
            kind = match.group(1) or kind
            found.add(f"{kind} {match.group(2)}")
    return found


@pytest.mark.parametrize("paper", NUMBERED)
def test_no_statement_is_missing(paper):
    have = set().union(*(named(statement) for statement in checkers(paper)))
    want = {f"{kind} {n}" for kind, numbers in NUMBERED[paper].items() for n in numbers}
    assert (want | ALSO[paper]) - have == set()


@pytest.mark.parametrize(
    ("paper", "statement"),
    [(paper, statement) for paper in NUMBERED for statement in checkers(paper)],
)
def test_every_row_passes(paper, statement):
    row = checkers(paper)[statement]()
    assert row.passed, row
    assert row.statement == statement
    assert 0.0 <= row.measured <= row.bound
    assert "nan" not in row.counterexample
