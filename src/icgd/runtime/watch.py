"""The range watch: no head is ever asked outside the range it is certified for, silently."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.nn.masks import Step


@dataclass(frozen=True)
class KinkReport:
    """Units met so close to the ReLU's kink that rounding could decide whether they are open."""

    count: int = 0
    first: tuple[int, int, int] | None = None
    """(round, layer, unit), all counted from 1; the problem's index is left out in batches."""


@dataclass(slots=True)
class _Entry:
    round: int
    place: str
    layer: int
    label: str
    value: Tensor


class RangeWatch:
    """Collects what heads were asked and checks many steps in one go.

    radius      certified range of the heads
    slope       k of the closed units: 0 < z < 1/k is the ramp
    noise       bound on the error of a pre-activation, given the largest query met
    every       rounds between checks
    """

    def __init__(
        self, radius: float, slope: float, noise: Callable[[float], float], *, every: int = 64
    ) -> None:
        self.radius, self.slope, self.noise, self.every = radius, slope, noise, every
        self.max_use = 0.0
        self.near_kink = KinkReport()
        self._queries: list[_Entry] = []
        self._preactivations: list[_Entry] = []
        self._since = 0

    def log(self, round_: int, place: str, layer: int, label: str, value: Tensor) -> None:
        """Remember a tensor for the next check."""
        entry = _Entry(round_, place, layer, label, value)
        if label == "preactivation":
            self._preactivations.append(entry)
        else:
            self._queries.append(entry)

    def log_round(
        self, round_: int, watched: Sequence[tuple[Step, str, int]], registers: Sequence[Tensor]
    ) -> None:
        """Remember all watched tensors of a round."""
        for step, label, index in watched:
            self.log(round_, step.kind, step.writes[1], label, registers[index])

    def end_round(self) -> None:
        """Check once in a while."""
        self._since += 1
        if self._since >= self.every:
            self.flush()

    def flush(self) -> None:
        """Raise AssumptionViolated if any head was asked out of range since the last check."""
        self._since = 0
        queries, self._queries = self._queries, []
        preactivations, self._preactivations = self._preactivations, []
        if queries:
            largest = float(torch.cat([e.value for e in queries], dim=-1).abs().amax())
            if not largest <= self.radius:  # also true for NaN
                self._complain(queries)
            self.max_use = max(self.max_use, largest / self.radius)
        if preactivations:
            self._count_kinks(preactivations)

    def _count_kinks(self, entries: list[_Entry]) -> None:
        tolerance = self.noise(self.max_use * self.radius)

        def near(z: Tensor) -> Tensor:
            # z = 0 exactly (everything upstream closed, no bias) is closed on both sides.
            return (z != 0) & ((z.abs() <= tolerance) | ((z > 0) & (z < 1 / self.slope)))

        count = int(near(torch.cat([e.value for e in entries], dim=-1)).sum())
        if not count:
            return
        first = self.near_kink.first
        for entry in entries if first is None else ():
            units = near(entry.value).nonzero()
            if len(units):
                first = (entry.round, entry.layer, int(units[0, -1]) + 1)
                break
        self.near_kink = KinkReport(self.near_kink.count + count, first)

    def _complain(self, entries: list[_Entry]) -> None:
        for entry in entries:
            largest = float(entry.value.abs().amax())
            if largest <= self.radius:
                continue
            size = entry.value.abs()
            worst = torch.where(size.isnan(), torch.inf, size).flatten().argmax()
            unit = int(worst) % entry.value.shape[-1]
            raise AssumptionViolated(
                out_of_range(entry.label, entry.place, unit + 1, largest, self.radius, entry.round)
            )


def out_of_range(head: str, place: str, unit: int, value: float, radius: float, round_: int) -> str:
    """The sentence every range excursion is reported with."""
    if math.isfinite(value):
        wanted = 2.0 ** math.ceil(math.log2(1.25 * value))
        remedy = f"Recompile with radius >= {wanted:g}, standardise the data, or lower lr."
    else:
        remedy = "Training diverged: lower lr or standardise the data."
    return (
        f"Head {head} met |s| = {value:.6g} at slot {place}[{unit}] in round {round_}, outside its "
        f"certified range [-{radius:g}, {radius:g}]. {remedy}"
    )
