"""Whether a ReLU is closed, as an exact 0 or 1, and the rectifier that goes with it.

    closed = hidden - relu(k z - B linear) + relu(k z - 1 - B linear)

With k a power of two every partial sum is representable as long as k z < 2^53 (2^24 in float32), so
closed is exactly 1 for z <= 0 and exactly 0 for z >= 1/k; z = 0 counts as closed, as in PyTorch.
On a linear layer (linear = 1, hidden = 0) it is 0.
"""

from __future__ import annotations

import math

import torch

from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.gates.gate import gate_strength
from icgd.transformer.nn.feedforward import UnitGadget, Units
from icgd.transformer.nn.symbolic import ZERO, Builder, Closed, Const, Reg, Value, Zero


def closed_slope(z_bound: float, dtype: torch.dtype) -> float:
    """The largest power of two k for which k z is exact up to z = z_bound: k z <= 2^53 (2^24).

    Only positive z matters: for z <= 0 both ReLUs are exactly 0.

    >>> closed_slope(1024.0, torch.float64) == 2.0**43, closed_slope(128.0, torch.float32) == 2.0**17
    (True, True)
    """
    digits = 1 - math.log2(torch.finfo(dtype).eps)
    return 2.0 ** (digits - math.ceil(math.log2(z_bound)))


def known_number(value: Value) -> float | None:
    """The number in a flag if it is known beforehand; None if it is data."""
    if isinstance(value, Const):
        return value.value
    return 0.0 if isinstance(value, Zero) else None


class ClosedUnit(UnitGadget):
    """target += hidden * [z <= 0], exact outside the ramp 0 < z < 1/k.

    Statement: [COT] Theorem 4.1

    Differs from the paper: (21) divides by any delta_1 and stores sigma'; a power of two and the
    complement make it exact in floating point and let an open gate subtract exactly zero.
    """

    def __init__(
        self,
        width: int,
        *,
        z: str,
        hidden: str,
        linear: str | None,
        target: str,
        slope: float,
        capacity: float,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.z, self.hidden, self.linear, self.target, self.slope = z, hidden, linear, target, slope
        self.block = 2.0 ** math.ceil(math.log2(slope * capacity))
        reads = {z: slope} if linear is None else {z: slope, linear: -self.block}
        self.ramp = Units((width,), reads, {target: -1.0}, dtype=dtype)
        self.cap = Units((width,), reads, {target: 1.0}, bias=-1.0, dtype=dtype)
        self.one = Units((width,), {hidden: 1.0}, {target: 1.0}, dtype=dtype)

    def certificate(self) -> Certificate:
        """Exact outside the ramp; inside it a PyTorch ReLU would be open."""
        return Certificate("closed_unit", self.block / self.slope, 0.0, self.slope, self.block)

    def units(self) -> list[Units]:
        """Ramp, cap, and the constant one on hidden layers."""
        return [self.ramp, self.cap, self.one]

    @property
    def watched(self) -> tuple[str, str]:
        """Slots of the pre-activation and of the flag that says whether it is hidden."""
        return self.z, self.hidden

    def emit_short(self, b: Builder) -> bool:
        """See UnitGadget. Hidden layer: remember the activation instead of writing 0s and 1s out."""
        z, hidden = b.read(self.z), b.read(self.hidden)
        linear = ZERO if self.linear is None else b.read(self.linear)
        flags = [known_number(v) for v in (hidden, linear)]
        if isinstance(z, Zero) and flags[0] == 0.0:
            return True
        if isinstance(z, Reg) and flags == [0.0, 1.0]:
            return True
        if isinstance(z, Reg) and flags == [1.0, 0.0]:
            b.write(self.target, Closed(b.relu(z), self.slope))
            return True
        return False


class Rectifier(UnitGadget):
    """target += relu(z) - relu(-z - C hidden): relu(z) on a hidden layer, z on a linear one.

    hidden=None leaves the second unit out: every layer has an activation.

    Statement: [COT] Theorem 4.1

    Differs from the paper: the output layer may be linear, decided by a flag in the block.
    """

    def __init__(
        self,
        width: int,
        *,
        z: str,
        hidden: str | None,
        target: str,
        capacity: float,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.z, self.hidden, self.target = z, hidden, target
        self.strength = gate_strength(capacity, dtype)
        self.positive = Units((width,), {z: 1.0}, {target: 1.0}, dtype=dtype)
        self.negative = None
        if hidden is not None:
            reads = {z: -1.0, hidden: -self.strength}
            self.negative = Units((width,), reads, {target: -1.0}, dtype=dtype)

    def certificate(self) -> Certificate:
        """Exact."""
        return Certificate("rectifier", self.strength, 0.0, 1.0, self.strength)

    def units(self) -> list[Units]:
        """Positive and, where layers may be linear, negative part."""
        return [self.positive] if self.negative is None else [self.positive, self.negative]

    def emit_short(self, b: Builder) -> bool:
        """See UnitGadget: relu or copy, as the flag says."""
        z = b.read(self.z)
        hidden = Const(1.0) if self.hidden is None else b.read(self.hidden)
        flag = known_number(hidden)
        if isinstance(z, Zero) and flag is not None and flag >= 0.0:
            return True
        if isinstance(z, Reg) and flag in (0.0, 1.0):
            if flag:
                b.watch("preactivation", self.z, z)
            b.write(self.target, b.relu(z) if flag else z)
            return True
        return False
