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


def test_the_new_construction_is_short():
    code = "".join(
        t for k, t in FENCE.findall((DOCS / "extend.md").read_text("utf-8")) if k == "python"
    )
    construction = code[: code.index("import torch\n")]
    assert len([line for line in construction.splitlines() if line.strip()]) <= 80


def test_the_new_construction_is_judged_where_it_could_fail(tool):
    """With another momentum, other data and several outputs; and the oracle does see a wrong momentum."""
    import torch

    blocks = [t for k, t in FENCE.findall((DOCS / "extend.md").read_text("utf-8")) if k == "python"]
    scope: dict[str, object] = {}
    for text in blocks[:2]:
        exec(compile(text, "extend.md", "exec"), scope)

    def distance(momentum, judged_by, seed):
        generator = torch.Generator().manual_seed(seed)
        X = torch.randn(9, 4, generator=generator, dtype=torch.float64)
        y = torch.randn(9, generator=generator, dtype=torch.float64)
        radius = 1.01 * float(X.norm(dim=1).max())
        program = scope["compile_heavy_ball"](4, 9, radius, lr=0.2, momentum=momentum)  # type: ignore[operator]
        history = program.run(X, y, steps=40, record="weights").history
        w = torch.zeros(4, dtype=torch.float64, requires_grad=True)
        exact = torch.optim.SGD([w], lr=0.2, momentum=judged_by)
        worst = 0.0
        for written in history:
            exact.zero_grad()
            (0.5 * (X @ w - y).square().mean()).backward()
            exact.step()
            worst = max(worst, float((written - w.detach()).abs().max()))
        return worst

    for seed, momentum in enumerate((0.0, 0.5, 0.9)):
        assert distance(momentum, momentum, seed) < 1e-12
    assert distance(0.5, 0.5 + 1e-6, 0) > 1e-8


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
