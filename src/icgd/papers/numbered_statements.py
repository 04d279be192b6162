"""The numbered statements of each paper, and which of them have a row in the theorem table.

A table can only be judged beside what it leaves out. Restatements in an appendix (Theorem C.1 of [COT]
for its Theorem 3.1) are not counted again; of [LSA] only those are known that the summary names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from icgd.errors import InvalidParameter


def _all(**numbers: Iterable[int | str]) -> tuple[str, ...]:
    """ "Theorem 3.1", ... from Theorem=("3.1", ...)."""
    return tuple(f"{kind} {number}" for kind, listed in numbers.items() for number in listed)


NUMBERED: dict[str, tuple[str, ...]] = {
    "COT": _all(
        Definition=("2.1", "2.2", "2.3", "3.1", "3.2", "4.1", "4.2", "4.3", "4.4", "A.1"),
        Lemma=("3.1", "A.1", "A.2", "A.3", "A.4", "A.5"),
        Theorem=("3.1", "3.2", "3.3", "4.1", "4.2"),
        Proposition=("4.1", "4.2", "4.3", "4.4"),
        Remark=("2.1", "2.2", "3.1", "3.2", "3.3", "4.1", "4.2", "A.1"),
    ),
    "DEEP": _all(
        Problem=range(1, 4),
        Definition=range(1, 14),
        Remark=range(1, 4),
        Lemma=range(1, 20),
        Theorem=range(1, 7),
        Corollary=("1.1", "4.1"),
    ),
    "BRIDGE": _all(
        Definition=range(1, 5),
        Assumption=range(1, 3),
        Theorem=range(1, 5),
        Remark=range(1, 3),
        Lemma=range(1, 6),
    ),
    "ALGO": _all(
        Lemma=("A.1", "A.2", "A.3", "A.4", "A.5"), Theorem=("3.1", "3.2", "3.3", "4.1", "4.2")
    ),
    "LSA": _all(Theorem=("3.1", "3.2", "4.1", "4.2"), Corollary=("3.1",)),
}

_NUMBER = re.compile(r"(?:([A-Z][a-z]+) )?((?:[A-Z]\.)?\d+(?:\.\d+)?)")


def named(statement: str) -> set[str]:
    """The numbered statements that a row's title stands for.

    >>> sorted(named("Lemma 2, 9 (products)"))
    ['Lemma 2', 'Lemma 9']
    >>> named("C.9, Steps 1 and 2")
    set()
    """
    names, kind = set(), ""
    for part in re.split(r",\s*|\s*\(", statement):
        match = _NUMBER.fullmatch(part)
        if match:
            kind = match.group(1) or kind
            names |= {f"{kind} {match.group(2)}"} if kind else set()
    return names


def without_row(paper: str, titles: Iterable[str]) -> list[str]:
    """Numbered statements of a paper that none of these rows is about, in the order of the list."""
    if paper not in NUMBERED:
        raise InvalidParameter("paper", paper, f"be one of {sorted(NUMBERED)}")
    have = set().union(*(named(title) for title in titles))
    return [statement for statement in NUMBERED[paper] if statement not in have]


def coverage(paper: str, titles: Iterable[str]) -> str:
    """One sentence on how many numbered statements have a row, and which have none.

    >>> coverage("LSA", ["Theorem 3.1, 3.2", "Theorem 4.1", "Corollary 3.1"])
    '4 of 5 numbered statements of LSA have a row; none: Theorem 4.2.'
    """
    missing, total = without_row(paper, titles), len(NUMBERED[paper])
    if not missing:
        return f"All {total} numbered statements of {paper} have a row."
    listed = ", ".join(missing)
    return f"{total - len(missing)} of {total} numbered statements of {paper} have a row; none: {listed}."
