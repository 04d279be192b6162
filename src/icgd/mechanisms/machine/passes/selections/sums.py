"""Rules for sums, scales and products."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.passes.selections.rules import Rules
from icgd.mechanisms.machine.passes.selections.values import (
    Missing,
    Value,
    is_all,
    numbers_in,
    shape_of,
    shared_kind,
    without_scale,
)
from icgd.mechanisms.machine.tape.instruction import Kind, Opcode, Operand


class Sums(Rules):
    """Rules for sums, scales and products."""

    def op_add(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a + alpha b."""
        a, b = args[:2]
        if named.get("alpha", 1) != 1:
            b = self.op_mul([b, named["alpha"]], {}, shape_of(b))
        return self._sum(a, b, shape)

    def op_sub(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a - alpha b."""
        a, b = args[:2]
        factor = named.get("alpha", 1)
        less = self.op_mul([b, factor], {}, shape_of(b)) if factor != 1 else b
        return self._sum(a, self._negative(less), shape)

    def _negative(self, value: Value) -> Value:
        value = self._real(value)
        return self._routed(value, "scale", -1.0) if isinstance(value, Operand) else -value

    def _sum(self, a: Value, b: Value, shape: tuple[int, ...]) -> Operand:
        a, b = self._real(a), self._real(b)
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Operand) and is_all(other, 0.0):
                return self.expanded(one, shape)
        operands = [self.operand(x, shape) for x in (a, b)]
        return self._write(Opcode.AFFINE, operands, shape, shared_kind(operands))

    def op_neg(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Any:
        """-a."""
        return self._negative(args[0])

    def op_mul(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a b: a route for a constant, a gate for a flag, heads for two numbers."""
        a, b = args[:2]
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Operand) and not isinstance(other, Operand):
                return self._weighted(self._as_operand(self._real(one)), other, shape)
        for flag, number in ((a, b), (b, a)):
            if flag.register.kind is Kind.FLAG:
                zero = self.operand(0.0, shape)
                value = self._as_operand(self._real(number))
                picked = [self.expanded(flag, shape), self.expanded(value, shape), zero]
                return self._write(Opcode.SELECT, picked, shape)
        return self._product(Opcode.MULTIPLY, a, b, shape)

    def _as_operand(self, value: Value) -> Operand:
        assert isinstance(value, Operand)
        return value

    def _weighted(self, value: Operand, factor: Tensor | float, shape: tuple[int, ...]) -> Operand:
        if isinstance(factor, Tensor):
            flat = factor.reshape(-1)
            if not (flat.numel() and bool((flat == flat[0]).all())):
                weights = factor.to(torch.float64).expand(shape).reshape(-1).tolist()
                return self._routed(self.expanded(value, shape), "weigh", tuple(weights))
            factor = float(flat[0])
        return self._routed(self.expanded(value, shape), "scale", float(factor))

    def op_div(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a / b by the reciprocal of b."""
        if named.get("rounding_mode"):
            raise Missing("division that rounds")
        a, b = args[:2]
        if not isinstance(b, Operand):
            inverse = 1.0 / b.to(torch.float64) if isinstance(b, Tensor) else 1.0 / float(b)
            return self._weighted(self._as_operand(self._real(a)), inverse, shape)
        return self.op_mul([self._function("reciprocal", b), a], {}, shape)

    op_truediv = op_div

    def op_sum(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """The sum along axes."""
        x = self._as_operand(self._real(args[0]))
        n_axes = len(x.shape)
        axes = args[1] if len(args) > 1 and args[1] else range(n_axes)
        keep = bool(args[2] if len(args) > 2 else named.get("keepdim", False))
        return self._routed(x, "sum", tuple(sorted(a % n_axes for a in axes)), keep)

    def op_mm(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """A matrix product."""
        a, b = (self.operand(self._real(x)) for x in args[:2])
        return self._product(Opcode.MATMUL, a, b, shape)

    op_bmm = op_mm

    def _product(self, opcode: Opcode, a: Operand, b: Operand, shape: tuple[int, ...]) -> Operand:
        """Heads read the factor with fewer numbers; its scale goes to the other one."""
        if opcode is Opcode.MULTIPLY:
            a, b = self.expanded(a, shape), self.expanded(b, shape)
        factors = [a, b]
        read = min((0, 1), key=lambda k: (numbers_in(factors[k]), self._is_new(factors[k]), k))
        query, scale = without_scale(factors[read])
        if not query.route.is_selection:
            query, scale = Operand.whole(self.materialised(query)), scale
        factors[read] = query
        self._read.add(query.register.name)
        if scale != 1.0:
            factors[1 - read] = self._routed(factors[1 - read], "scale", scale)
        return self._write(opcode, factors, shape, read=read)

    def _function(self, name: str, x: Operand) -> Operand:
        """A function of the fewest numbers: layout and functions commute."""
        x = self._as_operand(self._real(x))
        if not x.route.is_selection:
            x = Operand.whole(self.materialised(x))
        register, route = x.register, x.route
        before = self.tape.writer_of(register)
        if name == "exp" and before is not None and before.settings.get("function") == "log":
            inner = before.operands[0]
            return Operand(inner.register, route.after(inner.route))
        if math.prod(x.shape) < register.size:
            return self._write(Opcode.FUNCTION, [x], x.shape, function=name)
        value = self.tape.write(
            Opcode.FUNCTION, [Operand.whole(register)], register.shape, function=name
        )
        return Operand(value, route)

    def op_softmax(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """Softmax along an axis, which becomes the last one."""
        x, axis = self._as_operand(self._real(args[0])), args[1] % max(1, len(shape))
        order = (*(a for a in range(len(shape)) if a != axis), axis)
        last = self._routed(x, "permute", order)
        rows = self._write(Opcode.SOFTMAX, [last], last.shape)
        back = tuple(order.index(a) for a in range(len(shape)))
        return self._routed(rows, "permute", back)

    op__softmax = op_softmax
