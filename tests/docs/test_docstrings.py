"""Docstrings of this package become the Markdown they look like."""

from __future__ import annotations

import pytest

pytest.importorskip("griffe")


@pytest.fixture(scope="module")
def as_markdown(tool):
    return tool("docs_docstrings").as_markdown


def test_columns_become_a_list(as_markdown):
    text = "One line.\n\nname, other  what it is\n             and more of it\nlast         x <= 2"
    assert (
        as_markdown(text)
        == "One line.\n\n- `name`, `other`: what it is and more of it\n- `last`: x &lt;= 2"
    )


def test_doctests_and_formulas_become_code(as_markdown):
    assert as_markdown("Text.\n\n>>> 1 + 1\n2") == "Text.\n\n```pycon\n>>> 1 + 1\n2\n```"
    assert as_markdown("With q:\n    a = b") == "With q:\n\n        a = b"


def test_labels_stand_out_and_brackets_are_text(as_markdown):
    text = "Statement: [COT] Theorem 4.1\nStatement: [DEEP] Lemma 2"
    assert as_markdown(text) == (
        "*Statement:* \\[COT\\] Theorem 4.1\n\n*Statement:* \\[DEEP\\] Lemma 2"
    )
    assert as_markdown("a `[b]` *c*") == "a `[b]` \\*c\\*"
