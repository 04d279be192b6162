"""Texts that cells read: known by name in this process, kept in a file for others, never in an option.

A cell names its text, and the name changes with every letter of it: what was measured on one text is never
taken for what was measured on another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from icgd.errors import InvalidFile
from icgd.lab.sweeps.cells import Workplace
from icgd.lab.text import debian, made_up
from icgd.lab.text.pairs import Pair, ParallelText, load, save
from icgd.lab.text.vocabulary import Encoded, Vocabulary, learn_vocabulary

_KNOWN: dict[str, ParallelText] = {}


def know(text: ParallelText) -> str:
    """Make a text known in this process; its name."""
    _KNOWN[text.name] = text
    return text.name


def keep(name: str, directory: Path) -> None:
    """Write a text that is known where other processes and later runs find it."""
    path = _path(name, directory)
    if not path.is_file():
        save(_KNOWN[name], path)


def kept(origin: str, directory: Path) -> ParallelText | None:
    """The last text of this origin that an earlier run has kept: it goes on with the same one."""
    paths = directory.glob(_path(f"{origin}-*", directory).name)
    last = max(paths, key=lambda path: (path.stat().st_mtime, path.name), default=None)
    return None if last is None else load(last, origin)


def find(name: str, place: Workplace) -> ParallelText:
    """The text of a cell."""
    if name not in _KNOWN and name == (invented := made_up.made_up_text()).name:
        know(invented)
    if name not in _KNOWN:
        path = _path(name, place.models or place.directory)
        if not path.is_file():
            raise InvalidFile(
                f"The text {name} is not in {path.parent}: prepare the experiment first."
            )
        text = load(path, name.rpartition("-")[0])
        if text.name != name:
            raise InvalidFile(f"{path} has been changed. Remove it, and the text is prepared anew.")
        know(text)
    return _KNOWN[name]


def examples(name: str) -> Sequence[Pair]:
    """Sentences to show translations of, with translations to compare: never ones that are trained on."""
    return debian.EXAMPLES if is_debian(name) else _KNOWN[name].validation


def is_debian(name: str) -> bool:
    """Whether a text is Debian's."""
    return name.rpartition("-")[0] == debian.ORIGIN


@lru_cache(maxsize=4)
def vocabulary(name: str, size: int) -> Vocabulary:
    """The vocabulary of a text that is known: learned once in a process, whatever the number of cells."""
    return learn_vocabulary(_KNOWN[name].train, size)


@lru_cache(maxsize=4)
def encoded(name: str, size: int, most_tokens: int) -> tuple[list[Encoded], list[Encoded]]:
    """Pairs that are trained and validated on, as tokens, without those that are too long."""
    words, text = vocabulary(name, size), _KNOWN[name]
    train, validation = (
        words.encode_pairs(part, most_tokens) for part in (text.train, text.validation)
    )
    return train, validation


def _path(name: str, directory: Path) -> Path:
    return directory / f"text-{name}.parquet"
