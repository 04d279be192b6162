"""When a check may say "passed": what was measured lies within bounds that would have noticed something.

A bound decides nothing about a weight matrix or bias that could be left as it is within it. In a round such a
part is
    shown   if its largest bound is below its largest exact update; their ratio says how well
    still   if the exact update is exactly 0: there is nothing to show
    blind   if it is neither
A round that met a ReLU so near its kink that rounding decides has the whole signal of that unit in its
bound. A part is not called blind there if it agrees with the exact one to half the digits anyway.

    failed        something lies outside its bound, or is NaN
    inconclusive  a bound is infinite; a part is blind in some round and shown in none, so that a program which
                  does not train it would pass; more than one round in ten is blind and met a kink; or nothing
                  is shown at all
    passed        none of these

One round that shows a part is enough, because every round applies the same frozen weights: a run that
converges makes steps smaller than any fit is exact, and would otherwise pass or not by its length. How much
a pass says is `resolution`: the update of every part that moved was held, in its best round, to that fraction
of itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

Outcome = Literal["passed", "failed", "inconclusive"]
KINKED_SHARE = 0.1
"""Fraction of the rounds that kinks may leave undecided."""


class Judged(Protocol):
    """What a round says of itself."""

    @property
    def number(self) -> int:
        """Counted from 1."""

    @property
    def round_bound(self) -> float:
        """Bound on the error of this round."""

    @property
    def near_kink(self) -> int:
        """Units that rounding could decide."""

    @property
    def sight(self) -> Sight:
        """What its bounds show."""


@dataclass(frozen=True)
class Sight:
    """Per matrix or bias of a round: its largest bound over its largest update, and whether that is blind."""

    ratios: tuple[float, ...]
    blind: tuple[bool, ...]

    @property
    def shown(self) -> tuple[bool, ...]:
        """Which parts could not have been left alone."""
        return tuple(ratio < 1 for ratio in self.ratios)

    @classmethod
    def of_all(cls, several: Sequence[Sight]) -> Sight:
        """Several problems at once: shown as well as in the worst of them, blind in any."""
        return cls(
            tuple(map(max, zip(*(s.ratios for s in several), strict=True))),
            tuple(map(any, zip(*(s.blind for s in several), strict=True))),
        )


def half_the_digits(dtype: torch.dtype, *sizes: float) -> float:
    """The difference up to which numbers as large as the largest of these agree to half their digits.

    >>> half_the_digits(torch.float64, 2.0) == 2 * 2.0**-26
    True
    """
    return math.sqrt(torch.finfo(dtype).eps) * max(sizes)


@dataclass(frozen=True)
class Part:
    """One matrix or vector of a round: before it, after an exact one, as it came out; bounds on the error."""

    before: Tensor
    exact: Tensor
    got: Tensor
    bound: Tensor | float

    @property
    def update(self) -> float:
        """Largest entry of the exact update."""
        return float((self.exact - self.before).abs().max())

    @property
    def ratio(self) -> float:
        """Largest bound over largest update; below 1, leaving the part alone would be rejected."""
        largest = float(torch.as_tensor(self.bound, dtype=torch.float64).max())
        return largest / self.update if self.update > 0 else math.inf

    def is_blind(self, coarse: float, near_kink: int) -> bool:
        """See the rule above; `coarse` is half the digits."""
        finite = bool(torch.as_tensor(self.bound).isfinite().all())
        if self.ratio < 1 or (finite and self.update == 0):
            return False
        error = float((self.got - self.exact).abs().max())
        return not (near_kink and error <= coarse)


def sight(parts: Sequence[Part], near_kink: int, dtype: torch.dtype) -> Sight:
    """What a round shows."""
    sizes = [float(t.abs().max()) for part in parts for t in (part.before, part.exact)]
    coarse = half_the_digits(dtype, *sizes)
    return Sight(tuple(p.ratio for p in parts), tuple(p.is_blind(coarse, near_kink) for p in parts))


def doubts(
    rounds: Sequence[Judged], names: Sequence[str], *, remedy: str, what: str = "round"
) -> list[str]:
    """Why these rounds do not decide anything, with the remedy; empty if they do.

    names   of the matrices and biases    remedy  how to get smaller bounds from this construction
    """
    n, found = len(rounds), list[str]()
    infinite = [r.number for r in rounds if not math.isfinite(r.round_bound)]
    if infinite:
        found.append(
            f"The {what} bound is infinite in {len(infinite)} of {n} {what}s, first in {infinite[0]}: nothing "
            f"was shown there. {remedy}"
        )
    finite = [r for r in rounds if math.isfinite(r.round_bound)]
    blind = [r for r in finite if any(r.sight.blind)]
    kinked = [r.number for r in blind if r.near_kink]
    if len(kinked) > KINKED_SHARE * n:
        found.append(
            f"Rounding could decide a ReLU in {len(kinked)} of {n} {what}s, first {kinked[0]}, and these are "
            "not close to exact ones: nothing was shown there. Standardise the data, so that pre-activations "
            "are not as small as rounding, or compile in float64."
        )
    untested = [
        name
        for k, name in enumerate(names)
        if any(r.sight.blind[k] for r in finite) and not any(r.sight.shown[k] for r in finite)
    ]
    if untested and not found:
        found.append(
            f"The bound on {', '.join(untested)} is larger than its update in every {what}: a program that "
            f"does not train it would pass. {remedy}"
        )
    if rounds and not (found or any(any(r.sight.shown) for r in rounds)):
        found.append(
            f"No {what} moved the weights: a program that does not train would pass. "
            "Verify with data and weights from which there is something to learn."
        )
    return found


def resolution(rounds: Sequence[Judged]) -> float:
    """The fraction of its update that every part which moved was held to, in its best round; NaN for none.

    >>> from types import SimpleNamespace as Round
    >>> seen = [Sight((0.2, 3.0), (False, True)), Sight((0.5, 0.1), (False, False))]
    >>> resolution([Round(sight=sight) for sight in seen])
    0.2
    """
    if not rounds:
        return math.nan
    moved = [
        min(r.sight.ratios[k] for r in rounds)
        for k in range(len(rounds[0].sight.ratios))
        if any(r.sight.blind[k] or r.sight.ratios[k] < 1 for r in rounds)
    ]
    return max(moved, default=math.nan)


def part_names(n_layers: int, bias: bool) -> list[str]:
    """Names of a network's weights, in the order they are compared in.

    >>> part_names(2, True)
    ['W_1', 'b_1', 'W_2', 'b_2']
    """
    return [f"{kind}_{i}" for i in range(1, n_layers + 1) for kind in ("W", "b")[: 1 + bias]]


def infinite_bounds(what: str, bounds: Iterable[float]) -> list[str]:
    """A sentence if a bound that something was held against is infinite or NaN."""
    listed = list(bounds)
    wrong = sum(not math.isfinite(bound) for bound in listed)
    return [
        f"The bound of {wrong} of {len(listed)} {what} is infinite: nothing was shown there."
    ] * bool(wrong)


def outcome(*, sound: bool, doubts: Sequence[str]) -> Outcome:
    """The verdict: what is outside a bound has failed, whatever else is in doubt."""
    if not sound:
        return "failed"
    return "inconclusive" if doubts else "passed"
