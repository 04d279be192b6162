"""Mask rules: which blocks of the prompt a step sees, and which block it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

Address = tuple[str, int]
"""A block of the prompt by kind and layer, always the latest one: ("F", 2), ("B", 1), ("X", 0)."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the layer.

    reads     the visible blocks, in the order in which they are stacked
    reusable  slots whose old storage no later step reads, so that it may be overwritten
    """

    kind: str
    writes: Address
    reads: tuple[Address, ...]
    reusable: frozenset[str] = frozenset()


class MaskRule(Protocol):
    """The schedule of one round; the layer itself never sees it.

    replaces  whether a step overwrites the block it reads; otherwise the prompt grows
    """

    replaces: ClassVar[bool]

    def steps(self) -> Sequence[Step]:
        """The steps of a round in order."""

    def forward_steps(self) -> Sequence[Step]:
        """The steps of a round that only predicts."""


@dataclass(frozen=True)
class DynamicMask:
    """Dynamic masking by (round, layer) for an N-layer network.

    Statement: [COT] Definition 4.4

    F_1 sees {B_1, X_l};  F_i sees {F_{i-1}, B_i};  B_N sees {F_N, Y_l};  B_i sees {B_{i+1}, F_i}.

    Differs from the paper: the printed index formula is off by one and two and its text asks for
    B_{i-1}; addressing by (round, layer) needs no formula. See docs/errata.md.

    >>> [step.kind for step in DynamicMask(2).steps()]
    ['x', 'forward', 'y', 'backward']
    """

    n_layers: int

    replaces: ClassVar[bool] = False

    def steps(self) -> tuple[Step, ...]:
        """N forward steps, then N backward steps."""
        n = self.n_layers
        reusable = frozenset({"weight", "bias"})
        forward = [Step("x", ("F", 1), (("B", 1), ("X", 0)))]
        forward += [Step("forward", ("F", i), (("F", i - 1), ("B", i))) for i in range(2, n + 1)]
        backward = [Step("y", ("B", n), (("F", n), ("Y", 0)), reusable)]
        backward += [
            Step("backward", ("B", i), (("B", i + 1), ("F", i)), reusable)
            for i in range(n - 1, 0, -1)
        ]
        return (*forward, *backward)

    def forward_steps(self) -> tuple[Step, ...]:
        """The steps of a round that predicts and does not learn."""
        return self.steps()[: self.n_layers]


@dataclass(frozen=True)
class WindowMask:
    """A window of one block: every step sees the last block and appends the next.

    Statement: [COT] Definition 3.1

    Differs from the paper: no; the window of n tokens is the last block.

    >>> WindowMask().steps()[0].reads
    (('G', 0),)
    """

    replaces: ClassVar[bool] = False

    def steps(self) -> tuple[Step, ...]:
        """One update per round."""
        return (Step("update", ("G", 0), (("G", 0),)),)

    def forward_steps(self) -> tuple[Step, ...]:
        """One prediction."""
        return (Step("predict", ("P", 0), (("G", 0),)),)


@dataclass(frozen=True)
class StateMask:
    """One block that holds the whole state: every step sees it and replaces it.

    Statement: [DEEP] Problem 1

    Differs from the paper: no; its layers act on one matrix of tokens.

    >>> [step.writes for step in StateMask().steps()]
    [('H', 0)]
    """

    replaces: ClassVar[bool] = True

    def steps(self) -> tuple[Step, ...]:
        """One update per round."""
        return (Step("update", ("H", 0), (("H", 0),)),)

    def forward_steps(self) -> tuple[Step, ...]:
        """One prediction."""
        return (Step("predict", ("P", 0), (("H", 0),)),)


@dataclass(frozen=True)
class GrowingMask:
    """One prompt that every step sees as a whole and makes longer.

    Statement: [LSA] Theorem 3.2

    Tokens that ask for predictions stand in a block of their own, which no step but the last one sees.

    Differs from the paper: it has no such tokens; its model ends with the weights.

    >>> [step.writes for step in GrowingMask().steps()]
    [('H', 0)]
    """

    replaces: ClassVar[bool] = False

    def steps(self) -> tuple[Step, ...]:
        """One token per round."""
        return (Step("append", ("H", 0), (("H", 0),)),)

    def forward_steps(self) -> tuple[Step, ...]:
        """One prediction."""
        return (Step("predict", ("P", 0), (("H", 0), ("Q", 0))),)


ENTER = Step("enter", ("H", 0), (("H", 0),))
"""What layers that are applied once do to the state before the first step."""
