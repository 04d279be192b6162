"""Rules for operations that only rearrange, select or join."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from icgd.mechanisms.machine.passes.selections.sums import Sums
from icgd.mechanisms.machine.passes.selections.values import (
    Missing,
    shape_of,
    shared_kind,
)
from icgd.mechanisms.machine.tape.instruction import Opcode, Operand


class Shapes(Sums):
    """Rules for operations that only rearrange, select or join."""

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
        parts = [self.operand(self._real(x)) for x in args[0] if math.prod(shape_of(x))]
        while len(parts) > 1:
            groups = [parts[i : i + 3] for i in range(0, len(parts), 3)]
            parts = [self._joined(group, axis) for group in groups]
        return parts[0]

    def _joined(self, parts: Sequence[Operand], axis: int) -> Operand:
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self._write(Opcode.JOIN, parts, tuple(shape), shared_kind(parts), axis=axis)

    def op_index(self, args: list[Any], named: dict[str, Any], shape: tuple[int, ...]) -> Operand:
        """Entries at places known beforehand, along one axis."""
        places = [(axis, index) for axis, index in enumerate(args[1]) if index is not None]
        if len(places) != 1 or isinstance(places[0][1], Operand) or places[0][1].dim() != 1:
            raise Missing("indexing by computed numbers, or along several axes")
        axis, index = places[0]
        if index.dtype == torch.bool:
            index = index.nonzero()[:, 0]
        return self._routed(args[0], "pick", axis, tuple(int(i) for i in index))
