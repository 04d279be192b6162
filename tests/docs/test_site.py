"""The site builds without a warning, its links lead somewhere, it asks nobody, and it lacks no name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import icgd

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytest.importorskip("mkdocstrings")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built with warnings as errors and without a network."""
    where = tmp_path_factory.mktemp("site")
    nowhere = "http://127.0.0.1:9"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(where)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "NO_MKDOCS_2_WARNING": "1",
            "http_proxy": nowhere,
            "https_proxy": nowhere,
        },
    )
    assert built.returncode == 0, built.stderr[-3000:]
    return where


def test_the_site_is_whole(site, tool):
    """One test, so that the site is built once however many workers there are."""
    checker = tool("check_docs")
    assert list(checker.problems(site)) == []
    every_public_name_is_in_the_reference(site, checker)
    formulas_are_drawn_without_a_script(site)
    search_works_without_a_server(site)
    both_palettes_and_no_fonts(site)
    lists_and_tables_are_not_run_together(site)


def every_public_name_is_in_the_reference(site, checker):
    anchors = set().union(*(checker.read(p).anchors for p in (site / "api").glob("*.html")))
    for name in set(icgd.__all__) - {"__version__"}:
        made = getattr(icgd, name)
        assert anchors & {f"icgd.{name}", f"{made.__module__}.{made.__qualname__}"}, name


def formulas_are_drawn_without_a_script(site):
    page = (site / "spectral_head.html").read_text(encoding="utf-8")
    assert page.count("<math") > 100
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "arithmatex" not in text, path.name
        assert not re.search(r"<merror|\\(?:frac|operatorname|left)\b", text), path.name


def search_works_without_a_server(site):
    assert (site / "search" / "search_index.js").is_file()
    assert "iframe-worker-shim.js" in (site / "index.html").read_text(encoding="utf-8")


def both_palettes_and_no_fonts(site):
    page = (site / "index.html").read_text(encoding="utf-8")
    assert 'data-md-color-scheme="slate"' in page
    assert 'data-md-color-scheme="default"' in page
    assert not [p for p in site.rglob("*") if p.suffix in (".woff", ".woff2", ".ttf", ".map")]


def lists_and_tables_are_not_run_together(site):
    """Python-Markdown wants an empty line before a list or table, which other readers do not."""
    hidden = re.compile(r"<(pre|code|script|style)\b.*?</\1>", flags=re.DOTALL)
    for path in site.rglob("*.html"):
        prose = hidden.sub("", path.read_text(encoding="utf-8"))
        for text in re.findall(r"<p>(.*?)</p>", prose, flags=re.DOTALL):
            assert not re.search(r"\n(?:- |\| |\d+\. |```)", text), f"{path.name}: {text[:200]}"


def nav_pages():
    """Markdown files named in mkdocs.yml."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return re.findall(r"[\w/-]+\.md\b", text[text.index("\nnav:") :])


def test_every_page_is_in_nav_once():
    pages = nav_pages()
    assert len(pages) == len(set(pages))
    assert set(pages) == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_every_public_name_has_a_docstring():
    for name in set(icgd.__all__) - {"__version__"}:
        made = getattr(icgd, name)
        assert (made.__doc__ or "").strip(), name
        for member, value in vars(made).items() if isinstance(made, type) else ():
            if callable(value) and not member.startswith("_"):
                assert (value.__doc__ or "").strip(), f"{name}.{member}"


class TestChecker:
    """The checker finds what it is for."""

    PAGE = '<html><body><h1 id="top">x</h1>{}</body></html>'

    @pytest.mark.parametrize(
        ("body", "complaint"),
        [
            ('<a href="missing.html">x</a>', "does not exist"),
            ('<a href="#nowhere">x</a>', "no such anchor"),
            ('<a href="b.html#nowhere">x</a>', "no such anchor"),
            ('<img src="https://example.org/x.png">', "another host"),
            ('<script src="//example.org/x.js"></script>', "another host"),
            ('<link rel="stylesheet" href="https://example.org/x.css">', "another host"),
            ('<div style="background: url(https://example.org/x.png)"></div>', "another host"),
            ("<style>@import 'https://example.org/x.css';</style>", "another host"),
            ('<img src="missing.png">', "does not exist"),
        ],
    )
    def test_a_fault_is_found(self, body, complaint, tool, tmp_path):
        (tmp_path / "a.html").write_text(self.PAGE.format(body))
        (tmp_path / "b.html").write_text(self.PAGE.format('<a href="a.html#top">x</a>'))
        (found,) = tool("check_docs").problems(tmp_path)
        assert complaint in found

    def test_styles_and_scripts_are_read(self, tool, tmp_path):
        (tmp_path / "a.html").write_text(self.PAGE.format(""))
        (tmp_path / "a.css").write_text("a { background: url('https://example.org/x') }")
        (tmp_path / "a.js").write_text(
            "fetch('https://example.org/x'); x = 'http://www.w3.org/2000/svg'"
        )
        assert len(list(tool("check_docs").problems(tmp_path))) == 2

    def test_links_to_other_sites_are_links(self, tool, tmp_path):
        (tmp_path / "a.html").write_text(self.PAGE.format('<a href="https://example.org">x</a>'))
        assert list(tool("check_docs").problems(tmp_path)) == []
