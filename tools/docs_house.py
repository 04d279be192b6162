"""docs/figures/house.svg: the packages as floors of a house, from the tree and .importlinter.

python -m tools.docs_house

Floors and the rows inside them are the layers of the import contracts, rooms are the files and folders that
are there, sentences are first lines of docstrings. A test draws the picture again and compares.
"""

from __future__ import annotations

import ast
import configparser
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "icgd"
PICTURE = ROOT / "docs" / "figures" / "house.svg"
SKIPPED = {"__init__", "__main__", "__pycache__", "py"}
WIDTH, PAD, ROOM_HEIGHT, GAP = 1000, 14, 22, 6
SIGN = 250
"""Width of the column with a floor's name."""
LETTER = 6.7
"""Width of a letter of a room's name, on the wide side: readers' fonts differ."""
WALLS = ("#f3f7fa", "#fafbfc")


def contracts() -> dict[str, dict[str, str]]:
    """The sections of .importlinter by the last part of their names."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return {name.rpartition(":")[2]: dict(parser[name]) for name in parser.sections()}


def layers(contract: dict[str, str]) -> list[list[str]]:
    """Rows of names, top first; names in one row do not import each other.

    >>> layers({"layers": "cli\\nestimators | lab"})
    [['cli'], ['estimators', 'lab']]
    """
    rows = contract["layers"].strip().splitlines()
    return [[name.strip() for name in row.split("|")] for row in rows]


def rooms(floor: str) -> set[str]:
    """Files and folders of a package; a floor that is one file has none."""
    folder = PACKAGE / floor
    return {p.stem for p in folder.iterdir()} - SKIPPED if folder.is_dir() else set()


def sentence(floor: str) -> str:
    """What a package says it is: its docstring, up to the first full stop."""
    path = (
        PACKAGE / floor / "__init__.py" if (PACKAGE / floor).is_dir() else PACKAGE / f"{floor}.py"
    )
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return re.split(r"\.(?:\s|$)", doc.replace("\n", " "), maxsplit=1)[0].replace("`", "")


def arranged(floor: str, known: dict[str, dict[str, str]]) -> list[list[str]]:
    """The rooms of a floor in rows: those of its own contract, otherwise in the order of the alphabet."""
    there = rooms(floor)
    for contract in known.values():
        if contract.get("type") == "layers" and contract.get("containers") == f"icgd.{floor}":
            rows = layers(contract)
            assert {name for row in rows for name in row} == there, floor
            return rows
    return [sorted(there)] if there else []


@dataclass
class Drawing:
    """Pieces of SVG and how far down they reach."""

    pieces: list[str]
    y: float = 0.0

    def text(self, x: float, words: str, kind: str) -> None:
        """One line of text whose baseline is a line below `y`."""
        self.pieces.append(
            f'<text class="{kind}" x="{x:g}" y="{self.y + 15:g}">{escape(words)}</text>'
        )

    def row(self, names: list[str], left: float, right: float, floor: str) -> None:
        """A row of rooms, wrapped where it is too long."""
        x = left
        for name in names:
            wide = LETTER * len(name) + 16
            if x > left and x + wide > right:
                x, self.y = left, self.y + ROOM_HEIGHT + GAP
            folder = "folder" if (PACKAGE / floor / name).is_dir() else "file"
            self.pieces.append(
                f'<rect class="{folder}" x="{x:g}" y="{self.y:g}" width="{wide:g}" '
                f'height="{ROOM_HEIGHT}" rx="4"/>'
            )
            self.text(x + 8, name, "room")
            x += wide + GAP
        self.y += ROOM_HEIGHT + GAP


def wrapped(words: str, limit: int) -> list[str]:
    """Lines of at most `limit` letters."""
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > limit:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def judged_by(name: str, known: dict[str, dict[str, str]]) -> list[str]:
    """Who may not import a package although it lies below."""
    found = []
    for contract in known.values():
        if (
            contract.get("type") == "forbidden"
            and f"icgd.{name}" in contract["forbidden_modules"].split()
        ):
            found += [source.removeprefix("icgd.") for source in contract["source_modules"].split()]
    return found


def floor_of(
    drawing: Drawing, name: str, left: float, right: float, known: dict[str, dict[str, str]]
) -> None:
    """One package: its name and what it is, and its rooms: beside that if there is space, else below."""
    beside = right - left > WIDTH / 2
    top, words = drawing.y, SIGN if beside else right - left
    drawing.text(left, name, "floor")
    drawing.y += 20
    for line in wrapped(sentence(name), int(words / 6.3)):
        drawing.text(left, line, "said")
        drawing.y += 16
    for line in wrapped(_barred(name, known), int(words / 6.3)):
        drawing.text(left, line, "wall")
        drawing.y += 16 if line else 0
    signed = drawing.y + 8
    drawing.y = top if beside else signed
    for row in arranged(name, known):
        drawing.row(row, left + SIGN + 2 * PAD if beside else left, right, name)
    drawing.y = max(signed, drawing.y)


def _barred(name: str, known: dict[str, dict[str, str]]) -> str:
    barred = judged_by(name, known)
    return f"Never imported by {' or '.join(barred)}" if 0 < len(barred) <= 2 else ""


def house() -> str:
    """The picture."""
    known = contracts()
    drawing = Drawing([])
    for number, row in enumerate(layers(known["layers"])):
        names = [name for name in row if name not in SKIPPED]
        if not names:
            continue
        top, wide = drawing.y, WIDTH / len(names)
        at, bottom = len(drawing.pieces), top
        for place, name in enumerate(names):
            drawing.y = top + PAD / 2
            floor_of(drawing, name, place * wide + PAD, (place + 1) * wide - PAD, known)
            bottom = max(bottom, drawing.y + PAD / 2)
        wall = f'<rect x="0" y="{top:g}" width="{WIDTH}" height="{bottom - top:g}" fill="{WALLS[number % 2]}"/>'
        drawing.pieces.insert(at, wall)
        drawing.pieces.append(f'<line x1="0" x2="{WIDTH}" y1="{bottom:g}" y2="{bottom:g}"/>')
        drawing.y = bottom
    style = (
        "text{font-family:system-ui,-apple-system,'Segoe UI','Noto Sans',Arial,sans-serif;fill:#1f2933}"
        ".floor{font-size:16px;font-weight:600}.said{font-size:12.5px;fill:#52606d}"
        ".wall{font-size:12.5px;fill:#a03c00}"
        ".room{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:11px}"
        ".folder{fill:#cfe3f1;stroke:#0b66a0}.file{fill:#fff;stroke:#9aa5b1}line{stroke:#9aa5b1}"
    )
    title = "The packages of icgd from top to bottom; each imports only from floors below it"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {drawing.y:g}" role="img">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n"
        + "\n".join(drawing.pieces)
        + "\n</svg>\n"
    )


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(house(), encoding="utf-8")


if __name__ == "__main__":
    main()
