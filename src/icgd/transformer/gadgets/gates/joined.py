"""Several operands one after the other along an axis, let in by one kind of step."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from icgd.transformer.gadgets.gates.routed import RoutedPart, RoutedUnits, Wire
from icgd.transformer.nn.feedforward import frozen
from icgd.transformer.nn.symbolic import Builder, Reg


class JoinedGate(RoutedPart):
    """target += gate of every operand, each at its place along the axis.

    Statement: [COT] Theorem 4.2

    Differs from the paper: no; a gate per entry.
    """

    def __init__(
        self, wires: Sequence[Wire], axis: int, target: str, off: str, *, dtype: torch.dtype
    ) -> None:
        super().__init__(off, target, dtype)
        self.wires, self.axis = tuple(wires), axis
        self.read = frozen(torch.tensor([1.0, -1.0]), (2,), dtype)
        self.write = frozen(torch.tensor([1.0, -1.0]), (2,), dtype)
        self.keep()

    def _placed(self) -> list[Wire]:
        """The operands among the zeros of the others."""
        sizes = [wire.route.shape[self.axis] for wire in self.wires]
        n_axes = len(self.wires[0].route.shape)
        placed = []
        for k, wire in enumerate(self.wires):
            before, after = sum(sizes[:k]), sum(sizes[k + 1 :])
            widths = [0] * (2 * (n_axes - 1 - self.axis)) + [before, after]
            placed.append(Wire(wire.slot, wire.route.then("pad", tuple(widths)), wire.half))
        return placed

    def units(self) -> list[RoutedUnits]:
        """The positive and the negative part of all entries."""
        placed, flags = self._placed(), {self.off[0]: self.shut.data}
        size = placed[0].size
        return [
            RoutedUnits(
                size, [(w, self.read[i]) for w in placed], flags, (self.target, 0), self.write[i]
            )
            for i in range(2)
        ]

    def emit(self, b: Builder) -> None:
        """torch.cat, or nothing."""
        if not self.is_open(b):
            return
        arrived = [wire.value(b) for wire in self.wires]
        registers = [value for value in arrived if isinstance(value, Reg)]
        if len(registers) == len(arrived):
            axis = self.axis
            b.write(self.target, b.compute(lambda *xs: torch.cat(xs, dim=axis), registers))
            return
