"""The package's docstrings as reStructuredText, for the API reference.

A docstring is prose, lists of `name   meaning` in two columns, indented formulas and doctests. Read as
reStructuredText, columns would run together and indented lines become quotations, so each kind is written
as what it is.
"""

from __future__ import annotations

import re

ENTRY = re.compile(r"(?P<names>[\w\"'.]+(?:(?:, | / |/)[\w\"'.]+)*) {2,}(?P<text>\S.*)")
"""`name, other   meaning`: names, two spaces or more, text."""
LABELS = ("Statement:", "Differs from the paper:")
INDENTED = re.compile(r" {2,}\S")
ITEM = re.compile(r"(?P<mark>-|\d+\.) (?P<text>\S.*)")


def as_rst(docstring: str) -> str:
    """A docstring of this package, without its common indentation, as reStructuredText."""
    return "\n\n".join(_part(part) for part in re.split(r"\n\s*\n", docstring.strip("\n")))


def _part(part: str) -> str:
    lines = part.split("\n")
    if lines[0].lstrip().startswith(">>>"):
        return "\n".join([".. code-block:: pycon", "", *(f"    {line}" for line in lines)])
    if any(len(re.findall(r"\S {3,}(?=\S)", line)) > 1 for line in lines):
        return _code(lines)
    # Blocks of consecutive lines of one kind, separated by empty lines.
    blocks: list[str] = []
    code: list[str] = []
    kind = ""
    for line in lines:
        before, kind = kind, _kind(line, kind)
        if code and kind != "code":
            blocks.append(_code(code))
            code = []
        if kind == "code":
            code.append(line)
        elif kind == "more":
            blocks[-1] += f" {_escaped(line.strip())}"
            kind = before
        elif kind == "text" and before == "text" and not line.startswith(LABELS):
            blocks[-1] += f"\n{_escaped(line)}"
        else:
            blocks.append(_written(line, kind))
    return "\n\n".join([*blocks, *([_code(code)] if code else [])])


def _kind(line: str, before: str) -> str:
    if INDENTED.match(line):
        return "more" if before in ("entry", "item") else "code"
    if ITEM.fullmatch(line):
        return "item"
    return "entry" if ENTRY.fullmatch(line) else "text"


def _written(line: str, kind: str) -> str:
    if kind == "entry" and (entry := ENTRY.fullmatch(line)):
        names = ", ".join(f"``{name}``" for name in re.split(r", | / |/", entry["names"]))
        return f"- {names}: {_escaped(entry['text'])}"
    if kind == "item" and (item := ITEM.fullmatch(line)):
        return f"{item['mark']} {_escaped(item['text'])}"
    for label in LABELS:
        if line.startswith(label):
            return f"*{label}*{_escaped(line.removeprefix(label))}"
    return _escaped(line)


def _code(lines: list[str]) -> str:
    return "\n".join([".. code-block:: text", "", *(f"    {line}" for line in lines)])


def _escaped(text: str) -> str:
    """Text in which `code` is code, $formulas$ are formulas and nothing else is markup."""
    parts = re.split(r"(`[^`]+`|\$[^$\s](?:[^$]*[^$\s])?\$(?!\d))", text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = re.sub(r"([\\*|_`])", r"\\\1", part)
        else:
            mark = "``" if part[0] == "`" else "`"
            shown = f"{mark}{part[1:-1]}{mark}"
            parts[i] = shown if part[0] == "`" else f":math:{shown}"
            # Inline markup wants space or punctuation around it; "\ " is space that is not shown.
            parts[i] = rf"\ {parts[i]}\ " if parts[i - 1] or i > 1 else rf"{parts[i]}\ "
    return "".join(parts).removesuffix("\\ ")
