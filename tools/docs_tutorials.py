"""Run the tutorials and write them as pages, with what they print and draw.

python -m tools.docs_tutorials            all of docs/tutorials/*.py
python -m tools.docs_tutorials 02 05      those whose names begin so

A tutorial is a Python file in percent format (`# %%` begins a cell of code, `# %% [markdown]` one of text),
which Jupytext and editors open as a notebook. The page next to it is written here and kept under version
control, so that the site builds in seconds; tests run every tutorial again and compare.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
FIGURES = ROOT / "docs" / "figures" / "tutorials"
MARK = re.compile(r"^# %%(?P<text> \[markdown\])?[^\n]*\n", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.]*\w)")


@dataclass
class Cell:
    """A piece of a tutorial; `printed` and `figures` are filled in when it has run."""

    source: str
    is_text: bool
    printed: str = ""
    figures: list[str] = field(default_factory=list)


def sources() -> list[Path]:
    """The tutorials in order."""
    return sorted(TUTORIALS.glob("[0-9][0-9]_*.py"))


def cells(text: str) -> list[Cell]:
    """The cells of a file in percent format.

    >>> [(c.is_text, c.source) for c in cells("# %% [markdown]\\n# # Title\\n#\\n# Text.\\n\\n# %%\\nx = 1\\n")]
    [(True, '# Title\\n\\nText.'), (False, 'x = 1')]
    """
    marks = list(MARK.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    found = []
    for mark, end in zip(marks, ends, strict=True):
        body = text[mark.end() : end].strip("\n")
        if mark["text"]:
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.split("\n"))
        found.append(Cell(body, bool(mark["text"])))
    return found


def run(path: Path, keep: Callable[[str, Any], None] | None = None) -> list[Cell]:
    """Execute a tutorial cell by cell; `keep` is given the name and the object of every figure drawn."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    # As the tests do: shared cores make small matrices slower with several threads, not faster.
    scope: dict[str, Any] = {"__name__": path.stem}
    made = cells(path.read_text(encoding="utf-8"))
    count = 0
    for cell in made:
        if cell.is_text:
            continue
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(cell.source, path.name, "exec"), scope)
        cell.printed = said.getvalue()
        for number in plt.get_fignums():
            count += 1
            name = f"{path.stem}_{count}.png"
            cell.figures.append(name)
            if keep is not None:
                keep(name, plt.figure(number))
        plt.close("all")
    return made


def page(path: Path, made: list[Cell]) -> str:
    """The tutorial as Markdown."""
    parts = [f"<!-- Written by tools/docs_tutorials.py from {path.name}; edit that file. -->"]
    for cell in made:
        if cell.is_text:
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if cell.printed:
            parts.append(f"```text\n{cell.printed.rstrip()}\n```")
        for name in cell.figures:
            title = _title(made, cell)
            parts.append(f"![{title}](../figures/tutorials/{name})")
    parts.append(
        f"*This page is a notebook in percent format: [{path.name}]({path.name}). "
        "Every number on it was printed by that file, and the tests run it again.*"
    )
    return "\n\n".join(parts) + "\n"


def _title(made: list[Cell], cell: Cell) -> str:
    """What a figure shows: the last heading before it."""
    before = [c.source for c in made[: made.index(cell)] if c.is_text]
    headings = re.findall(r"^#+ (.*)$", "\n".join(before), flags=re.MULTILINE)
    return f"Figure: {headings[-1]}" if headings else "Figure"


def differences(ours: str, theirs: str) -> Iterator[str]:
    """Where two pages differ by more than rounding, line by line.

    Numbers agree if they do to six digits, or if both are below 1e-9: what is left of rounding there
    differs from one processor to the next.

    >>> list(differences("error 3.1e-15 of 2", "error 2.9e-15 of 2")), list(differences("0.5", "0.6"))
    ([], ["'0.5' is '0.6' now"])
    """
    left, right = ours.splitlines(), theirs.splitlines()
    for a, b in zip(left, right, strict=False):
        if NUMBER.sub("#", a).split() != NUMBER.sub("#", b).split():
            yield f"{a!r} is {b!r} now"
            continue
        numbers = zip(map(float, NUMBER.findall(a)), map(float, NUMBER.findall(b)), strict=True)
        if not all(abs(p - q) <= max(1e-6 * max(abs(p), abs(q)), 1e-9) for p, q in numbers):
            yield f"{a!r} is {b!r} now"
    if len(left) != len(right):
        yield f"{len(left)} lines are {len(right)} now"


def main(arguments: list[str]) -> None:
    """Write the pages and the figures."""
    FIGURES.mkdir(parents=True, exist_ok=True)

    def keep(name: str, figure: Any) -> None:
        figure.savefig(FIGURES / name, dpi=144, metadata={"Software": None})

    for path in sources():
        if arguments and not path.name.startswith(tuple(arguments)):
            continue
        path.with_suffix(".md").write_text(page(path, run(path, keep)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
