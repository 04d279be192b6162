"""Docstrings of this package become the reStructuredText they look like."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def as_rst(tool):
    return tool("docs_docstrings").as_rst


def test_columns_become_a_list(as_rst):
    text = "One line.\n\nname, other  what it is\n             and more of it\nlast         x <= 2"
    assert as_rst(text) == (
        "One line.\n\n- ``name``, ``other``: what it is and more of it\n\n- ``last``: x <= 2"
    )


def test_doctests_and_formulas_become_code(as_rst):
    assert as_rst("Text.\n\n>>> 1 + 1\n2") == (
        "Text.\n\n.. code-block:: pycon\n\n    >>> 1 + 1\n    2"
    )
    assert as_rst("With q:\n    a = b") == "With q:\n\n.. code-block:: text\n\n        a = b"


def test_labels_stand_out_and_letters_are_no_markup(as_rst):
    text = "Statement: [COT] Theorem 4.1\nStatement: [DEEP] Lemma 2"
    assert as_rst(text) == "*Statement:* [COT] Theorem 4.1\n\n*Statement:* [DEEP] Lemma 2"
    assert as_rst("a `[b]` *c* |w|_1") == "a \\ ``[b]``\\  \\*c\\* \\|w\\|\\_1"


def test_items_keep_their_second_lines(as_rst):
    assert as_rst("- one\n  two\n- three") == "- one two\n\n- three"


def test_dollars_are_formulas(as_rst):
    assert as_rst("so $x_1$") == "so \\ :math:`x_1`"
