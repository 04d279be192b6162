"""Gates whose inputs come by a fixed linear map: operands of a machine, let in on one kind of step only.

    gate(v; off) = relu(v - S off) - relu(-v - S off)        v = M x, a row of M per unit

v exactly when off = 0 and exactly 0 when off >= 1, for |v| < S: flags are whole numbers here, so S need only
exceed every value. A flag stands in its block twice, as 1 or 0 and as its complement, so that a value can be
let in by either without forming 1 - flag, which would round it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, LayoutError
from icgd.transformer.certificate import Certificate
from icgd.transformer.layout import Layout
from icgd.transformer.linear_map import LinearMap
from icgd.transformer.nn.feedforward import FeedForwardPart, UnitMatrices, frozen
from icgd.transformer.nn.symbolic import Builder, Const, Reg, Zero, once_fixed

Half = Literal["on", "off"]
STRENGTH = {torch.float64: 2.0**700, torch.float32: 2.0**110}
"""S: larger than any value that a program may hold (CAPACITY)."""
BY_FLAG = {torch.float64: 2.0**300, torch.float32: 2.0**50}
"""What a flag that is data shuts with. On other kinds of steps any number may stand where the flag would be:
times that number it must still be less than S."""
CAPACITY = {torch.float64: 2.0**200, torch.float32: 2.0**40}
"""The largest number that the gates and comparisons of a machine are exact for."""
RAMP = {torch.float64: 2.0**400, torch.float32: 2.0**60}
"""K: a difference z counts as positive from 1/K on, which is less than what two different numbers differ by."""


@dataclass(frozen=True)
class Wire:
    """Entries of a slot through a fixed linear map; of a flag, the flag or its complement."""

    slot: str
    route: LinearMap
    half: Half | None = None

    @property
    def size(self) -> int:
        """How many numbers arrive."""
        return int(np.prod(self.route.shape, dtype=int))

    @property
    def start(self) -> int:
        """Where in the slot the entries begin."""
        return int(np.prod(self.route.source, dtype=int)) if self.half == "off" else 0

    def value(self, b: Builder, *, broadcast: bool = False) -> Reg | Zero:
        """What arrives; `broadcast` leaves a last expansion to the operation that follows."""
        value = b.read(self.slot)
        if isinstance(value, Zero):
            return value
        if not isinstance(value, Reg):
            raise AssumptionViolated(f"Slot {self.slot} holds a flag where a register belongs.")
        arrived = b.arrange(value, self.route.before_broadcast if broadcast else self.route)
        return b.compute(torch.logical_not, [arrived], key="not") if self.half == "off" else arrived


class RoutedUnits:
    """A group of units, one per entry: out += write * relu(bias + sum of wires + flags).

    wires  (wire, factor)       flags  scalar slots with their factors
    """

    def __init__(
        self,
        size: int,
        wires: Sequence[tuple[Wire, Tensor]],
        flags: Mapping[str, Tensor],
        target: tuple[str, int],
        write: Tensor,
        bias: Tensor | None = None,
    ) -> None:
        self.size, self.wires, self.flags = size, tuple(wires), dict(flags)
        self.target, self.write, self.bias = target, write, bias

    def check(self, source: Layout, target: Layout) -> None:
        """See UnitGroup."""
        for wire, _ in self.wires:
            room = source[wire.slot].size
            if wire.start + int(np.prod(wire.route.source, dtype=int)) > room:
                raise LayoutError(f"Slot `{wire.slot}` has {room} entries, fewer than are read.")
        slot, at = self.target
        if at + self.size > target[slot].size:
            raise LayoutError(
                f"Slot `{slot}` has {target[slot].size} entries, fewer than are written."
            )

    def fill(self, into: UnitMatrices) -> None:
        """See UnitGroup."""
        for wire, factor in self.wires:
            matrix = wire.route.coordinates()
            entries = into.source.index(wire.slot).reshape(-1)[wire.start :]
            rows = entries[torch.from_numpy(matrix.source)]
            units = into.unit[torch.from_numpy(matrix.target)]
            coef = torch.from_numpy(matrix.coef).to(factor.dtype) * factor
            into.W_in.index_put_((rows, units), coef, accumulate=True)
        for slot, factor in self.flags.items():
            into.W_in[into.source.index(slot).reshape(()), into.unit] += factor
        if self.bias is not None:
            into.b_in[into.unit] += self.bias
        slot, at = self.target
        places = into.target.index(slot).reshape(-1)[at : at + self.size]
        into.W_out[into.unit, places] += self.write


class RoutedPart(FeedForwardPart):
    """A part of the machine's layer: it acts on one kind of step, whose flag `off` is 0 there and 1 elsewhere.

    The weights of a part are a few numbers that all of its units share; routes say which entries they meet.
    """

    def __init__(self, off: str, target: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.off, self.target, self.dtype = (off,), target, dtype
        self.shut = frozen(-STRENGTH[dtype], (), dtype)
        self._compiled: dict[str, Tensor] = {}
        self._wired: dict[str, object] = {}

    def keep(self) -> None:
        """Remember weights and wiring as they are now: those of the compiler."""
        self._compiled = {name: p.detach().clone() for name, p in self.named_parameters()}
        self._wired = self._wiring()

    def _wiring(self) -> dict[str, object]:
        """Slots, index maps and places: they say where weights stand in the matrices, and so are weights."""
        kinds = (str, int, tuple, Wire)
        return {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, kinds) and name != "training"
        }

    @once_fixed
    def is_plain(self) -> bool:
        """See FeedForwardPart."""
        same = all(torch.equal(p, self._compiled[name]) for name, p in self.named_parameters())
        return same and self._wiring() == self._wired

    def is_open(self, b: Builder) -> bool:
        """Whether this is its kind of step."""
        flag = b.read(self.off[0])
        if isinstance(flag, Zero):
            return True
        if not (isinstance(flag, Const) and flag.value == 1.0):
            raise AssumptionViolated(
                f"Flag {self.off[0]} holds {flag}, where an instruction token has 0 or 1: the program was "
                "altered. Run it with executor='dense'."
            )
        return False

    def certificate(self) -> Certificate:
        """Exact for every number up to the capacity."""
        return Certificate("gate", CAPACITY[self.dtype], 0.0, 1.0, STRENGTH[self.dtype])


class RoutedGate(RoutedPart):
    """target += gate(M source; off).

    Statement: [COT] Theorem 4.2

    Differs from the paper: any fixed linear map of a slot, where the paper selects entries.

    broadcast  whether something of the full shape is added to it, so that plans need not write repeats out
    """

    def __init__(
        self, wire: Wire, target: str, off: str, *, broadcast: bool = False, dtype: torch.dtype
    ) -> None:
        super().__init__(off, target, dtype)
        self.wire, self.broadcast = wire, broadcast
        self.read = frozen(torch.tensor([1.0, -1.0]), (2,), dtype)
        self.write = frozen(torch.tensor([1.0, -1.0]), (2,), dtype)
        self.keep()

    def units(self) -> list[RoutedUnits]:
        """The positive and the negative part."""
        return [
            RoutedUnits(
                self.wire.size,
                [(self.wire, self.read[i])],
                {self.off[0]: self.shut.data},
                (self.target, 0),
                self.write[i],
            )
            for i in range(2)
        ]

    def emit(self, b: Builder) -> None:
        """A copy, or nothing; a flag becomes a number."""
        if not self.is_open(b):
            return
        value = self.wire.value(b, broadcast=self.broadcast)
        if self.wire.half is not None and isinstance(value, Reg):
            dtype = self.dtype
            value = b.compute(lambda flag: flag.to(dtype), [value])
        b.write(self.target, value)


class RoutedRelu(RoutedPart):
    """target += relu(M source), on its kind of step.

    Statement: [COT] Theorem 4.1

    Differs from the paper: no; one unit per entry.
    """

    def __init__(self, wire: Wire, target: str, off: str, *, dtype: torch.dtype) -> None:
        super().__init__(off, target, dtype)
        self.wire = wire
        self.read, self.write = frozen(1.0, (), dtype), frozen(1.0, (), dtype)
        self.keep()

    def units(self) -> list[RoutedUnits]:
        """One group."""
        flags = {self.off[0]: self.shut.data}
        seen = [(self.wire, self.read.data)]
        return [RoutedUnits(self.wire.size, seen, flags, (self.target, 0), self.write.data)]

    def emit(self, b: Builder) -> None:
        """relu, or nothing."""
        if self.is_open(b):
            value = self.wire.value(b)
            if isinstance(value, Reg):
                b.write(self.target, b.relu(value))


class Selection(RoutedPart):
    """target += the first value where the flag is 1, the second where it is 0: two gates, shut by either half.

    Statement: [COT] Theorem 4.2

    Differs from the paper: new; a gate shut entry by entry, as the one that holds back a closed unit's signal.
    """

    def __init__(
        self, flag: Wire, first: Wire, second: Wire, target: str, off: str, *, dtype: torch.dtype
    ) -> None:
        super().__init__(off, target, dtype)
        self.flag, self.values = flag, (first, second)
        self.read = frozen(torch.tensor([1.0, -1.0]), (2,), dtype)
        self.write = frozen(torch.tensor([1.0, -1.0]), (2,), dtype)
        self.by_flag = frozen(-BY_FLAG[dtype], (), dtype)
        self.keep()

    def units(self) -> list[RoutedUnits]:
        """Positive and negative parts of both values."""
        halves: tuple[Half, Half] = ("off", "on")
        return [
            RoutedUnits(
                value.size,
                [
                    (value, self.read[i]),
                    (Wire(self.flag.slot, self.flag.route, half), self.by_flag.data),
                ],
                {self.off[0]: self.shut.data},
                (self.target, 0),
                self.write[i],
            )
            for value, half in zip(self.values, halves, strict=True)
            for i in range(2)
        ]

    def emit(self, b: Builder) -> None:
        """torch.where, or nothing."""
        if not self.is_open(b):
            return
        arrived = [self.flag.value(b), *(value.value(b) for value in self.values)]
        registers = [value for value in arrived if isinstance(value, Reg)]
        if len(registers) == len(arrived):
            b.write(self.target, b.compute(torch.where, registers))


class Shutter(RoutedPart):
    """What shuts a flag: a number that is 0 where the flag is to be 1, and at least 1 where it is to be 0.

    greater  relu(1 - K z), z = first - second       equal   relu(K z) + relu(-K z)
    both     relu(2 - a - b)                         invert  relu(a)

    Statement: [COT] Theorem 4.1

    Differs from the paper: (21) approximates a step function by one ramp; two ramps in a row, this one and the
    one of FlagWriter, are exact for every two floats that differ by at least 1/K.
    """

    def __init__(
        self, operation: str, wires: Sequence[Wire], target: str, off: str, *, dtype: torch.dtype
    ) -> None:
        super().__init__(off, target, dtype)
        self.operation, self.wires = operation, tuple(wires)
        ramp = RAMP[dtype] if operation in ("greater", "equal") else 1.0
        self.ramp, self.write = frozen(ramp, (), dtype), frozen(1.0, (), dtype)
        bias = {"greater": 1.0, "both": 2.0}.get(operation)
        self.bias = None if bias is None else frozen(bias, (), dtype)
        self.keep()

    @property
    def size(self) -> int:
        """Entries of the flag."""
        return self.wires[0].size

    def units(self) -> list[RoutedUnits]:
        """One group, or one for either sign."""
        k, a, b = self.ramp.data, self.wires[0], self.wires[-1]
        if self.operation == "greater":
            return [self._group([(a, -k), (b, k)])]
        if self.operation == "equal":
            return [self._group([(a, k), (b, -k)]), self._group([(a, -k), (b, k)])]
        on = [(Wire(w.slot, w.route, "on"), k) for w in self.wires]
        if self.operation == "both":
            return [self._group([(wire, -k) for wire, k in on])]
        return [self._group(on)]

    def _group(self, wires: Sequence[tuple[Wire, Tensor]]) -> RoutedUnits:
        flags = {self.off[0]: self.shut.data}
        bias = None if self.bias is None else self.bias.data
        return RoutedUnits(self.size, wires, flags, (self.target, 0), self.write.data, bias)

    def emit(self, b: Builder) -> None:
        """The flag itself, as the writer below makes it."""
        if not self.is_open(b):
            return
        arrived = [wire.value(b) for wire in self.wires]
        registers = [value for value in arrived if isinstance(value, Reg)]
        if len(registers) != len(arrived):
            raise AssumptionViolated("A comparison sees a register that nothing was written to.")
        b.write(self.target, b.compute(_FLAGS[self.operation], registers))


_FLAGS: dict[str, Callable[..., Tensor]] = {
    "greater": torch.gt,
    "equal": torch.eq,
    "both": torch.logical_and,
    "invert": torch.logical_not,
}


class FlagWriter(RoutedPart):
    """The halves of a flag, exactly 0 or 1: relu(1 - shut), and 1 - relu(1 - shut).

    Statement: [COT] Theorem 4.1

    Differs from the paper: see Shutter.
    """

    def __init__(
        self, size: int, shutter: str, target: str, off: str, *, dtype: torch.dtype
    ) -> None:
        super().__init__(off, target, dtype)
        self.size, self.shutter = size, shutter
        self.one, self.by = frozen(1.0, (), dtype), frozen(-1.0, (), dtype)
        self.write = frozen(torch.tensor([1.0, 1.0, -1.0]), (3,), dtype)
        self.keep()

    def units(self) -> list[RoutedUnits]:
        """The flag; one; and the flag again, taken away from it."""
        flags, n, one = {self.off[0]: self.shut.data}, self.size, self.one.data
        seen = [(Wire(self.shutter, LinearMap((n,))), self.by.data)]
        places = [(seen, 0), ([], n), (seen, n)]
        return [
            RoutedUnits(n, wires, flags, (self.target, at), self.write[i], one)
            for i, (wires, at) in enumerate(places)
        ]

    def emit(self, b: Builder) -> None:
        """The flag that the shutter describes."""
        if self.is_open(b):
            b.write(self.target, b.read(self.shutter))
