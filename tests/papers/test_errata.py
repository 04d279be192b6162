"""Pages of errata, register of classes and theorem table say the same, for every paper."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from declared_errata import declared_errata

import icgd
from icgd.papers.errata import CLASSES, ERRATA, Erratum, counts, erratum, strongest
from icgd.papers.theorem_table import PAPERS, checkers

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "COT": "errata.md",
    "DEEP": "errata_deep.md",
    "BRIDGE": "errata_bridge.md",
    "ALGO": "errata_algo.md",
    "LSA": "errata_lsa.md",
}
CLASS = re.compile(r"^- \*\*Class:\*\* (.+)$", re.MULTILINE)
papers = pytest.mark.parametrize("paper", PAGES)


def entries(paper: str) -> dict[str, str]:
    """Number and body of every entry of a page, notes left out; a number precedes the first ". "."""
    text = (ROOT / "docs" / PAGES[paper]).read_text(encoding="utf-8")
    text = re.split(r"^## Notes", text, flags=re.MULTILINE)[0]
    found = {}
    for section in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        number, dot, _ = title.partition(". ")
        if dot:
            assert number not in found, f"{paper} has two entries {number}"
            found[number] = re.split(r"^## ", body, flags=re.MULTILINE)[0]
    return found


def all_tests() -> set[str]:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for text in sources for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}


def rows_naming(paper: str) -> dict[str, tuple[str, ...]]:
    """Statements of the table and the entries they declare."""
    return {title: declared_errata(checker) for title, checker in checkers(paper).items()}


def test_every_paper_has_a_page_and_a_register():
    assert set(PAGES) == set(PAPERS) == set(ERRATA)


@papers
def test_page_and_register_agree(paper):
    page = {
        number: CLASS.findall(body)
        for number, body in entries(paper).items()
        if "**Class:**" in body
    }
    assert page == {number: [entry.kind] for number, entry in ERRATA[paper].items()}


@papers
def test_readings_have_a_test_of_the_other_reading(paper):
    tests, page = all_tests(), entries(paper)
    for number, entry in ERRATA[paper].items():
        lines = re.findall(r"^- \*\*Other reading:\*\* (.+(?:\n  .+)*)", page[number], re.MULTILINE)
        assert len(lines) == (entry.kind == "reading"), (paper, number)
        if entry.kind == "reading":
            assert entry.test in tests, f"{paper} {number} names a test that does not exist"
            assert f"`{entry.test}`" in lines[0], (paper, number)
            # A sentence comes before the name of the test.
            assert len(lines[0].replace(f"`{entry.test}`", "").split()) >= 4, (paper, number)


@papers
def test_every_entry_has_a_row_or_says_that_it_has_none(paper):
    named = {name for errata in rows_naming(paper).values() for name in errata}
    for number in ERRATA[paper]:
        none = "- **Row:** none" in entries(paper)[number]
        assert (f"{paper} {number}" in named) != none, (paper, number)


@papers
def test_rows_name_entries_of_the_register(paper):
    for title, errata in rows_naming(paper).items():
        for name in errata:
            assert erratum(name).kind in CLASSES, (title, name)
            assert name.startswith(f"{paper} "), (title, name)
        assert len(set(errata)) == len(errata), title


@papers
def test_no_entry_is_without_a_class(paper):
    """A page has entries with a class, or, where nothing is refuted, notes alone and says so."""
    if ERRATA[paper]:
        assert set(entries(paper)) == set(ERRATA[paper])
    else:
        assert "has no errata" in " ".join(
            (ROOT / "docs" / PAGES[paper]).read_text(encoding="utf-8").split()
        )


@papers
def test_page_shows_the_counts(paper):
    page = (ROOT / "docs" / PAGES[paper]).read_text(encoding="utf-8")
    found = re.search(r"<!-- begin counts -->\n(\d+) entries: (.+)\.\n<!-- end counts -->", page)
    assert found is not None, f"{PAGES[paper]} does not show its counts"
    assert int(found.group(1)) == len(ERRATA[paper])
    shown = [part.split(" ") for part in found.group(2).split(", ")]
    assert [(kind, int(n)) for n, kind in shown] == list(counts(paper).items())


@pytest.mark.parametrize("name", ["COT 24", "COT 0", "COT", "XYZ 1", "", "cot 1"])
def test_unknown_entries_raise(name):
    with pytest.raises(icgd.InvalidParameter, match=rf"Got '{name}'"):
        erratum(name)
    with pytest.raises(icgd.InvalidParameter, match="PAPER NUMBER"):
        strongest(["COT 1", name])


@pytest.mark.parametrize(
    ("kind", "test"), [("wrong", ""), ("reading", ""), ("false", "test_x"), ("slip", "test_x")]
)
def test_an_entry_that_owes_evidence_is_refused(kind, test):
    with pytest.raises(icgd.InvalidParameter, match=r"`(kind|test)` must"):
        Erratum(kind, test)


def test_strongest_first():
    assert CLASSES == ("false", "slip", "reading", "float")
    assert strongest([]) is None
    assert strongest(["COT 9", "COT 8"]) == "reading"
    assert strongest(["COT 9", "COT 8", "COT 1"]) == "slip"
    assert strongest(["COT 9", "COT 29", "COT 1"]) == "false"
