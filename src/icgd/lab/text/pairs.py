"""Pairs of sentences: which are kept, which are too alike, which are kept apart for validation.

Package descriptions and subtitles alike are full of templates ("localization of X in Y"). If one of them is
trained on and another validated on, a model is praised for its memory. So pairs that are equal up to names
and numbers are one pair, before anything is split.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from icgd.base.atomic import write_whole
from icgd.errors import InvalidFile

FEWEST_WORDS, MOST_WORDS = 3, 40
LEAST_RATIO, LARGEST_RATIO = 0.5, 2.2
"""Words of the target over words of the source: outside, the two are hardly translations of each other."""
FEWEST_PAIRS = 50
MOST_VALIDATED = 1000
VALIDATED_SHARE = 0.1
_NAMELIKE = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")

Pair = tuple[str, str]


@dataclass(frozen=True)
class ParallelText:
    """Sentences in two languages, those that are trained on and those that are not.

    origin      where it is from, in a word
    train       pairs (source, target)
    validation  pairs that share no masked side with `train`
    """

    origin: str
    train: tuple[Pair, ...]
    validation: tuple[Pair, ...]

    @cached_property
    def name(self) -> str:
        """Its origin and a digest of every sentence: another text has another name."""
        sha = hashlib.sha256()
        for part in (self.train, self.validation):
            for pair in part:
                sha.update(("\t".join(pair) + "\n").encode())
            sha.update(b"\n")
        return f"{self.origin}-{sha.hexdigest()[:12]}"


def cleaned(pairs: Iterable[Pair], origin: str, where: str) -> ParallelText:
    """The pairs worth keeping, one of each template, split by a digest of what they say.

    where  what is named in a complaint
    """
    given = list(pairs)
    kept = list(one_of_each_template(filter(is_kept, map(_tidied, given))))
    if len(kept) < FEWEST_PAIRS:
        raise InvalidFile(
            f"{where} has {len(kept)} usable pairs of sentences out of {len(given)}; at least {FEWEST_PAIRS} "
            f"are needed. Usable are pairs that differ, have {FEWEST_WORDS} to {MOST_WORDS} words on both "
            "sides, about as many on one as on the other, and are not of one template."
        )
    n_validated = min(MOST_VALIDATED, int(VALIDATED_SHARE * len(kept)))
    # By digest: which pairs are validated on does not depend on the order of the file.
    ordered = sorted(kept, key=lambda pair: hashlib.sha256("\t".join(pair).encode()).digest())
    return ParallelText(origin, tuple(ordered[n_validated:]), tuple(ordered[:n_validated]))


def is_kept(pair: Pair) -> bool:
    """Whether a pair looks like a sentence and its translation.

    >>> is_kept(("ein kleines Haus", "a small house")), is_kept(("GNU Emacs Lisp", "GNU Emacs Lisp"))
    (True, False)
    """
    source, target = (len(side.split()) for side in pair)
    if not (FEWEST_WORDS <= source <= MOST_WORDS and FEWEST_WORDS <= target <= MOST_WORDS):
        return False
    return pair[0] != pair[1] and LEAST_RATIO <= target / source <= LARGEST_RATIO


def one_of_each_template(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs neither of whose masked sides has been seen before."""
    seen: tuple[set[str], set[str]] = (set(), set())
    for pair in pairs:
        sides = masked(pair)
        if not any(side in known for side, known in zip(sides, seen, strict=True)):
            yield pair
        for side, known in zip(sides, seen, strict=True):
            known.add(side)


def masked(pair: Pair) -> Pair:
    """Both sides without names and numbers, which are what instances of a template differ in.

    Masked are words that stand on both sides, words with anything but letters in them, and words of the
    target with a capital, except its first: English writes names and languages so.

    >>> masked(("Übersetzung von KDE 4 ins Arabische", "Translation of KDE 4 into Arabic"))
    ('übersetzung von _ ins arabische', 'translation of _ into _')
    """
    source, target = (_words(side) for side in pair)
    shared = {w.casefold() for w in source} & {w.casefold() for w in target}
    return (
        _joined("_" if _is_name(w, shared) else w.casefold() for w in source),
        _joined(
            "_" if _is_name(w, shared) or (i and w[0].isupper()) else w.casefold()
            for i, w in enumerate(target)
        ),
    )


def save(text: ParallelText, path: Path) -> None:
    """As a Parquet file, whole or not at all."""
    import pandas as pd

    rows = [
        (part, *pair)
        for part, pairs in (("train", text.train), ("validation", text.validation))
        for pair in pairs
    ]
    frame = pd.DataFrame(rows, columns=["part", "source", "target"])
    write_whole(path, lambda temporary: frame.to_parquet(temporary, index=False))


def load(path: Path, origin: str) -> ParallelText:
    """A text that `save` has written."""
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
        rows = list(zip(frame["part"], frame["source"], frame["target"], strict=True))
    except (OSError, KeyError, ValueError) as error:
        raise InvalidFile(f"{path} is no text that was prepared here: {error}.") from error
    train, validation = (
        tuple((str(s), str(t)) for part, s, t in rows if part == wanted)
        for wanted in ("train", "validation")
    )
    return ParallelText(origin, train, validation)


def _tidied(pair: Pair) -> Pair:
    source, target = (" ".join(side.split()) for side in pair)
    return source, target


def _words(side: str) -> list[str]:
    stripped = (word.strip(".,;:!?()[]{}\"'„“”‚‘’«»") for word in side.split())
    return [word for word in stripped if word]


def _is_name(word: str, shared: set[str]) -> bool:
    return word.casefold() in shared or _NAMELIKE.fullmatch(word) is None


def _joined(words: Iterable[str]) -> str:
    """One blank for a run of them: names have any number of words."""
    return re.sub(r"_(?: _)+", "_", " ".join(words))
