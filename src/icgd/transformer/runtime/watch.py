"""The range watch: no head is ever asked outside the range it is certified for, silently."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.errors import OutOfRange
from icgd.transformer.nn.limits import Limits


@dataclass(frozen=True)
class KinkReport:
    """Units met so close to the ReLU's kink that rounding could decide whether they are open."""

    count: int = 0
    first: tuple[int, int, int] | None = None
    """(round, layer, unit), all counted from 1; the problem's index is left out in batches."""


@dataclass(frozen=True)
class Watched:
    """Where a watched tensor comes from: step kind, layer, what looked at it, and its slot."""

    place: str
    layer: int
    label: str
    slot: str
    option: str = "radius"
    """The option of compile that widens its range."""
    limits: Limits | None = None
    """Where it may be asked; within the radius of the watch unless given."""

    @property
    def is_query(self) -> bool:
        """Whether a head asked this; otherwise it is a hidden pre-activation."""
        return self.label != "preactivation"


Logged = tuple[int, Sequence[Watched], Sequence[Tensor]]


class RangeWatch:
    """Collects what heads were asked and checks many steps in one go.

    radius      certified range of the heads
    slope       k of the closed units: 0 < z < 1/k is the ramp
    noise       bound on the error of a pre-activation, given the largest query met
    every       rounds between checks
    z_bound     largest pre-activation for which closed units are exact
    units       units of each layer, where literal tokens hold padding beside them
    exact_zero  whether a head that is asked 0 answers exactly 0
    """

    def __init__(
        self,
        radius: float,
        slope: float,
        noise: Callable[[float], float],
        *,
        every: int = 64,
        z_bound: float = math.inf,
        units: Mapping[int, int] | None = None,
        exact_zero: bool = True,
    ) -> None:
        self.radius, self.slope, self.noise, self.every = radius, slope, noise, every
        self.z_bound, self.units, self.exact_zero = z_bound, units or {}, exact_zero
        self.max_use = self._use_since = 0.0
        self._released = False
        self.near_kink = KinkReport()
        self._queries: list[Logged] = []
        self._preactivations: list[Logged] = []
        self._since = 0

    def log_queries(
        self, round_: int, sources: Sequence[Watched], values: Sequence[Tensor]
    ) -> None:
        """Remember what heads were asked for the next check."""
        self._queries.append((round_, sources, values))

    def log_preactivations(
        self, round_: int, sources: Sequence[Watched], values: Sequence[Tensor]
    ) -> None:
        """Remember hidden pre-activations."""
        self._preactivations.append((round_, sources, values))

    def use(self, fraction: float) -> None:
        """Note that so much of a range was used."""
        self.max_use = max(self.max_use, fraction)
        self._use_since = max(self._use_since, fraction)

    def use_since(self) -> float:
        """The largest use since this was last asked."""
        self.flush()
        use, self._use_since = self._use_since, 0.0
        return use

    def release(self) -> None:
        """Let heads be asked anything from now on."""
        self.radius = self.z_bound = math.inf
        self._released = True

    def end_round(self) -> None:
        """Check once in a while."""
        self._since += 1
        if self._since >= self.every:
            self.flush()

    def flush(self) -> None:
        """Raise OutOfRange if any head was asked out of range since the last check."""
        self._since = 0
        queries, self._queries = self._queries, []
        preactivations, self._preactivations = self._preactivations, []
        plain, limited = _apart(queries)
        if plain:
            low, high = torch.aminmax(torch.cat(plain))
            largest = max(-float(low), float(high)) if bool(low == low) else math.nan
            if not largest <= self.radius:  # also true for NaN
                self._complain(queries, self.radius)
            self.use(largest / self.radius)
        self._check_limits(limited, queries)
        if preactivations:
            self._count_kinks(preactivations, queries)

    def _check_limits(self, limited: Mapping[Limits, list[Tensor]], queries: list[Logged]) -> None:
        """One look at everything that was asked within the same limits."""
        for limits, values in limited.items():
            least, largest = map(float, torch.aminmax(limits.measured(torch.cat(values))))
            if not (self._released or limits.hold(least, largest)):  # also where something is NaN
                self._complain_of(limits, queries)
            if limits.of_size and math.isfinite(limits.high):
                self.use(largest / limits.high)

    def _complain_of(self, limits: Limits, queries: list[Logged]) -> None:
        for round_, source, value in _each(queries):
            if source.limits == limits and not bool(limits.inside(value).all()):
                raise beyond_limits(source, value.reshape(-1), round_)

    def _complain(self, logged: list[Logged], limit: float) -> None:
        for round_, source, value in _each(logged):
            if source.limits is None:
                self._complain_about(round_, source, value, limit)

    def _count_kinks(self, logged: list[Logged], queries: list[Logged]) -> None:
        tolerance = self.noise(self.max_use * self.radius)
        z = _joined(logged)
        # A closed unit is exact up to slope * z = 2^53; beyond, and for NaN, it means nothing.
        if not float(z.amax()) <= self.z_bound:
            self._complain(logged, self.z_bound)
        if not bool((z.abs() <= max(tolerance, 1 / self.slope)).any()):
            return
        count, first, not_zero = 0, self.near_kink.first, _asked_anything(queries)
        for round_, source, value in _each(logged):
            value = value[..., : self.units.get(source.layer, value.shape[-1])]
            near = (value.abs() <= tolerance) | ((value > 0) & (value < 1 / self.slope))
            # z = 0 exactly is closed on both sides if nothing but zeros was read; else it is a sum that
            # rounding, ours or the oracle's, may put on either side.
            if self.exact_zero:
                read = not_zero.get((round_, source.place, source.layer))
                near &= (value != 0) if read is None else (value != 0) | read
            n_near = int(near.sum())
            if n_near and first is None:
                first = (round_, source.layer, int(near.nonzero()[0, -1]) + 1)
            count += n_near
        if count:
            self.near_kink = KinkReport(self.near_kink.count + count, first)

    def _complain_about(self, round_: int, source: Watched, value: Tensor, limit: float) -> None:
        size = value.abs() if source.is_query else value
        largest = float(size.amax())
        if largest <= limit:
            return
        worst = torch.where(size.isnan(), torch.inf, size).flatten().argmax()
        unit = int(worst) % value.shape[-1] + 1
        raise out_of_range(source, unit, largest, limit, round_)


