"""The exact gate: a value passes untouched or becomes exactly zero, by two ReLU units.

    gate(v; off) = relu(v - C off) - relu(-v - C off)

v exactly when off = 0; 0 exactly when C off >= |v|. Offsets are sums of flags that are 0 when the
gate is open: v - C*0 is v to the last bit, while v + C - C would lose C*eps. C is so large that
even the smallest positive `closed` a float can hold shuts the gate on every value up to `capacity`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from icgd.transformer.certificate import Certificate
from icgd.transformer.nn.feedforward import UnitGadget, Units
from icgd.transformer.nn.symbolic import Builder, Closed, Const, Reg, Value, Zero


def gate_strength(capacity: float, dtype: torch.dtype) -> float:
    """The power of two C >= capacity / (smallest positive `closed`), which is one unit round-off.

    >>> gate_strength(2.0**22, torch.float64) == 2.0**75
    True
    """
    return 2.0 ** (math.ceil(math.log2(capacity)) - math.log2(torch.finfo(dtype).eps / 2))


class Gate(UnitGadget):
    """target += gate(sum coef * source; sum of off slots), entry by entry.

    Statement: [COT] Theorem 4.2

    Differs from the paper: C.5 writes relu(v + 2B sigma' - B) - B sigma', which rounds v at the
    scale of B; and C.8's router gate gives -M/2, not 0, when closed.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        source: Mapping[str, float],
        target: str,
        off: tuple[str, ...],
        *,
        capacity: float,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.source, self.target, self.off, self.capacity = dict(source), target, off, capacity
        self.strength = gate_strength(capacity, dtype)
        shut = dict.fromkeys(off, -self.strength)
        negative = {slot: -coef for slot, coef in source.items()}
        self.plus = Units(shape, {**source, **shut}, {target: 1.0}, dtype=dtype)
        self.minus = Units(shape, {**negative, **shut}, {target: -1.0}, dtype=dtype)

    def certificate(self) -> Certificate:
        """Exact on its whole domain."""
        return Certificate("gate", self.capacity, 0.0, 1.0, self.strength)

    def units(self) -> list[Units]:
        """The two groups of units."""
        return [self.plus, self.minus]

    def emit_short(self, b: Builder) -> bool:
        """Open: copy. Shut: nothing. Shut entry by entry: mask by the activation that shuts it."""
        known, varying = 0.0, []
        for slot in self.off:
            value = b.read(slot)
            if isinstance(value, Const):
                known += value.value
            elif not isinstance(value, Zero):
                varying.append(value)
        decided = known == 0.0 or known >= 1.0
        if not decided or not _maskable(varying):
            return False
        if known >= 1.0:
            return True
        value = b.combine([(b.read(slot), coef) for slot, coef in self.source.items()])
        if isinstance(value, Zero):
            return True
        for shut in varying:
            if isinstance(shut, Closed) and isinstance(value, Reg):
                value = _mask(b, value, shut)
        b.write(self.target, value)
        return True


def _maskable(varying: Sequence[Value]) -> bool:
    return len(varying) <= 1 and all(isinstance(value, Closed) for value in varying)


def _mask(b: Builder, value: Reg, shut: Closed) -> Reg:
    # closed = 1 - clamp(slope a, 0, 1) is exactly 0 from a = 1/slope on, and at least one unit
    # round-off below it, which shuts the gate completely: a threshold, to the last bit.
    threshold = math.nextafter(1.0 / shut.slope, 0.0)

    def mask(v: torch.Tensor, activation: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.threshold_backward.default(v, activation, threshold)

    return b.compute(mask, [value, shut.activation])
