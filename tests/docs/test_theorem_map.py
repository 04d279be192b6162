"""docs/theorem_map.md is what the docstrings say, and every docstring says what differs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def generator():
    """tools/generate_docs.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location(
        "generate_docs", ROOT / "tools" / "generate_docs.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = generator()
ENTRIES = TOOL.statements()


def test_the_map_is_current():
    on_disk = (ROOT / "docs" / "theorem_map.md").read_text(encoding="utf-8")
    assert on_disk == TOOL.theorem_map(), (
        "docs/theorem_map.md is stale: run `python -m tools.generate_docs --map`"
    )


def test_there_are_statements():
    named = {entry.statement for entry in ENTRIES}
    assert {"[COT] Lemma A.5", "[COT] Proposition 4.3", "[COT] Definition 4.4"} <= named


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"{e.module}.{e.name}:{e.statement}")
def test_every_statement_says_what_differs(entry):
    assert TOOL.DIFFERS in " ".join(entry.docstring.split())


def test_sorting_and_naming():
    texts = ["[COT] Theorem 4.10", "[COT] Lemma A.5", "[COT] Theorem 4.9"]
    assert sorted(texts, key=TOOL._natural) == [texts[1], texts[2], texts[0]]
    entry = TOOL.Entry(
        "[COT] X", "icgd.transformer.gadgets.heads.spectral_theory", "head_error", ""
    )
    sources = {
        "a": "from icgd.transformer.gadgets.heads.spectral_theory import head_error",
        "b": "from icgd.transformer.gadgets.heads.spectral_theory import make_geometry",
        "c": "head_error = 1",
    }
    assert TOOL.tests_naming(entry, sources) == ["a"]
