"""The tutorial does what it says: its blocks run in order and print what the page prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial_statistics.md"
PAIR = re.compile(
    r"^```python\n(?P<code>.*?)^```\n+```text\n(?P<printed>.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)


def test_every_block_prints_what_the_page_prints(tmp_path, monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    pairs = list(PAIR.finditer(text))
    assert len(pairs) == text.count("```python") == 5
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for pair in pairs:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(pair["code"], PAGE.name, "exec"), scope)
        assert said.getvalue() == pair["printed"], pair["code"]
