"""Sentences that a user supplies: a table of two columns, or two files of as many lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from icgd.errors import InvalidFile, InvalidParameter
from icgd.lab.text.pairs import Pair, ParallelText, cleaned

ORIGIN = "given"


def text_of_files(paths: Sequence[Path]) -> ParallelText:
    """The text of one TSV file (source, tab, target), or of two files whose lines belong together."""
    if len(paths) not in (1, 2):
        raise InvalidParameter(
            "--text",
            [str(p) for p in paths],
            "be one file of two columns, or two aligned files",
            remedy="--text pairs.tsv, or --text german.txt --text english.txt.",
        )
    pairs = _table(paths[0]) if len(paths) == 1 else _aligned(*paths)
    return cleaned(pairs, ORIGIN, " and ".join(str(p) for p in paths))


def _table(path: Path) -> list[Pair]:
    pairs = []
    for number, line in enumerate(_lines(path), 1):
        columns = line.split("\t")
        if len(columns) == 1 and not line.strip():
            continue
        if len(columns) != 2:
            raise InvalidFile(
                f"{path}, line {number}: {len(columns)} columns. A line is a sentence, a tab and its "
                "translation; two files of one sentence a line are given as --text twice."
            )
        pairs.append((columns[0], columns[1]))
    return pairs


def _aligned(first: Path, second: Path) -> list[Pair]:
    sources, targets = _lines(first), _lines(second)
    if len(sources) != len(targets):
        raise InvalidFile(
            f"{first} has {len(sources)} lines and {second} {len(targets)}; line by line they belong together."
        )
    return list(zip(sources, targets, strict=True))


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidFile(
            f"{path} is not UTF-8: byte {error.start} is {error.object[error.start]:#x}."
        ) from error
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror or error}.") from error
    # Not splitlines: sentences may hold separators that other files do not count as ends of lines.
    lines = text.removesuffix("\n").split("\n")
    if lines == [""]:
        raise InvalidFile(f"{path} is empty.")
    return [line.removesuffix("\r") for line in lines]
