"""Formulas: how many the sources have, how many the built site shows, page by page.

Counting is done by hand here, not by the builder's own parser: a formula that the builder takes for plain text
must be missed by one of the two only.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:\A|\n[ \t]*\n)(?:(?: {4}|\t)[^\n]*(?:\n|\Z))+")
CODE = re.compile(r"(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)", re.DOTALL)
BLOCK = re.compile(r"(?<!\\)\$\$.+?(?<!\\)\$\$", re.DOTALL)
INLINE = re.compile(r"(?<![\\\d$])\$(?![\s$])(?:[^$\n]|\n(?![ \t]*\n))*?(?<![\s\\])\$(?![\d$])")
DOCUMENTED = re.compile(r'<dt class="sig sig-object py" id="(icgd[\w.]*)"|id="module-(icgd[\w.]*)"')


def formulas(markdown: str) -> list[str]:
    """The formulas of a page or docstring, with their dollars.

    >>> formulas("Let $x$ be `$y$`, cost 5$ or 6$.\\n\\n$$x = \\\\sum_i 1$$\\n\\n    $code$\\n")
    ['$$x = \\\\sum_i 1$$', '$x$']
    >>> formulas("```sh\\necho $HOME $PATH\\n```\\nand $a$, $b$")
    ['$a$', '$b$']
    """
    text = FENCE.sub("", COMMENT.sub("", markdown))
    text = INDENTED.sub("\n\n", text)
    text = CODE.sub("", text)
    return BLOCK.findall(text) + INLINE.findall(BLOCK.sub("", text))


def shown(html: str) -> int:
    """Formulas of a built page."""
    return len(re.findall(r"<math\b", html))


def docstrings(html: str) -> Iterator[str]:
    """The docstrings that a page of the API reference shows, read from the objects it names."""
    for name, module in DOCUMENTED.findall(html):
        yield inspect.getdoc(importlib.import_module(module)) or "" if module else _docstring(name)


def _docstring(name: str) -> str:
    """The docstring of a module's member, or the string below an attribute, which no object knows."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        owner = found
        for part in parts[cut:]:
            owner, found = found, getattr(found, part, None)
        if inspect.isroutine(found) or inspect.isclass(found) or isinstance(found, property):
            return inspect.getdoc(found) or ""
        return _attribute_docs(owner, parts[-1])
    return ""


def _attribute_docs(owner: Any, attribute: str) -> str:
    from sphinx.pycode import ModuleAnalyzer

    inside = owner.__qualname__ if inspect.isclass(owner) else ""
    module = owner.__module__ if inspect.isclass(owner) else owner.__name__
    lines = ModuleAnalyzer.for_module(module).find_attr_docs().get((inside, attribute), [])
    return "\n".join(lines)


def counts(site: Path, docs: Path) -> dict[str, tuple[int, int]]:
    """By page: formulas in its source and the docstrings it shows, formulas on the built page."""
    found = {}
    for source in sorted(docs.rglob("*.md")):
        name = source.relative_to(docs).with_suffix("").as_posix()
        built = site / f"{name}.html"
        html = built.read_text(encoding="utf-8") if built.is_file() else ""
        written = len(formulas(source.read_text(encoding="utf-8")))
        written += sum(len(formulas(text)) for text in docstrings(html))
        found[name] = (written, shown(html))
    return found


def formula_problems(site: Path, docs: Path) -> Iterator[str]:
    """Every page whose formulas are not all drawn, one sentence each."""
    for name, (written, drawn) in counts(site, docs).items():
        if written != drawn:
            yield f"{name}: {written} formulas in the source, {drawn} on the page."
        built = site / f"{name}.html"
        if built.is_file() and "<merror" in built.read_text(encoding="utf-8"):
            yield f"{name}: a formula could not be read."
