"""Which instruction serves which tensor operation: one method for each, named after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.tape.instruction import Kind, Opcode, Operand, Register
from icgd.mechanisms.machine.tape.tape import TapeWriter
from icgd.transformer.linear_map import LinearMap

Value = Operand | Tensor | float | int


class Selections:
    """Rules from operations to instructions; arguments are operands, constant tensors or numbers."""

    def __init__(self, tape: TapeWriter) -> None:
        self.tape = tape
        self._read: set[str] = set()

    def _is_new(self, operand: Operand) -> bool:
        """Whether heads have not read these numbers yet: what was read once need not be again."""
        known = operand.register.name in self._read
        return not (known and _without_scale(operand)[0].route.is_selection)

    # -- what every rule needs --------------------------------------------------------------------

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

    # -- sums and scales --------------------------------------------------------------------------

    def op_add(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a + alpha b."""
        a, b = args[:2]
        if named.get("alpha", 1) != 1:
            b = self.op_mul([b, named["alpha"]], {}, _shape(b))
        return self._sum(a, b, shape)

    def op_sub(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """a - alpha b."""
        a, b = args[:2]
        factor = named.get("alpha", 1)
        less = self.op_mul([b, factor], {}, _shape(b)) if factor != 1 else b
        return self._sum(a, self._negative(less), shape)

    def _negative(self, value: Value) -> Value:
        value = self._real(value)
        return self._routed(value, "scale", -1.0) if isinstance(value, Operand) else -value

    def _sum(self, a: Value, b: Value, shape: tuple[int, ...]) -> Operand:
        a, b = self._real(a), self._real(b)
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Operand) and _is_all(other, 0.0):
                return self.expanded(one, shape)
        operands = [self.operand(x, shape) for x in (a, b)]
        return self._write(Opcode.AFFINE, operands, shape, _shared_kind(operands))

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
        from icgd.mechanisms.machine.passes.select import Missing

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

    # -- shapes -----------------------------------------------------------------------------------

    def op_view(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """Another shape for the same entries."""
        return self._routed(args[0], "view", shape)

    op__unsafe_view = op_reshape = op_squeeze = op_unsqueeze = op__local_scalar_dense = op_view

    def op_permute(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """Axes in another order."""
        n_axes = len(args[0].shape)
        return self._routed(args[0], "permute", tuple(a % n_axes for a in args[1]))

    def op_expand(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """Broadcast."""
        return self.expanded(args[0], shape)

    def op_slice(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """Every so many entries along an axis."""
        x, axis, start, stop, stride = [*args, 0, None, None, 1][: max(len(args), 1)] + [
            0,
            None,
            None,
            1,
        ][len(args) - 1 :]
        axis %= len(x.shape)
        where = slice(start, stop, stride).indices(x.shape[axis])
        return self._routed(x, "slice", axis, *where)

    def op_flip(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """Axes run backwards."""
        n_axes = len(shape)
        return self._routed(args[0], "flip", tuple(a % n_axes for a in args[1]))

    def op_constant_pad_nd(
        self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]
    ) -> Operand:
        """A border of one number."""
        x, widths = args[0], tuple(args[1])
        fill = float(args[2]) if len(args) > 2 else 0.0
        padded = self._routed(self._as_operand(self._real(x)), "pad", widths)
        if fill == 0.0:
            return padded
        inside = torch.zeros(x.shape, dtype=torch.float64)
        border = torch.nn.functional.pad(inside, widths, value=fill)
        return self._sum(padded, border, shape)

    def op_cat(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """Parts one after the other, at most three at a time."""
        axis = (args[1] if len(args) > 1 else 0) % len(shape)
        parts = [self.operand(self._real(x)) for x in args[0] if math.prod(_shape(x))]
        while len(parts) > 1:
            groups = [parts[i : i + 3] for i in range(0, len(parts), 3)]
            parts = [self._joined(group, axis) for group in groups]
        return parts[0]

    def _joined(self, parts: Sequence[Operand], axis: int) -> Operand:
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self._write(Opcode.JOIN, parts, tuple(shape), _shared_kind(parts), axis=axis)

    def op_index(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """Entries at places known beforehand, along one axis."""
        from icgd.mechanisms.machine.passes.select import Missing

        places = [(axis, index) for axis, index in enumerate(args[1]) if index is not None]
        if len(places) != 1 or isinstance(places[0][1], Operand) or places[0][1].dim() != 1:
            raise Missing("indexing by computed numbers, or along several axes")
        axis, index = places[0]
        if index.dtype == torch.bool:
            index = index.nonzero()[:, 0]
        return self._routed(args[0], "pick", axis, tuple(int(i) for i in index))

    def op__to_copy(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Any:
        """Another type: flags become numbers, numbers stay what they are."""
        wanted = named.get("dtype")
        x = args[0]
        if wanted == torch.bool and x.register.kind is not Kind.FLAG:
            return self.op_bitwise_not([self.op_eq([x, 0.0], {}, shape)], {}, shape)
        return x if wanted is None or wanted == torch.bool else self._real(x)

    # -- products ---------------------------------------------------------------------------------

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
        read = min((0, 1), key=lambda k: (_numbers(factors[k]), self._is_new(factors[k]), k))
        query, scale = _without_scale(factors[read])
        if not query.route.is_selection:
            query, scale = Operand.whole(self.materialised(query)), scale
        factors[read] = query
        self._read.add(query.register.name)
        if scale != 1.0:
            factors[1 - read] = self._routed(factors[1 - read], "scale", scale)
        return self._write(opcode, factors, shape, read=read)

    # -- functions --------------------------------------------------------------------------------

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

    # -- decisions --------------------------------------------------------------------------------

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
        return self._write(Opcode.SELECT, parts, shape, _shared_kind(parts[1:]))

    # -- looking up, largest entries --------------------------------------------------------------

    def op_gather(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """x at computed places along an axis: a gate for every place, one of them open."""
        x, axis, index = self.operand(args[0]), args[1], self.operand(args[2])
        axis %= len(shape)
        n = x.shape[axis]
        wide = (*shape, n)
        places = self.operand(torch.arange(n, dtype=torch.float64), wide)
        spread = self.expanded(self._routed(index, "view", (*shape, 1)), wide)
        chosen = self._write(Opcode.EQUALS, [spread, places], wide, Kind.FLAG)
        for a, size in enumerate(shape):
            if a != axis:
                x = self._routed(x, "slice", a, 0, size, 1)
        order = (*(a for a in range(len(shape)) if a != axis), axis)
        last = self._routed(x, "permute", order)
        lined = [1 if a == axis else size for a, size in enumerate(shape)]
        rows = self._routed(last, "view", (*lined, n))
        open_ = [chosen, self.expanded(rows, wide), self.operand(0.0, wide)]
        picked = self._write(Opcode.SELECT, open_, wide)
        return self._routed(picked, "sum", (len(shape),), False)

    def op_embedding(
        self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]
    ) -> Operand:
        """Rows of a table at computed places."""
        table, index = self.operand(args[0]), self.operand(args[1])
        n, width = table.shape
        wide = (*index.shape, n, width)
        places = self.operand(torch.arange(n, dtype=torch.float64).reshape(n, 1), wide)
        spread = self.expanded(self._routed(index, "view", (*index.shape, 1, 1)), wide)
        chosen = self._write(Opcode.EQUALS, [spread, places], wide, Kind.FLAG)
        open_ = [chosen, self.expanded(table, wide), self.operand(0.0, wide)]
        picked = self._write(Opcode.SELECT, open_, wide)
        return self._routed(picked, "sum", (len(index.shape),), False)

    def op_amax(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """The largest entry along axes, by comparing halves."""
        x = self.operand(args[0])
        keep = bool(args[2] if len(args) > 2 else named.get("keepdim", False))
        axes = [
            a % len(x.shape)
            for a in (args[1] if len(args) > 1 and args[1] else range(len(x.shape)))
        ]
        for axis in axes:
            x = self._largest(x, axis)[0]
        kept = tuple(1 if a in axes else n for a, n in enumerate(_shape(args[0])))
        x = self._routed(x, "view", kept)
        return x if keep else self._routed(x, "view", shape)

    def op_argmax(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """The place of the largest entry, the first of several."""
        x = self.operand(args[0])
        if len(args) < 2 or args[1] is None:
            x = self._routed(x, "view", (math.prod(x.shape),))
            axis = 0
        else:
            axis = args[1] % len(x.shape)
        return self._routed(self._largest(x, axis, places=True)[1], "view", shape)

    def op_argmin(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """The place of the smallest entry, the first of several."""
        return self.op_argmax([self._negative(self.operand(args[0])), *args[1:]], {}, shape)

    def _largest(self, x: Operand, axis: int, places: bool = False) -> tuple[Operand, Operand]:
        """The largest entry along an axis and, if wanted, its place."""
        size = x.shape[axis]
        line = [size if a == axis else 1 for a in range(len(x.shape))]
        at = self.operand(torch.arange(size, dtype=torch.float64).reshape(line), x.shape)
        while size > 1:
            half = size // 2
            first, second = (
                [self._routed(v, "slice", axis, lo, lo + half, 1) for v in (x, at)]
                for lo in (0, half)
            )
            shape = first[0].shape
            later = self._write(Opcode.COMPARE, [second[0], first[0]], shape, Kind.FLAG)
            best = [
                self._write(Opcode.SELECT, [later, b, a], shape, _shared_kind([a]))
                for a, b in list(zip(first, second, strict=True))[: 2 if places else 1]
            ]
            if size % 2:  # the odd one out waits for the next round, last as it is
                rest = [self._routed(v, "slice", axis, size - 1, size, 1) for v in (x, at)]
                best = [self._joined([b, r], axis) for b, r in zip(best, rest, strict=False)]
            x, at = best[0], best[1] if places else at
            size = half + size % 2
        return x, at


for _name in ("sqrt", "rsqrt", "exp", "log", "erf", "sin", "cos", "sigmoid", "tanh", "reciprocal"):

    def _rule(
        self: Selections,
        args: list[Any],
        named: dict[str, Any],
        shape: tuple[int, ...],
        _called: str = _name,
    ) -> Operand:
        return self._function(_called, args[0])

    setattr(Selections, f"op_{_name}", _rule)


def _shape(value: Value) -> tuple[int, ...]:
    if isinstance(value, (Operand, Tensor)):
        return tuple(value.shape)
    return ()


def _is_all(value: Value, number: float) -> bool:
    if isinstance(value, Operand):
        return False
    return bool((value == number).all()) if isinstance(value, Tensor) else value == number


def _shared_kind(operands: Sequence[Operand]) -> Kind:
    kinds = {operand.register.kind for operand in operands}
    return Kind.INDEX if kinds == {Kind.INDEX} else Kind.REAL


def _numbers(operand: Operand) -> int:
    """How many numbers heads would have to read."""
    if operand.route.is_selection or _without_scale(operand)[0].route.is_selection:
        return min(operand.register.size, math.prod(operand.shape))
    return math.prod(operand.shape)


def _without_scale(operand: Operand) -> tuple[Operand, float]:
    """The operand without factors on its route, and their product."""
    scale, moves = 1.0, []
    for move in operand.route.moves:
        if move[0] == "scale":
            scale *= move[1]
        else:
            moves.append(move)
    return Operand(operand.register, LinearMap(operand.route.source, tuple(moves))), scale
