"""Code on the pages runs and prints what the page prints."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
RUN = (
    "index.md",
    "quickstart.md",
    "tour.md",
    "architecture.md",
    "extend.md",
    "laboratory.md",
    "machine.md",
    "spectral_head.md",
    "trace_format.md",
)
FENCE = re.compile(r"^```(python|text)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", RUN)
def test_every_block_prints_what_the_page_prints(name, tmp_path, monkeypatch):
    blocks = FENCE.findall((DOCS / name).read_text(encoding="utf-8"))
    assert any(kind == "python" for kind, _ in blocks)
    monkeypatch.chdir(tmp_path)
    # A dataclass looks its module up.
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    scope = vars(module)
    said = None
    for kind, text in blocks:
        if kind == "python":
            assert not said, "printed, and the page does not show it"
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(text, name, "exec"), scope)
            said = stream.getvalue()
        else:
            assert said == text
            said = None
    assert not said


def declared(paper):
    """The tally that the checkers of a paper declare, without running them."""
    from declared_errata import declared_errata

    from icgd.papers.errata import strongest
    from icgd.papers.theorem_table import VERDICTS, Tally, checkers

    found = [strongest(declared_errata(checker)) or "holds" for checker in checkers(paper).values()]
    verdicts = {verdict: found.count(verdict) for verdict in VERDICTS}
    return Tally(len(found), verdicts, len(found))


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def test_table_shows_the_declared_verdicts(tool):
    tables = tool("generate_verdicts")
    shown = tables.recorded(page("papers.md"))
    assert set(shown) == set(tables.PAPERS)
    assert shown == {paper: declared(paper) for paper in shown}
    # The header belongs to the numbers.
    assert tables.table(shown) in page("papers.md")


def test_sums_and_gaps_follow_from_the_table(tool):
    tables = tool("generate_verdicts")
    shown = tables.recorded(page("papers.md"))
    for text in (page("index.md"), (DOCS.parent / "README.md").read_text(encoding="utf-8")):
        assert f"<!-- begin verdicts -->\n{tables.sentence(shown)}\n" in text
    assert f"<!-- begin coverage -->\n{tables.covered(shown)}\n" in page("papers.md")


def test_no_page_counts_failures_without_a_class():
    """ "20 of 22 fail" says nothing about what kind of failure it is."""
    pages = [DOCS.parent / "README.md", *DOCS.glob("*.md")]
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\d+ of \d+ (statements )?fail|fail as printed \|", text), path


def test_verdicts_are_written_whole(tool):
    """What the generator reads back is what it wrote; a paper that was not run keeps its line."""
    from icgd.papers.theorem_table import VERDICTS, Tally

    tables = tool("generate_verdicts")
    one = Tally(6, dict(zip(VERDICTS, (1, 2, 0, 3, 0), strict=True)), 6)
    other = Tally(2, dict(zip(VERDICTS, (2, 0, 0, 0, 0), strict=True)), 2)
    frame = "a\n<!-- begin verdicts -->\nformer text\n<!-- end verdicts -->\nb\n"
    text = tables.replaced(frame, "verdicts", tables.table({"COT": one, "LSA": other}))
    assert tables.recorded(text) == {"COT": one, "LSA": other}
    assert text.startswith("a\n<!-- begin")
    assert text.endswith("<!-- end verdicts -->\nb\n")
    assert "former" not in text
    assert "8 statements of COT and LSA: 3 holds, 2 false, 0 slip, 3 reading, 0 float" in (
        tables.sentence({"COT": one, "LSA": other})
    )
    with pytest.raises(Exception, match="`name` must be the name of a pair of markers"):
        tables.replaced("no markers", "verdicts", "")


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["COT", "DEEP", "BRIDGE", "ALGO", "LSA"])
def test_verdicts_are_current(paper, tool):
    from icgd.papers.theorem_table import tally, theorem_table

    assert tool("generate_verdicts").recorded(page("papers.md"))[paper] == tally(
        theorem_table(paper)
    )
