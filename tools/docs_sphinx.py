"""What the site does besides Markdown, as an extension of Sphinx.

Formulas become MathML, which needs no script and no font. Docstrings, which are plain text in this package,
become reStructuredText. Headings keep short anchors, and long names in tables may break.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

sys.path.insert(0, str(Path(__file__).resolve().parent))
from docs_docstrings import as_rst


def slug(heading: str) -> str:
    """The anchor of a heading: letters, digits and single hyphens.

    >>> slug("Why structured == dense"), slug("2. Loops, again")
    ('why-structured-dense', '2-loops-again')
    """
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


# -- formulas ---------------------------------------------------------------------------------------


def as_mathml(latex: str, display: str) -> str:
    """One formula, `inline` or `block`.

    >>> as_mathml("x", "inline")[:50], as_mathml("x", "block")[:22]
    ('<math xmlns="http://www.w3.org/1998/Math/MathML" d', '<div class="formula"><')
    """
    mathml = convert(latex.strip(), display=display)
    # Drawn larger by the style sheet: browsers enlarge sums only with a font made for mathematics.
    mathml = mathml.replace("<mo>&#x02211;</mo>", '<mo class="sum" largeop="false">&#x02211;</mo>')
    # Bars of absolute values are not operators with space around them.
    bar = '<mo stretchy="false">&#x0007C;</mo>'
    mathml = mathml.replace(bar, bar.replace("<mo", '<mo lspace="0" rspace="0"'))
    return f'<div class="formula">{mathml}</div>' if display == "block" else mathml


def visit_inline(writer: Any, node: nodes.math) -> None:
    """A formula in a line of text."""
    writer.body.append(as_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    """A formula on lines of its own."""
    writer.body.append(as_mathml(node.astext(), "block"))
    raise nodes.SkipNode


# -- the API reference ------------------------------------------------------------------------------


def rewrite_docstring(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    """Autodoc calls this with the lines of every docstring, to be changed in place."""
    lines[:] = as_rst("\n".join(lines)).split("\n")


# -- pages ------------------------------------------------------------------------------------------


def keep_anchors(_app: Any, doctree: nodes.document) -> None:
    """Headings answer to their slug and modules to their name; docutils' own anchors differ from both."""
    for section in doctree.findall(nodes.section):
        modules = [i.removeprefix("module-") for i in section["ids"] if i.startswith("module-")]
        wanted = [*modules, *filter(None, [section.get("slug")])]
        section["ids"] = list(dict.fromkeys([*wanted, *section["ids"]]))


CELL = re.compile(r"<td[ >].*?</td>", re.DOTALL)
CELL_CODE = re.compile(r'(?<=<span class="pre">)[^<]{24,}(?=</span>)')


def breakable(cell: re.Match[str]) -> str:
    """Long names in tables may break after a dot, a slash or an underscore."""
    return CELL_CODE.sub(lambda code: re.sub(r"(?<=[./_(])(?=\w)", "<wbr>", code[0]), cell[0])


def break_long_names(
    _app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any
) -> None:
    """Sphinx calls this with the HTML of every page."""
    if "body" in context:
        context["body"] = CELL.sub(breakable, context["body"])


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("autodoc-process-docstring", rewrite_docstring)
    app.connect("doctree-read", keep_anchors)
    app.connect("html-page-context", break_long_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
