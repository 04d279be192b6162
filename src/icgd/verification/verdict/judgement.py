"""When a check may say "passed": what was measured lies within bounds that would have noticed something.

A bound decides nothing about a weight matrix or bias that could be left as it is within it. In a round such a
part is
    shown   if its largest bound is at most RESOLUTION of its largest exact update
    still   if the exact update is exactly 0: there is nothing to show
    blind   if it is neither
A round that met a ReLU so near its kink that rounding decides has the whole signal of that unit in its
bound. Whatever it did there is within the bound, so what counts is where the run ends up.

    failed        something lies outside its bound, or is NaN
    inconclusive  a bound is infinite; a part is blind in some round and shown in none, so that a program which
                  trains it wrongly would pass; nothing is shown at all; or kinks were met and the run strays
                  from the exact one by more than DRIFT of the way that one goes
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
RESOLUTION = 0.1
"""How small, as a fraction of the update, a bound must be to show it."""
DRIFT = 0.01
"""How far, as a fraction of the exact run's way, a run that met kinks may be from the exact one."""


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
        """Which parts were seen to be trained right."""
        return tuple(ratio <= RESOLUTION for ratio in self.ratios)

    @classmethod
    def of_all(cls, several: Sequence[Sight]) -> Sight:
        """Several problems at once: shown as well as in the worst of them, blind in any."""
        return cls(
            tuple(map(max, zip(*(s.ratios for s in several), strict=True))),
            tuple(map(any, zip(*(s.blind for s in several), strict=True))),
        )


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

    @property
    def within(self) -> bool:
        """Whether it lies within its bounds, entry by entry; never where something is NaN."""
        return bool(((self.got - self.exact).abs() <= self.bound).all())

    @property
    def is_blind(self) -> bool:
        """See the rule above."""
        finite = bool(torch.as_tensor(self.bound).isfinite().all())
        return not (self.ratio <= RESOLUTION or (finite and self.update == 0))


def sight(parts: Sequence[Part]) -> Sight:
    """What a round shows."""
    return Sight(tuple(p.ratio for p in parts), tuple(p.is_blind for p in parts))


def doubts(
    rounds: Sequence[Judged],
    names: Sequence[str],
    *,
    remedy: str,
    what: str = "round",
    drift: float = 0.0,
) -> list[str]:
    """Why these rounds do not decide anything, with the remedy; empty if they do.

    names   of the matrices and biases    remedy  how to get smaller bounds from this construction
    drift   largest distance to the exact run, as a fraction of the way that one goes
    """
    n, reasons = len(rounds), list[str]()
    infinite = [r.number for r in rounds if not math.isfinite(r.round_bound)]
    if infinite:
        reasons.append(
            f"The {what} bound is infinite in {len(infinite)} of {n} {what}s, first in {infinite[0]}: nothing "
            f"was shown there. {remedy}"
        )
    finite = [r for r in rounds if math.isfinite(r.round_bound)]
    kinked = [r.number for r in finite if r.near_kink]
    if kinked and not drift <= DRIFT:
        reasons.append(
            f"Rounding could decide a ReLU in {len(kinked)} of {n} {what}s, first {kinked[0]}, and the run "
            f"strays from the exact one by {drift:.2g} of the way that one goes. Standardise the data, so that "
            "pre-activations are not as small as rounding, or compile in float64."
        )
    untested = [
        name
        for k, name in enumerate(names)
        if any(r.sight.blind[k] for r in finite) and not any(r.sight.shown[k] for r in finite)
    ]
    if untested and not reasons:
        reasons.append(
            f"The bound on {', '.join(untested)} is larger than {RESOLUTION:.0%} of its update in every "
            f"{what}: a program that trains it wrongly could pass. {remedy}"
        )
    if rounds and not (reasons or any(any(r.sight.shown) for r in rounds)):
        reasons.append(
            f"No {what} moved the weights: a program that does not train would pass. "
            "Verify with data and weights from which there is something to learn."
        )
    return reasons


def resolution(rounds: Sequence[Judged]) -> float:
    """The fraction of its update that every part which moved was held to, in its best round; NaN for none.

    >>> from types import SimpleNamespace as Round
    >>> seen = [Sight((0.05, 3.0), (False, True)), Sight((0.5, 0.1), (True, False))]
    >>> resolution([Round(sight=sight) for sight in seen])
    0.1
    """
    if not rounds:
        return math.nan
    moved = [
        min(r.sight.ratios[k] for r in rounds)
        for k in range(len(rounds[0].sight.ratios))
        if any(r.sight.blind[k] or r.sight.ratios[k] < math.inf for r in rounds)
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
