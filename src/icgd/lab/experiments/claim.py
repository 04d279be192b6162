"""What a claim is, and the four verdicts on one.

A verdict rests on trained models. Models that have not learned what a naive predictor of their task has (a
constant, least squares, ridge on the raw inputs) show how far their training got, not what they can do: then
the verdict is "undertrained", whichever way the numbers point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from icgd.errors import InvalidParameter


class Verdict(Enum):
    """What becomes of a claim; the value is the word for it."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    UNDERTRAINED = "undertrained"
    OPEN = "not decided"

    @property
    def mark(self) -> str:
        """One character, for lists of claims."""
        return _MARKS[self]


_MARKS = {
    Verdict.REPRODUCED: "✓",
    Verdict.NOT_REPRODUCED: "✗",
    Verdict.UNDERTRAINED: "▽",
    Verdict.OPEN: "?",
}
_OUR_WORDS = {
    Verdict.REPRODUCED: "yes",
    Verdict.NOT_REPRODUCED: "no",
    Verdict.UNDERTRAINED: "undertrained",
    Verdict.OPEN: "not decided",
}
"""Of a question of our own, nothing can be reproduced."""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper beside what was measured.

    short      a few words, for lists
    paper      what the paper says, in our words
    found      the numbers
    holds      None: these runs do not decide it, because seeds disagree or models are undertrained
    ours       a question the paper does not ask
    shortfalls models that are worse than a naive predictor of their task, each with its numbers
    gated      whether models were compared with naive predictors. False where no trained model is judged, or
               where the question is itself whether a model beats a naive predictor
    """

    short: str
    paper: str
    found: str
    holds: bool | None
    ours: bool = False
    shortfalls: tuple[str, ...] = ()
    gated: bool = False

    def __post_init__(self) -> None:
        if self.shortfalls and self.holds is True:
            raise InvalidParameter(
                "holds",
                self.holds,
                "be None or False beside shortfalls",
                remedy="Undertrained models reproduce nothing: form the claim with `gated_claim`.",
            )

    @property
    def verdict(self) -> Verdict:
        """What becomes of it."""
        if self.holds is None:
            return Verdict.UNDERTRAINED if self.shortfalls else Verdict.OPEN
        return Verdict.REPRODUCED if self.holds else Verdict.NOT_REPRODUCED

    @property
    def word(self) -> str:
        """The verdict in a word, as the paper's claim or as a question of ours."""
        return (_OUR_WORDS[self.verdict]) if self.ours else self.verdict.value


@dataclass(frozen=True)
class Case:
    """One comparison a claim is made of.

    holds      what the numbers say
    shortfalls models in it that are worse than a naive predictor
    """

    holds: bool | None
    shortfalls: tuple[str, ...] = ()


def gated_claim(
    short: str, paper: str, measured: str, cases: Sequence[Case], *, ours: bool = False
) -> Claim:
    """A claim over cases, of which those with undertrained models decide nothing.

    A case that fails with models that have learned refutes the claim; all cases must hold, with models that
    have learned, to confirm it. One model that falls short is enough: an order of two models, of which one has
    not learned the task, says which trains faster at this budget.

    >>> gated_claim("a", "", "", [Case(True), Case(True, ("b is worse",))]).verdict
    <Verdict.UNDERTRAINED: 'undertrained'>
    >>> gated_claim("a", "", "", [Case(False), Case(True, ("b is worse",))]).verdict
    <Verdict.NOT_REPRODUCED: 'not reproduced'>
    """
    facts = [None if case.shortfalls else case.holds for case in cases]
    shortfalls = tuple(dict.fromkeys(text for case in cases for text in case.shortfalls))
    return Claim(short, paper, measured, combined(facts), ours, shortfalls, gated=True)


def combined(facts: Sequence[bool | None]) -> bool | None:
    """What a claim over several cases comes to: one case that fails refutes it, all must hold to confirm it.

    >>> combined([True, True]), combined([True, False, None]), combined([True, None])
    (True, False, None)
    """
    if False in facts:
        return False
    return True if facts and None not in facts else None


def tally(claims: Sequence[Claim]) -> str:
    """How many claims of the paper came to which verdict, then our own questions.

    >>> tally([Claim("a", "", "", True), Claim("b", "", "", None), Claim("q", "", "", False, ours=True)])
    '1 reproduced, 1 not decided; our own questions: 1 no'
    """
    theirs, ours = (
        _counted([claim for claim in claims if claim.ours is own]) for own in (False, True)
    )
    return "; ".join(
        part for part in (theirs, f"our own questions: {ours}" if ours else "") if part
    )


def _counted(claims: Sequence[Claim]) -> str:
    """In the order of the verdicts; what does not occur is left out."""
    counts = Counter((claim.verdict, claim.word) for claim in claims)
    order = list(Verdict)
    return ", ".join(
        f"{counts[key]} {key[1]}" for key in sorted(counts, key=lambda k: order.index(k[0]))
    )
