"""docs/theorem_map.md is what the docstrings say, and every docstring says what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def maker(tool):
    return tool("generate_docs")


@pytest.fixture(scope="module")
def entries(maker):
    return maker.statements()


def test_the_map_is_current(maker):
    on_disk = (ROOT / "docs" / "theorem_map.md").read_text(encoding="utf-8")
    assert on_disk == maker.theorem_map(), (
        "docs/theorem_map.md is stale: run `python -m tools.generate_docs --map`"
    )


def test_there_are_statements(entries):
    named = {entry.statement for entry in entries}
    assert {"[COT] Lemma A.5", "[COT] Proposition 4.3", "[COT] Definition 4.4"} <= named


def test_every_statement_says_what_differs(maker, entries):
    assert len(entries) > 380
    silent = [e for e in entries if maker.DIFFERS not in " ".join(e.docstring.split())]
    assert not [f"{e.module}.{e.name}: {e.statement}" for e in silent]


def test_sorting_and_naming(maker):
    texts = ["[COT] Theorem 4.10", "[COT] Lemma A.5", "[COT] Theorem 4.9"]
    assert sorted(texts, key=maker._natural) == [texts[1], texts[2], texts[0]]
    home = "icgd.transformer.gadgets.heads.spectral_theory"
    entry = maker.Entry("[COT] X", home, "head_error", "")
    sources = {
        "a": f"from {home} import head_error",
        "b": f"from {home} import make_geometry",
        "c": "head_error = 1",
        "d": "icgd.head_error(1)",
        "e": "from icgd.transformer.gadgets.heads import spectral_theory, head_error",
        "f": f"import {home}.more as head_error",
        "g": f"import {home}_more as head_error",
    }
    tests = {name: maker.names_in(text) for name, text in sources.items()}
    assert maker.tests_naming(entry, tests) == ["a", "d", "e", "f"]
    private = maker.Entry("[COT] X", home, "_head_error", "")
    assert maker.tests_naming(private, tests) == ["a", "b", "e", "f"]
