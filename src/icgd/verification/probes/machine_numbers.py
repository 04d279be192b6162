"""Numbers that steps of a machine are probed with: of all sizes, at edges, ties, zeros."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from icgd.mechanisms.machine.tape.instruction import Instruction, Kind, Opcode, Operand
from icgd.transformer.gadgets.machine_heads.heads import Heads

DECADES = 20.0
"""Numbers that no head is asked reach over so many powers of ten."""
MOST_SETS = 400
"""Probes of one kind of step, at most."""


class Numbers:
    """Random registers; the generator is the only source of randomness."""

    def __init__(self, heads: Heads, seed: int) -> None:
        self.heads, self.dtype = heads, heads.dtype
        self._generator = torch.Generator().manual_seed(seed)
        self._points: dict[str, Tensor] = {}

    def sets(self, i: Instruction, least: int, *, every: bool = True) -> list[list[Tensor]]:
        """Values for the registers of an instruction, several times.

        every  ask heads at every point where they answer differently, and not only at some
        """
        at = i.read_operand
        if at is None:
            return [self._set(i, k) for k in range(max(4, least))]
        name = i.settings.get("function", "read")
        if i.opcode is Opcode.SOFTMAX:
            return [
                self._set(i, k, at, 8 * self._uniform(*i.operands[0].register.shape))
                for k in range(4)
            ]
        points, size = self.points(name), i.operands[at].register.size
        enough = math.ceil(len(points) / size) if every else 0
        n_sets = min(MOST_SETS, max(4 * least, enough))
        sets = []
        for k in range(n_sets):
            stride = size if every else max(1, len(points) // n_sets)
            index = (torch.arange(size) + k * stride) % len(points)
            shape = i.operands[at].register.shape
            sets.append(self._set(i, k, at, points[index].reshape(shape)))
        return sets

    def _set(
        self, i: Instruction, k: int, at: int = -1, query: Tensor | None = None
    ) -> list[Tensor]:
        """One value per operand; the same register has the same value everywhere."""
        known: dict[str, Tensor] = {}
        if query is not None:
            known[i.operands[at].register.name] = query
        for operand in i.operands:
            if operand.register.name not in known:
                known[operand.register.name] = self._value(operand, k)
        values = [known[operand.register.name] for operand in i.operands]
        if i.opcode in (Opcode.COMPARE, Opcode.EQUALS):
            values[1] = self._near(i.operands, values)
        return values

    def _value(self, operand: Operand, k: int) -> Tensor:
        register = operand.register
        if register.kind is Kind.FLAG:
            return self._uniform(*register.shape) > 0
        if register.kind is Kind.INDEX:
            return (8 * self._uniform(*register.shape)).round()
        sign = self._uniform(*register.shape).sign()
        if k % 2:  # of ordinary size
            return self._uniform(*register.shape)
        power = DECADES * (0.5 - torch.rand(register.shape, generator=self._generator))
        return sign * (10.0 ** power.to(torch.float64)).to(self.dtype)

    def _near(self, operands: tuple[Operand, ...], values: list[Tensor]) -> Tensor:
        """A second side of which some entries are those of the first, or next to them."""
        first, second = values[0], values[1]
        same = operands[0].register.name == operands[1].register.name
        if same or first.shape != second.shape:
            return second
        choice = torch.randint(0, 4, first.shape, generator=self._generator)
        least = torch.full_like(
            first, 2.0**-100
        )  # comparisons are exact down to differences of 1 / RAMP
        up = torch.nextafter(first, torch.full_like(first, math.inf))
        down = torch.nextafter(first, torch.full_like(first, -math.inf))
        up, down = torch.where(first == 0, least, up), torch.where(first == 0, -least, down)
        for k, near in enumerate((first, up, down)):
            second = torch.where(choice == k, near, second)
        return second

    def _uniform(self, *shape: int) -> Tensor:
        raw = torch.rand(shape, generator=self._generator, dtype=torch.float64)
        return (2 * raw - 1).to(self.dtype)

    def leftovers(self, n: int) -> Tensor:
        """What stands in a block behind its register."""
        return 100 * self._uniform(n)

    # -- numbers that heads are asked ---------------------------------------------------------------

    def points(self, name: str) -> Tensor:
        """In order: of every bucket its edges, their neighbours, and what lies between."""
        if name not in self._points:
            self._points[name] = self._points_of(name)
        return self._points[name]

    def _points_of(self, name: str) -> Tensor:
        domain = self.heads.domain(name)
        edges = [domain.low, domain.high, 0.0, -1.0, 1.0]
        inner: list[float] = []
        for bucket in self.heads.table(name).buckets:
            low, high = sorted((bucket.sign * bucket.low, bucket.sign * bucket.high))
            edges += [low, high]
            inner += [low + (high - low) * float(torch.rand((), generator=self._generator))]
        if not all(map(math.isfinite, inner)):
            inner = self._spread(min(domain.high, 64.0))
        finite = torch.tensor([e for e in edges if math.isfinite(e)], dtype=self.dtype)
        ends = torch.full_like(finite, math.inf)
        near = [finite, torch.nextafter(finite, ends), torch.nextafter(finite, -ends)]
        every = torch.cat([*near, torch.tensor(inner, dtype=self.dtype)])
        every = every[every.isfinite()]
        every = every[domain.contains(every)]
        return torch.unique(every)

    def _spread(self, radius: float) -> list[float]:
        """Both signs, over the last eight decades below the radius."""
        sizes = radius * 10.0 ** (
            -8 * torch.rand(24, generator=self._generator, dtype=torch.float64)
        )
        return [
            *sizes.tolist(),
            *(-sizes).tolist(),
            *(radius * self._uniform(24).double()).tolist(),
        ]