def _apart(logged: list[Logged]) -> tuple[list[Tensor], dict[Limits, list[Tensor]]]:
    """What the radius limits, and what has limits of its own, by these."""
    plain: list[Tensor] = []
    limited: dict[Limits, list[Tensor]] = {}
    for _, source, value in _each(logged):
        if value.numel():
            into = plain if source.limits is None else limited.setdefault(source.limits, [])
            into.append(value.reshape(-1))
    return plain, limited


def _joined(logged: list[Logged]) -> Tensor:
    return torch.cat([value.reshape(-1) for _, _, values in logged for value in values])


def _each(logged: list[Logged]) -> Iterator[tuple[int, Watched, Tensor]]:
    for round_, sources, values in logged:
        for source, value in zip(sources, values, strict=True):
            yield round_, source, value


def _asked_anything(queries: list[Logged]) -> dict[tuple[int, str, int], Tensor]:
    """Per (round, step kind, layer): whether any head was asked a number that is not 0, problem by problem."""
    not_zero: dict[tuple[int, str, int], Tensor] = {}
    for round_, source, value in _each(queries):
        key, some = (round_, source.place, source.layer), (value != 0).any(dim=-1, keepdim=True)
        not_zero[key] = some | not_zero[key] if key in not_zero else some
    return not_zero


def out_of_range(
    source: Watched, unit: int, value: float, radius: float, round_: int
) -> OutOfRange:
    """The error every range excursion is reported with."""
    if math.isfinite(value):
        wanted = 2.0 ** math.ceil(math.log2(1.25 * value))
        remedy = f"Recompile with {source.option} >= {wanted:g}, standardise the data, or lower lr."
        if (
            source.option == "x_radius"
        ):  # products of two vectors: their range grows with its square
            larger = math.sqrt(1.25 * value / radius)
            remedy = f"Give the problem an x_radius {larger:.2g} times as large, or scale the data."
    else:
        remedy = "Training diverged: lower lr or standardise the data."
    what = f"Head {source.label}" if source.is_query else "A closed unit"
    met = (
        f"{what} met |s| = {value:.6g} at slot {source.slot}[{unit}] ({source.place} step, layer "
        f"{source.layer}) in round {round_}"
    )
    return OutOfRange(met, value, radius, source.option, remedy)


def beyond_limits(source: Watched, value: Tensor, round_: int) -> OutOfRange:
    """The error of a query outside of its own limits: instruction, line, number and remedy."""
    limits = source.limits
    assert limits is not None
    unit = int((~limits.inside(value)).int().argmax())
    number = float(value[unit])
    met = (
        f"{limits.what} met {number:.9g} at entry {unit + 1} of what it was asked ({source.place}) in round "
        f"{round_}"
    )
    return OutOfRange(met, number, limits.high, "", limits.remedy, limits.shown)
