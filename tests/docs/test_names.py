"""Every file, folder and dotted name that the pages mention exists; the picture of the house is current."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from icgd.base.plugins import PLUGINS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "icgd"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FILE = re.compile(r"(?<![\w/.*-])(?:[\w-]+/)*[\w-]+\.py\b")
FOLDER = re.compile(r"`([a-z_]\w*(?:/[a-z_]\w*)*/)`")
INSIDE = re.compile(
    r"`((?:{})(?:/\w+)+)`".format("|".join(p.name for p in PACKAGE.iterdir() if p.is_dir()))
)
WRITTEN = {"models/", "runs/", "site/", "build/", "saved/", "nesterov.py", "use.py", "recipe.py"}
"""What commands or the readers of a page write; not in the repository."""
GONE = re.compile(
    r"`((?:src/icgd/)?(?:theory|reference|constructions)[./]\w[\w./]*)`|`((?:src/icgd|tests)/\w[\w/]*)`"
)
"""Former packages, and folders of the source tree."""
DOTTED = re.compile(r"(?<![\w./-])icgd(?:\.[A-Za-z_]\w*)+")


@cache
def file_names() -> frozenset[str]:
    folders = ("src", "tests", "tools", "docs")
    return frozenset(p.name for f in folders for p in (ROOT / f).rglob("*.py"))


def exists(mentioned: str, page: Path) -> bool:
    """A path counts from the repository, the package, the tests or the page; a bare name from anywhere."""
    if "/" not in mentioned and mentioned in file_names():
        return True
    bases = (ROOT, ROOT / "src", PACKAGE, ROOT / "tests", page.parent)
    return any((base / mentioned).exists() for base in bases)


@cache
def resolves(name: str) -> bool:
    """Whether a dotted name is a module or an attribute of one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            fields = getattr(found, "__annotations__", {}) if isinstance(found, type) else {}
            if not hasattr(found, part):
                return part in fields and part == parts[-1]
            found = getattr(found, part)
        return True
    return False


def without_addresses(text: str) -> str:
    return re.sub(r"https?://\S+", "", text)


def missing(page: Path, text: str) -> list[str]:
    text = without_addresses(text)
    paths = [*FILE.findall(text), *FOLDER.findall(text), *INSIDE.findall(text)]
    paths += [former or folder for former, folder in GONE.findall(text) if former not in paths]
    absent = [path for path in paths if path not in WRITTEN and not exists(path, page)]
    names = set(DOTTED.findall(text)) - {PLUGINS}
    return absent + [name for name in sorted(names) if not resolves(name)]


def test_every_name_on_the_pages_exists():
    absent = {
        page.relative_to(ROOT).as_posix(): names
        for page in PAGES
        if (names := missing(page, page.read_text(encoding="utf-8")))
    }
    assert not absent


@pytest.mark.parametrize(
    "text",
    [
        "see `constructions/relu_stack.py`",
        "`theory/` has the formulas",
        "`transformer/gadget` has them",
        "import icgd.training.trainer",
        "`icgd.Network.radius_of`",
        "`nowhere.py`",
        "`theory.costs.deep_flops`",
        "a file in `src/icgd/experiments`",
        "`tests/theory` has them",
    ],
)
def test_a_name_that_is_gone_is_found(text):
    assert len(missing(ROOT / "README.md", text)) == 1


def test_the_house_is_drawn_from_the_tree(tool):
    house = tool("docs_house")
    assert house.PICTURE.read_text(encoding="utf-8") == house.house(), "python -m tools.docs_house"
    assert 'class="wall"' in house.house()


def test_every_package_has_a_floor(tool):
    house = tool("docs_house")
    floors = {name for row in house.layers(house.contracts()["layers"]) for name in row}
    there = {p.stem for p in PACKAGE.iterdir()} - {"__init__", "__pycache__", "py"}
    assert floors == there
