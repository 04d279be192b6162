"""Rules for looking up entries and for the largest of several."""

from __future__ import annotations

import math
from typing import Any

import torch

from icgd.mechanisms.machine.passes.selections.decisions import Decisions
from icgd.mechanisms.machine.passes.selections.values import (
    shape_of,
    shared_kind,
)
from icgd.mechanisms.machine.tape.instruction import Kind, Opcode, Operand


class Lookups(Decisions):
    """Rules for looking up entries and for the largest of several."""

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
        kept = tuple(1 if a in axes else n for a, n in enumerate(shape_of(args[0])))
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
                self._write(Opcode.SELECT, [later, b, a], shape, shared_kind([a]))
                for a, b in list(zip(first, second, strict=True))[: 2 if places else 1]
            ]
            if size % 2:  # the odd one out waits for the next round, last as it is
                rest = [self._routed(v, "slice", axis, size - 1, size, 1) for v in (x, at)]
                best = [self._joined([b, r], axis) for b, r in zip(best, rest, strict=False)]
            x, at = best[0], best[1] if places else at
            size = half + size % 2
        return x, at
