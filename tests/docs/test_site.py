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
pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("furo")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built with warnings as errors and without a network."""
    where = tmp_path_factory.mktemp("site")
    caches = tmp_path_factory.mktemp("doctrees")
    nowhere = "http://127.0.0.1:9"
    options = ["-q", "-b", "html", "--fail-on-warning", "--keep-going", "-d", str(caches)]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, "docs", str(where)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "http_proxy": nowhere, "https_proxy": nowhere},
    )
    assert built.returncode == 0, built.stderr[-3000:]
    return where


def test_the_site_is_whole(site, tool):
    """One test, so that the site is built once however many workers there are."""
    checker = tool("check_docs")
    assert list(checker.problems(site)) == []
    every_formula_is_drawn(site, tool("docs_formulas"))
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


def every_formula_is_drawn(site, counter):
    counted = counter.counts(site, DOCS)
    assert list(counter.formula_problems(site, DOCS)) == []
    assert counted["spectral_head"][1] > 200
    assert sum(drawn for _, drawn in counted.values()) > 300


def formulas_are_drawn_without_a_script(site):
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<merror|\\(?:frac|operatorname|left)\b", text), path.name
        assert not re.search(r"<script[^>]*(?:mathjax|katex)", text, re.IGNORECASE), path.name


def search_works_without_a_server(site):
    """The index is a script, which a browser loads from a directory too."""
    assert (site / "searchindex.js").read_text(encoding="utf-8").startswith("Search.setIndex(")
    assert "searchindex.js" in (site / "search.html").read_text(encoding="utf-8")


def both_palettes_and_no_fonts(site):
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in page
    assert 'body[data-theme="dark"]' in page
    assert not [p for p in site.rglob("*") if p.suffix in (".woff", ".woff2", ".ttf")]


def lists_and_tables_are_not_run_together(site):
    """Some readers of Markdown want an empty line before a list or a table."""
    hidden = re.compile(r"<(pre|code|script|style)\b.*?</\1>", flags=re.DOTALL)
    for path in site.rglob("*.html"):
        prose = hidden.sub("", path.read_text(encoding="utf-8"))
        for text in re.findall(r"<p>(.*?)</p>", prose, flags=re.DOTALL):
            assert not re.search(r"\n(?:- |\| |1\. |```)", text), f"{path.name}: {text[:200]}"


def nav_pages():
    """Pages named in the trees of contents at the ends of the index pages."""
    for source in sorted(DOCS.rglob("index.md")):
        text = source.read_text(encoding="utf-8")
        for tree in re.findall(
            r"^```\{toctree\}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL
        ):
            for name in re.findall(r"<([\w/.-]+)>$", tree, flags=re.MULTILINE):
                page = source if name == "self" else (source.parent / f"{name}.md").resolve()
                yield page.relative_to(DOCS).as_posix()


def test_every_page_is_in_nav_once():
    pages = list(nav_pages())
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


class TestFormulas:
    """A formula that is lost, or invented, is found."""

    def site(self, tmp_path, markdown, html):
        (tmp_path / "docs").mkdir()
        (tmp_path / "site").mkdir()
        (tmp_path / "docs" / "a.md").write_text(markdown)
        (tmp_path / "site" / "a.html").write_text(html)
        return tmp_path / "site", tmp_path / "docs"

    @pytest.mark.parametrize(
        ("markdown", "html"),
        [
            ("Let $x$ be.", "<math>x</math>"),
            ("$$\nx\n$$", "<math>x</math>"),
            ("`$x$` and 5$ or 6$", ""),
            ("```sh\necho $A $B\n```", ""),
            ("<!-- $x$ -->", ""),
            ("Let $x +\n y$ be $z$.", "<math></math><math></math>"),
        ],
    )
    def test_a_whole_page_is_accepted(self, markdown, html, tool, tmp_path):
        assert not list(
            tool("docs_formulas").formula_problems(*self.site(tmp_path, markdown, html))
        )

    @pytest.mark.parametrize(
        ("markdown", "html", "complaint"),
        [
            ("Let $x$ be $y$.", "<math>x</math>", "2 formulas in the source, 1 on the page"),
            ("Let $x$ be.", "Let $x$ be.", "1 formulas in the source, 0 on the page"),
            ("Let x be.", "<math>x</math>", "0 formulas in the source, 1 on the page"),
            ("Let $x$ be.", "<math><merror></math>", "could not be read"),
        ],
    )
    def test_a_fault_is_found(self, markdown, html, complaint, tool, tmp_path):
        (found,) = tool("docs_formulas").formula_problems(*self.site(tmp_path, markdown, html))
        assert complaint in found

    def test_formulas_of_docstrings_count(self, tool, monkeypatch):
        monkeypatch.setattr(icgd.Network, "__doc__", "Layers, $N$ of them.")
        shown = '<dt class="sig sig-object py" id="icgd.Network">'
        (text,) = tool("docs_formulas").docstrings(shown)
        assert tool("docs_formulas").formulas(text) == ["$N$"]

    def test_anchors_are_short(self, tool):
        assert tool("docs_sphinx").slug("Why structured == dense") == "why-structured-dense"
