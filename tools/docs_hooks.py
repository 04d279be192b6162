"""What MkDocs does besides Markdown.

Formulas become MathML, which needs no script and no font. And the theme's script loses the addresses it would
ask for features that this site does not use (diagrams, statistics of a repository, a polyfill).
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

# What pymdownx.arithmatex leaves behind: \( .. \) in a span, \[ .. \] in a div.
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def as_mathml(match: re.Match[str]) -> str:
    """One formula as MathML."""
    latex = unescape(match["latex"]).strip()
    shown = "block" if match["tag"] == "div" else "inline"
    made = convert(latex, display=shown)
    # Drawn larger by the style sheet: browsers enlarge sums only with a font made for mathematics.
    made = made.replace("<mo>&#x02211;</mo>", '<mo class="sum" largeop="false">&#x02211;</mo>')
    # Bars of absolute values are not operators with space around them.
    bar = '<mo stretchy="false">&#x0007C;</mo>'
    made = made.replace(bar, bar.replace("<mo", '<mo lspace="0" rspace="0"'))
    return f'<div class="formula">{made}</div>' if shown == "block" else made


CELL_CODE = re.compile(r"(?<=<code>)[^<]{24,}(?=</code>)")
CELL = re.compile(r"<td[ >].*?</td>", re.DOTALL)


def breakable(cell: re.Match[str]) -> str:
    """Long names in tables may break after a dot, a slash or an underscore."""
    return CELL_CODE.sub(lambda code: re.sub(r"(?<=[./_(])(?=\w)", "<wbr>", code[0]), cell[0])


def on_page_content(html: str, **_: Any) -> str:
    """MkDocs calls this with the HTML of every page."""
    return CELL.sub(breakable, FORMULA.sub(as_mathml, html))


ADDRESS = re.compile(r"https://(?:unpkg\.com|api\.github\.com)/[^\s\"'`$]*")


def on_post_build(config: Any, **_: Any) -> None:
    """MkDocs calls this when the site is written."""
    for script in Path(config["site_dir"]).rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        if ADDRESS.search(text):
            script.write_text(ADDRESS.sub("about:blank#", text), encoding="utf-8")
    for unused in ("*.map", "lunr.*.min.js", "tinyseg.js", "wordcut.js"):
        # Megabytes for debugging the theme, and for searching in languages other than English.
        for path in Path(config["site_dir"]).rglob(unused):
            path.unlink()
