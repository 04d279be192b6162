"""The README and the pages do what they say: the quickstart runs, links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from icgd.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def ran(code: str) -> tuple[str, dict[str, object]]:
    said = io.StringIO()
    scope: dict[str, object] = {}
    with contextlib.redirect_stdout(said):
        exec(compile(code, "README.md", "exec"), scope)
    return said.getvalue(), scope


def test_every_example_prints_what_the_readme_prints():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    examples, printed = fenced(readme, "python"), fenced(readme, "text")
    assert len(examples) == len(printed) >= 2
    scopes = []
    for code, expected in zip(examples, printed, strict=True):
        said, scope = ran(code)
        assert said == expected
        scopes.append(scope)
    assert scopes[0]["run"].cost.rounds == 160  # type: ignore[attr-defined]


def test_examples_are_short():
    for code in fenced((ROOT / "README.md").read_text(encoding="utf-8"), "python"):
        assert len([line for line in code.splitlines() if line.strip()]) <= 11


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_option_is_in_the_manual():
    manual = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for command in ("run", "verify", "compile"):
        said = CliRunner().invoke(app, [command, "--help"], terminal_width=200)
        for option in set(re.findall(r"--[a-z][a-z-]+", said.output)) - {"--help"}:
            assert option in manual, option


def test_every_key_of_a_result_is_in_the_manual():
    from icgd.cli.run import network as run_command

    manual = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    source = Path(run_command.__file__).read_text(encoding="utf-8")
    measured = source[source.index("def _measured") : source.index("def r_squared")]
    for key in re.findall(r'^        "([a-z0-9_]+)":', measured, flags=re.MULTILINE):
        assert key == "format" or f"`{key}`" in manual, key
