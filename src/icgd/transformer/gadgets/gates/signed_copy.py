"""y x for a label y = +-1 held as two flags: gates copy x or -x, exactly."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.gates.gate import Gate
from icgd.transformer.nn.feedforward import Units
from icgd.transformer.nn.symbolic import Builder, Reg, once_fixed


class SignedCopy(nn.Module):
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

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight is the one that was compiled."""
        return all(group.is_plain() for group in self.units())

    def emit(self, b: Builder) -> None:
        """A product with +-1 where nothing was altered, the literal units otherwise."""
        x, positive, negative = (b.read(slot) for slot in (self.source, *self.flags))
        if not (isinstance(x, Reg) and isinstance(positive, Reg) and isinstance(negative, Reg)):
            for group in self.units():
                group.emit(b)
            return
        if self.is_plain():
            signed = b.compute(lambda v, p, q: v * (p - q).unsqueeze(-1), [x, positive, negative])
            b.write(self.target, signed)
            return
        groups = self.units()

        def literal(v: Tensor, p: Tensor, q: Tensor) -> Tensor:
            held = dict(
                zip((self.source, *self.flags), (v, p.unsqueeze(-1), q.unsqueeze(-1)), strict=True)
            )
            total = torch.zeros_like(v)
            for group in groups:
                inner = sum(coef.data * held[slot] for slot, coef in group.read.items())
                total = total + group.write[self.target].data * torch.relu(inner)
            return total

        b.write(self.target, b.compute(literal, [x, positive, negative]))
