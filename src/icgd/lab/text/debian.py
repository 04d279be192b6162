"""German and English sentences from Debian's package descriptions, where a machine has them or can get them.

People translate the descriptions of packages, and every Debian machine can fetch original and translation
with its own package client: the index files `Translation-en` and `Translation-de`, in the format deb822.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from icgd.errors import InvalidFile
from icgd.lab.text.pairs import Pair, ParallelText, cleaned

ORIGIN = "debian"
LANGUAGES = ("de", "en")
EXAMPLES: tuple[Pair, ...] = (
    (
        "Dieses Programm zeichnet Kurven aus einer Textdatei.",
        "This program draws curves from a text file.",
    ),
    (
        "Eine kleine Bibliothek, die Matrizen liest und schreibt.",
        "A small library that reads and writes matrices.",
    ),
    (
        "Es zeigt das Wetter der nächsten Tage in einem Fenster.",
        "It shows the weather of the next days in a window.",
    ),
    (
        "Das Paket enthält Beispiele und eine kurze Anleitung.",
        "The package contains examples and a short guide.",
    ),
)
"""Written for this, to show translations of: results can be passed on without a line of Debian's text."""
TIME_LIMIT = 300.0
REMEDY = "Supply sentences of your own: --text pairs.tsv, or --text german.txt --text english.txt."

_BULLET = re.compile(r"\s*(?:[*+•·-]|o|\d+[.)])\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(„“]*[A-ZÄÖÜ0-9])")


def debian_text() -> ParallelText:
    """The text of this machine's own index files, or of ones fetched into a directory that is then removed."""
    files = _index_files(_own_directory())
    if files is None:
        with TemporaryDirectory() as directory:
            _fetch(Path(directory))
            files = _index_files(Path(directory))
            if files is None:
                raise InvalidFile(
                    f"apt-get brought no Translation-de: this machine's sources have none. {REMEDY}"
                )
            return _text_of(files)
    return _text_of(files)


def description_pairs(german: str, english: str) -> Iterator[Pair]:
    """Pairs of sentences from the contents of two index files."""
    originals = descriptions(english.splitlines(), "en")
    for digest, translated in descriptions(german.splitlines(), "de").items():
        if digest in originals:
            yield from aligned(translated, originals[digest])


def descriptions(lines: Iterable[str], language: str) -> dict[str, list[str]]:
    """Paragraphs of every description, by `Description-md5`: the key that joins languages."""
    by_digest: dict[str, list[str]] = {}
    digest, body, inside = "", list[str](), False
    for line in (*lines, ""):
        if not line.strip():
            if digest and body:
                by_digest[digest] = paragraphs(body)
            digest, body, inside = "", [], False
        elif line[0] in " \t":
            if inside:
                body.append(line[1:])
        else:
            name, _, value = line.partition(":")
            inside = name.lower() == f"description-{language}"
            if inside:
                body = [value.strip()]
            elif name.lower() == "description-md5":
                digest = value.strip()
    return by_digest


def paragraphs(body: Iterable[str]) -> list[str]:
    """The lines of a description as paragraphs; its first line and every bullet are paragraphs of their own.

    >>> paragraphs(["a game", "You can", "play it.", ".", " * alone", " * or", "   together"])
    ['a game', 'You can play it.', 'alone', 'or together']
    """
    synopsis, *rest = body
    grouped: list[list[str]] = [[]]
    for line in rest:
        if line.strip() == ".":
            grouped.append([])
        elif bullet := _BULLET.match(line):
            grouped.append([line[bullet.end() :]])
        else:
            grouped[-1].append(line)
    joined = (" ".join(" ".join(lines).split()) for lines in ([synopsis], *grouped))
    return [text for text in joined if text]


def aligned(german: list[str], english: list[str]) -> Iterator[Pair]:
    """Sentence by sentence where both sides have as many, else paragraph by paragraph, else nothing."""
    if len(german) != len(english):
        return
    for paragraph in zip(german, english, strict=True):
        source, target = (_SENTENCE_END.split(side) for side in paragraph)
        if len(source) == len(target):
            yield from zip(source, target, strict=True)
        else:
            yield paragraph


def _text_of(files: dict[str, list[Path]]) -> ParallelText:
    german, english = (
        "\n\n".join(file.read_text(encoding="utf-8") for file in files[language])
        for language in LANGUAGES
    )
    return cleaned(description_pairs(german, english), ORIGIN, "Debian's package descriptions")


def _index_files(directory: Path | None) -> dict[str, list[Path]] | None:
    """Index files of both languages that can be read as they are; None if one has none."""
    if directory is None:
        return None
    files = {x: sorted(directory.glob(f"*_i18n_Translation-{x}")) for x in LANGUAGES}
    return files if all(files.values()) else None


def _own_directory() -> Path | None:
    """Where this machine's package client keeps its index files."""
    if shutil.which("apt-config") is None:
        return None
    command = ["apt-config", "shell", "LISTS", "Dir::State::lists/d"]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    quoted = re.search(r"LISTS='(.*)'", output)
    return Path(quoted[1]) if quoted else None


def _fetch(directory: Path) -> None:
    """Have apt-get bring the index files of descriptions, and no others, into a directory."""
    if shutil.which("apt-get") is None:
        raise InvalidFile(
            f"Debian's package descriptions need apt-get, which is not here. {REMEDY}"
        )
    cache, partial = directory / "cache", directory / "partial"
    for place in (cache, partial):
        place.mkdir()
    options = {
        "Dir::State::lists": directory,
        "Dir::Cache": cache,
        "Acquire::Languages": "en,de",
        "Acquire::GzipIndexes": "false",
        "Acquire::IndexTargets::deb::Packages::DefaultEnabled": "false",
        "Acquire::IndexTargets::deb-src::Sources::DefaultEnabled": "false",
        # Whoever runs this may own the directory only, and need not be root.
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": "",
        "Acquire::Retries": "1",
        "Acquire::http::Timeout": "20",
        "Acquire::https::Timeout": "20",
    }
    command = ["apt-get", "update", "-qq"]
    for name, value in options.items():
        command += ["-o", f"{name}={value}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIME_LIMIT
        )
    except subprocess.TimeoutExpired:
        raise InvalidFile(
            f"apt-get took more than {TIME_LIMIT:.0f} s for Debian's package descriptions. {REMEDY}"
        ) from None
    if done.returncode != 0 and _index_files(directory) is None:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise InvalidFile(
            f"apt-get could not bring Debian's package descriptions ({reason}). {REMEDY}"
        )
