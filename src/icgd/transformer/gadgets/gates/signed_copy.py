"""y x for a label y = +-1 held as two flags: gates copy x or -x, exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.gates.gate import Gate
from icgd.transformer.nn.feedforward import UnitGadget, Units
from icgd.transformer.nn.symbolic import Builder, Reg


class SignedCopy(UnitGadget):
    """target += x where `negative` is 0, -x where `positive` is 0; the flags differ token by token.

    Statement: [COT] Lemma 3.1

    Differs from the paper: new; it turns a margin y w.x into an inner product a head can form.
    """

    def __init__(
        self,
        d: int,
        *,
        source: str,
        target: str,
        positive: str,
        negative: str,
        capacity: float,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.source, self.target, self.flags = source, target, (positive, negative)
        self.same = Gate((d,), {source: 1.0}, target, (negative,), capacity=capacity, dtype=dtype)
        self.opposite = Gate(
            (d,), {source: -1.0}, target, (positive,), capacity=capacity, dtype=dtype
        )

    def certificate(self) -> Certificate:
        """Exact up to the gates' capacity."""
        return self.same.certificate()

    def units(self) -> list[Units]:
        """The four groups of units."""
        return [*self.same.units(), *self.opposite.units()]

    def emit_short(self, b: Builder) -> bool:
        """See UnitGadget: a product with +-1."""
        registers = self._registers(b)
        if registers:
            signed = b.compute(lambda v, p, q: v * (p - q).unsqueeze(-1), registers)
            b.write(self.target, signed)
        return bool(registers)

    def emit_units(self, b: Builder) -> None:
        """See UnitGadget; flags that differ token by token meet all entries of their token."""
        registers = self._registers(b)
        if not registers:
            super().emit_units(b)
            return
        groups = self.units()

        def literal(v: Tensor, p: Tensor, q: Tensor) -> Tensor:
            value = dict(
                zip((self.source, *self.flags), (v, p.unsqueeze(-1), q.unsqueeze(-1)), strict=True)
            )
            total = torch.zeros_like(v)
            for group in groups:
                inner = sum(coef.data * value[slot] for slot, coef in group.read.items())
                total = total + group.write[self.target].data * torch.relu(inner)
            return total

        b.write(self.target, b.compute(literal, registers))

    def _registers(self, b: Builder) -> list[Reg]:
        """What it reads, if all of it is data; nothing otherwise."""
        values = [b.read(slot) for slot in (self.source, *self.flags)]
        registers = [value for value in values if isinstance(value, Reg)]
        return registers if len(registers) == len(values) else []
