"""The lists of numbered statements, and what of them the table covers."""

from __future__ import annotations

import pytest

import icgd
from icgd.papers.numbered_statements import NUMBERED, coverage, named, without_row
from icgd.papers.theorem_table import PAPERS, checkers

KINDS = {"COT": {"Definition": 10, "Lemma": 6, "Theorem": 5, "Proposition": 4, "Remark": 8}}
"""Counted in the text of the paper."""


def test_every_paper_has_a_list():
    assert set(NUMBERED) == set(PAPERS)
    for statements in NUMBERED.values():
        assert len(statements) == len(set(statements))


def test_numbered_statements_of_cot():
    statements = NUMBERED["COT"]
    assert len(statements) == 33
    for kind, number in KINDS["COT"].items():
        assert sum(s.startswith(f"{kind} ") for s in statements) == number


def test_statements_of_cot_without_a_row():
    missing = without_row("COT", checkers("COT"))
    assert missing == [
        *(f"Definition {n}" for n in ("2.1", "2.2", "2.3", "3.2", "4.1", "4.2", "A.1")),
        *(f"Remark {n}" for n in ("2.1", "2.2", "3.1", "3.2", "4.2", "A.1")),
    ]
    assert coverage("COT", checkers("COT")).startswith("20 of 33 numbered statements of COT ")


@pytest.mark.parametrize(
    ("title", "statements"),
    [
        ("Theorem 3.1", {"Theorem 3.1"}),
        ("Remark 4.1, O(N) saving", {"Remark 4.1"}),
        ("Lemma 2, 9 (products)", {"Lemma 2", "Lemma 9"}),
        ("Lemma A.5", {"Lemma A.5"}),
        ("C.9, Steps 1 and 2", set()),
        ("C.3, last step", set()),
    ],
)
def test_a_title_names_statements(title, statements):
    assert named(title) == statements


def test_a_paper_without_a_list():
    with pytest.raises(icgd.InvalidParameter, match=r"`paper` must be one of .* Got 'XYZ'"):
        without_row("XYZ", [])


def test_full_coverage_is_one_sentence():
    assert coverage("LSA", NUMBERED["LSA"]) == "All 5 numbered statements of LSA have a row."
