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


def test_counts_of_statements_are_current():
    """The table of papers.md has a row per paper with as many statements as are checked."""
    from icgd.verification.theorem_table import PAPERS, checkers

    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[([A-Z]+)\]\(#\w+\) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", text, flags=re.MULTILINE
    )
    assert {key for key, *_ in rows} == set(PAPERS)
    for key, statements, holds, fails, passed in rows:
        assert int(statements) == len(checkers(key)) == int(holds) + int(fails) == int(passed)


@pytest.mark.slow
def test_verdicts_are_current():
    from icgd.verification.theorem_table import theorem_table

    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[([A-Z]+)\]\(#\w+\) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", text, flags=re.MULTILINE
    )
    for key, statements, holds, fails, passed in rows:
        table = theorem_table(key)
        verdicts = [row.printed_verdict for row in table]
        counted = (
            len(table),
            verdicts.count("holds"),
            verdicts.count("fails"),
            sum(r.passed for r in table),
        )
        assert counted == tuple(map(int, (statements, holds, fails, passed))), key
