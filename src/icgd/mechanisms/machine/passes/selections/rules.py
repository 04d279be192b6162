"""What every rule needs: operands, broadcasting, registers of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.passes.selections.values import (
    Value,
    without_scale,
)
from icgd.mechanisms.machine.tape.instruction import Kind, Opcode, Operand, Register
from icgd.mechanisms.machine.tape.tape import TapeWriter


class Rules:
    """What every rule needs: operands, broadcasting, registers of their own."""

    def __init__(self, tape: TapeWriter) -> None:
        self.tape = tape
        self._read: set[str] = set()

    def _is_new(self, operand: Operand) -> bool:
        """Whether heads have not read these numbers yet: what was read once need not be again."""
        known = operand.register.name in self._read
        return not (known and without_scale(operand)[0].route.is_selection)

    def operand(self, value: Value, shape: Sequence[int] | None = None) -> Operand:
        """A value as an operand, expanded to a shape by the rules of broadcasting."""
        if not isinstance(value, Operand):
            if not isinstance(value, Tensor):
                value = torch.tensor(float(value), dtype=torch.float64)  # whatever the default is
            value = self._constant(value)
        return value if shape is None else self.expanded(value, tuple(shape))

    def _constant(self, value: Tensor) -> Operand:
        """A constant; one number stands there once, however often it is used."""
        flat = value.reshape(-1)
        if value.dim() and value.numel() and bool((flat == flat[0]).all()):
            return self.expanded(Operand.whole(self.tape.constant(flat[0])), tuple(value.shape))
        return Operand.whole(self.tape.constant(value))

    def expanded(self, value: Operand, shape: tuple[int, ...]) -> Operand:
        """Broadcast to a shape."""
        route = value.route
        if route.shape == shape:
            return value
        lead = (1,) * (len(shape) - len(route.shape))
        return Operand(
            value.register, route.then("view", (*lead, *route.shape)).then("expand", shape)
        )

    def materialised(self, value: Operand) -> Register:
        """The operand as a register of its own."""
        if value.route.is_identity:
            return value.register
        if value.register.kind is Kind.FLAG:
            return self.tape.write(Opcode.BOTH, [value, value], value.shape, kind=Kind.FLAG)
        return self.tape.write(Opcode.AFFINE, [value], value.shape, kind=value.register.kind)

    def _routed(self, value: Operand, name: str, *arguments: Any) -> Operand:
        return Operand(value.register, value.route.then(name, *arguments))

    def _write(
        self,
        opcode: Opcode,
        operands: Sequence[Operand],
        shape: tuple[int, ...],
        kind: Kind = Kind.REAL,
        **settings: Any,
    ) -> Operand:
        return Operand.whole(self.tape.write(opcode, operands, shape, kind=kind, **settings))

    def _real(self, value: Value) -> Value:
        """Flags as numbers."""
        if isinstance(value, Operand) and value.register.kind is Kind.FLAG:
            return self._write(Opcode.NUMBER, [value], value.shape)
        return value
