"""The one frozen layer of a program: gates for every kind of step, heads, and what writes the result.

STATEMENT: [COT] Section 4, Proposition 4.3 and its remark on other models and optimizers.

    token   off_k = 0 for the kind of step it asks for, 1 for all others
    pre     gates let the operands of that kind in: numbers to be asked, values, what passes by the heads
    heads   query times value, functions, softmax
    post    results, and flags as exact 0 and 1, become the register that is written

A step sees [token; first; second; third]; where an instruction has fewer operands, its token stands there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from icgd.mechanisms.machine.layer.attention import BankAttention
from icgd.mechanisms.machine.layer.banks import form_of, split_route
from icgd.mechanisms.machine.layer.kinds import KindTable, StepKind
from icgd.mechanisms.machine.layer.layouts import SEEN, block_layout, off_bank, working_layout
from icgd.mechanisms.machine.layer.tables import GridTable, Table
from icgd.mechanisms.machine.layer.thermometer import Thermometer
from icgd.mechanisms.machine.tape.instruction import Kind, Opcode, Operand
from icgd.mechanisms.machine.tape.semantics import HeadFunctions
from icgd.transformer.gadgets.gates.joined import JoinedGate
from icgd.transformer.gadgets.gates.routed import (
    FlagWriter,
    RoutedGate,
    RoutedPart,
    RoutedRelu,
    Selection,
    Shutter,
    Wire,
)
from icgd.transformer.layout import Layout
from icgd.transformer.linear_map import LinearMap
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.feedforward import FeedForward, Skip

SHUTTERS = {
    Opcode.COMPARE: "greater",
    Opcode.EQUALS: "equal",
    Opcode.BOTH: "both",
    Opcode.INVERT: "invert",
}
"""Instructions that write flags."""


def machine_layer(
    kinds: KindTable,
    room: int,
    tables: Mapping[str, Table],
    heads: HeadFunctions,
    radius: float,
    dtype: torch.dtype,
) -> Layer:
    """The layer that executes these kinds of steps."""
    return _LayerBuilder(kinds, room, tables, dtype).layer(heads, radius)


class _LayerBuilder:
    def __init__(
        self, kinds: KindTable, room: int, tables: Mapping[str, Table], dtype: torch.dtype
    ) -> None:
        self.kinds, self.tables, self.dtype = kinds, tables, dtype
        self.block = block_layout(kinds, room)
        thermometers = {
            name: form.n_queries * len(table.buckets)
            for form, name in kinds.banks.items()
            if isinstance(table := tables[form.table], GridTable) and table.has_sink
        }
        self.work = working_layout(kinds, room, thermometers)

    def layer(self, heads: HeadFunctions, radius: float) -> Layer:
        """Pre, heads, post."""
        pre: dict[str, RoutedPart] = {}
        post: dict[str, RoutedPart] = {}
        for kind in self.kinds:
            for name, part in self._entrances(kind):
                pre[f"{kind.name}:{name}"] = part
            output = kind.example.output
            if output.kind is Kind.FLAG:
                post[f"{kind.name}:flag"] = FlagWriter(
                    output.size, "shut", "value", kind.off, dtype=self.dtype
                )
        for form, name in self.kinds.banks.items():
            wire = Wire(f"result_{name}", LinearMap((form.n_results,)))
            post[f"{name}:result"] = RoutedGate(wire, "value", off_bank(name), dtype=self.dtype)
        flags = [kind.off for kind in self.kinds] + [off_bank(n) for n in self.kinds.banks.values()]
        carried = [Skip(f"token/{flag}", flag, (), 1.0, self.dtype) for flag in flags]
        passed = Skip("aside", "value", self.work["aside"].shape, 1.0, self.dtype)
        seen = Layout.stack(**dict.fromkeys(SEEN, self.block))
        attention = BankAttention(
            self.work,
            {name: form for form, name in self.kinds.banks.items()},
            self.tables,
            heads,
            self.dtype,
        )
        return Layer(
            FeedForward(seen, self.work, pre, carried),
            attention,
            FeedForward(self.work, self.block, post, [passed]),
            radius,
        )

    def _entrances(self, kind: StepKind) -> Iterator[tuple[str, RoutedPart]]:
        """How the operands of a kind come in."""
        i, off = kind.example, f"token/{kind.off}"
        wires = [_wire(place, o) for place, o in zip(SEEN[1:], i.operands, strict=False)]
        op, dtype = i.opcode, self.dtype
        if op in (Opcode.MULTIPLY, Opcode.MATMUL):
            read = i.read_operand or 0
            query, value = wires[read], wires[1 - read]
            alone = Wire(query.slot, split_route(query.route)[0])
            yield from self._asks(kind, alone)
            yield "value", RoutedGate(value, f"value_{kind.bank}", off, dtype=dtype)
            for wire in wires[2:]:
                yield "added", RoutedGate(wire, "aside", off, broadcast=True, dtype=dtype)
        elif op in (Opcode.FUNCTION, Opcode.SOFTMAX):
            yield from self._asks(kind, wires[0])
        elif op is Opcode.RELU:
            yield "relu", RoutedRelu(wires[0], "aside", off, dtype=dtype)
        elif op in SHUTTERS:
            yield "shut", Shutter(SHUTTERS[op], wires, "shut", off, dtype=dtype)
        elif op is Opcode.SELECT:
            flag, first, second = wires
            yield "select", Selection(flag, first, second, "aside", off, dtype=dtype)
        elif op is Opcode.JOIN:
            yield "join", JoinedGate(wires, int(i.settings["axis"]), "aside", off, dtype=dtype)
        elif op is Opcode.NUMBER:
            on = Wire(wires[0].slot, wires[0].route, "on")
            yield "number", RoutedGate(on, "aside", off, dtype=dtype)
        else:
            whole = [wire.route.before_broadcast is wire.route for wire in wires]
            for place, wire in zip(SEEN[1:], wires, strict=False):
                yield place, RoutedGate(wire, "aside", off, broadcast=any(whole), dtype=dtype)

    def _asks(self, kind: StepKind, wire: Wire) -> Iterator[tuple[str, RoutedPart]]:
        """The numbers that heads are asked, and what shuts heads of other buckets."""
        off = f"token/{kind.off}"
        yield "query", RoutedGate(wire, f"query_{kind.bank}", off, dtype=self.dtype)
        form = form_of(kind.example)
        assert form is not None
        table = self.tables[form.table]
        if isinstance(table, GridTable) and table.has_sink:
            buckets = table.buckets
            yield "shut", Thermometer(wire, buckets, f"off_{kind.bank}", off, dtype=self.dtype)


def _wire(place: str, operand: Operand) -> Wire:
    return Wire(f"{place}/value", operand.route)
