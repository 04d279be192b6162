"""A made-up pair of languages, to try things out on: small, and the same on every machine.

The source puts its verb last and says when something happened first; the target has the verb in the middle
and the time last. Every word has one translation, so that whoever reads the source can be certain of the
target.
"""

from __future__ import annotations

import random

from icgd.lab.text.pairs import Pair, ParallelText, cleaned

ORIGIN = "made-up"
N_PAIRS = 400
_WORDS = {"noun": 12, "adjective": 8, "verb": 8, "time": 5}
_SOURCE_SYLLABLES = ("ka", "lo", "mi", "tu", "re", "sho")
_TARGET_SYLLABLES = ("bel", "dar", "fim", "gop", "wus", "zet")


def made_up_text(n_pairs: int = N_PAIRS, seed: int = 0) -> ParallelText:
    """Sentences of the two languages."""
    chance = random.Random(seed)
    pairs = {_pair(chance): None for _ in range(n_pairs)}
    return cleaned(pairs, ORIGIN, "The made-up text")


def _pair(chance: random.Random) -> Pair:
    subject, object_ = (_noun_phrase(chance) for _ in range(2))
    verb, time = [_drawn("verb", chance)], [_drawn("time", chance)]
    return _sentence(time + subject + object_ + verb, 0), _sentence(
        subject + verb + object_ + time, 1
    )


def _noun_phrase(chance: random.Random) -> list[int]:
    described = [_drawn("adjective", chance)] if chance.random() < 0.5 else []
    return [*described, _drawn("noun", chance)]


def _drawn(kind: str, chance: random.Random) -> int:
    """The number of a word: kinds of words are numbered one after the other."""
    kinds = list(_WORDS)
    first = sum(_WORDS[k] for k in kinds[: kinds.index(kind)])
    # random() is the same in every version of Python; choice() has changed before.
    return first + int(chance.random() * _WORDS[kind])


def _sentence(words: list[int], side: int) -> str:
    syllables = (_SOURCE_SYLLABLES, _TARGET_SYLLABLES)[side]
    n = len(syllables)
    return " ".join(syllables[w // n % n] + syllables[w % n] for w in words)
