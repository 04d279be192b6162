"""The package's docstrings as Markdown, for the API reference.

A docstring is prose, lists of `name   meaning` in two columns, indented formulas and doctests. Markdown
would run the columns together and take `>>>` for quotations, so each kind is written as what it is.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ENTRY = re.compile(r"(?P<names>[\w\"'.]+(?:(?:, | / |/)[\w\"'.]+)*) {2,}(?P<text>\S.*)")
"""`name, other   meaning`: names, two spaces or more, text."""
LABELS = ("Statement:", "Differs from the paper:")
INDENTED = re.compile(r" {2,}\S")


def as_markdown(docstring: str) -> str:
    """A docstring of this package, without its common indentation, as Markdown."""
    return "\n\n".join(_part(part) for part in re.split(r"\n\s*\n", docstring.strip("\n")))


def _part(part: str) -> str:
    lines = part.split("\n")
    if lines[0].lstrip().startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    if any(len(re.findall(r"\S {3,}(?=\S)", line)) > 1 for line in lines):
        return _code(lines)
    written: list[str] = []
    kind = ""
    for line in lines:
        before, kind = kind, _kind(line, kind)
        if kind == "text":
            written += [""] if before not in ("", "text") or _labelled(line) else []
            written.append(_label(line))
        elif kind == "entry":
            names, text = _entry(line)
            shown = ", ".join(f"`{name}`" for name in re.split(r", | / |/", names))
            written += [] if before == "entry" else [""]
            written.append(f"- {shown}: {_escaped(text)}")
        elif kind == "more":
            written[-1] += f" {_escaped(line.strip())}"
            kind = "entry"
        else:
            written += [] if before == "code" else [""]
            written.append(f"    {line}")
    return "\n".join(written).strip("\n")


def _kind(line: str, before: str) -> str:
    if INDENTED.match(line):
        return "more" if before == "entry" else "code"
    return "entry" if ENTRY.fullmatch(line) else "text"


def _entry(line: str) -> tuple[str, str]:
    match = ENTRY.fullmatch(line)
    assert match is not None
    return match["names"], match["text"]


def _code(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _labelled(line: str) -> bool:
    return line.startswith(LABELS)


def _label(line: str) -> str:
    for label in LABELS:
        if line.startswith(label):
            return f"*{label}*{_escaped(line.removeprefix(label))}"
    return _escaped(line)


def _escaped(text: str) -> str:
    """Letters that Markdown would read as its own, outside of `code`."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([*\[\]])", r"\\\1", parts[i]).replace("<", "&lt;")
    return "`".join(parts)


class Docstrings(griffe.Extension):
    """Rewrites every docstring that griffe reads."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called once for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
