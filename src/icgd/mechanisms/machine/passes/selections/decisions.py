"""Rules for comparisons, flags and choices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.passes.selections.shapes import Shapes
from icgd.mechanisms.machine.passes.selections.values import (
    shared_kind,
)
from icgd.mechanisms.machine.tape.instruction import Kind, Opcode, Operand


class Decisions(Shapes):
    """Rules for comparisons, flags and choices."""

    def op_relu(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """max(a, 0)."""
        return self._write(Opcode.RELU, [args[0]], shape)

    def op_gt(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a > b."""
        sides = [self.operand(self._real(x), shape) for x in args[:2]]
        return self._write(Opcode.COMPARE, sides, shape, Kind.FLAG)

    def op_lt(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a < b."""
        return self.op_gt([args[1], args[0]], {}, shape)

    def op_ge(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a >= b."""
        return self.op_bitwise_not([self.op_lt(args, {}, shape)], {}, shape)

    def op_le(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a <= b."""
        return self.op_bitwise_not([self.op_gt(args, {}, shape)], {}, shape)

    def op_eq(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a = b."""
        sides = [self.operand(self._real(x), shape) for x in args[:2]]
        return self._write(Opcode.EQUALS, sides, shape, Kind.FLAG)

    def op_ne(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a != b."""
        return self.op_bitwise_not([self.op_eq(args, {}, shape)], {}, shape)

    def op_bitwise_not(
        self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]
    ) -> Operand:
        """The complement of a flag."""
        return self._write(Opcode.INVERT, [args[0]], shape, Kind.FLAG)

    op_logical_not = op_bitwise_not

    def op_bitwise_and(
        self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]
    ) -> Operand:
        """Both flags."""
        sides = [self.operand(x, shape) for x in args[:2]]
        return self._write(Opcode.BOTH, sides, shape, Kind.FLAG)

    op_logical_and = op_bitwise_and

    def op_bitwise_or(
        self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]
    ) -> Operand:
        """Either flag."""
        neither = [self.op_bitwise_not([self.operand(x, shape)], {}, shape) for x in args[:2]]
        return self.op_bitwise_not([self.op_bitwise_and(neither, {}, shape)], {}, shape)

    op_logical_or = op_bitwise_or

    def op_where(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a where the flag is 1, b elsewhere."""
        flag, a, b = args[:3]
        if isinstance(flag, Tensor) and flag.dim() == 0:
            return self.operand(a if bool(flag) else b, shape)
        parts = [self.operand(flag, shape), *(self.operand(self._real(x), shape) for x in (a, b))]
        return self._write(Opcode.SELECT, parts, shape, shared_kind(parts[1:]))

    def op__to_copy(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Any:
        """Another type: flags become numbers, numbers stay what they are."""
        wanted = named.get("dtype")
        x = args[0]
        if wanted == torch.bool and x.register.kind is not Kind.FLAG:
            return self.op_bitwise_not([self.op_eq([x, 0.0], {}, shape)], {}, shape)
        return x if wanted is None or wanted == torch.bool else self._real(x)
