"""Tutorials run, and their pages show what they print."""

from __future__ import annotations

from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("[0-9][0-9]_*.py"))


def test_there_are_tutorials(tool):
    assert len(TUTORIALS) >= 5
    assert tool("docs_tutorials").sources() == TUTORIALS


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_the_page_is_what_the_tutorial_prints(path, tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    maker = tool("docs_tutorials")
    drawn: list[str] = []
    made = maker.page(path, maker.run(path, lambda name, figure: drawn.append(name)))
    on_disk = path.with_suffix(".md").read_text(encoding="utf-8")
    wrong = list(maker.differences(on_disk, made))
    assert not wrong, f"run `python -m tools.docs_tutorials {path.stem[:2]}`: {wrong[:3]}"
    for name in drawn:
        assert (DOCS / "figures" / "tutorials" / name).is_file()


def test_cells_are_read(tool):
    maker = tool("docs_tutorials")
    text = "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1\n\n# %%\nprint(x)\n"
    found = maker.cells(text)
    assert [(c.is_text, c.source) for c in found] == [
        (True, "# Title\n\nText."),
        (False, "x = 1"),
        (False, "print(x)"),
    ]


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        ("error 3e-15, bound 2", "error 9e-16, bound 2", True),
        ("0.25", "0.2500001", True),
        ("0.25", "0.26", False),
        ("3e-15", "3e-5", False),
        ("True", "False", False),
        ("a\nb", "a", False),
    ],
)
def test_rounding_is_no_difference(before, now, same, tool):
    assert (not list(tool("docs_tutorials").differences(before, now))) is same
