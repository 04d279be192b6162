"""What a program of the machine takes: steps, heads and operations of every tape, and the layer they share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from icgd.mechanisms.machine.layer.attention import BankAttention
from icgd.mechanisms.machine.schedule import Schedules
from icgd.mechanisms.machine.tape.instruction import Instruction, Opcode
from icgd.mechanisms.machine.tape.tape import Tape
from icgd.transformer.nn.chain.layer import Layer

PER_FUNCTION = 60
"""Operations that a head takes to answer, as the fast executor computes it: reduction, two sums, a ratio."""


@dataclass(frozen=True)
class TapeCost:
    """One round with one tape.

    instructions      calls of the layer: what the user's step needs, and copies that bring results home
    heads_or_gates    those that are more than a linear map
    depth             instructions on the longest chain of such as wait for each other
    reads             numbers that heads are asked
    heads             literal heads that answer them: one per number and bucket
    dense_flops       with the literal matrices, every head at every call
    structured_flops  as the fast executor computes it
    """

    instructions: int
    heads_or_gates: int
    depth: int
    reads: int
    heads: int
    dense_flops: int
    structured_flops: int


@dataclass(frozen=True)
class MachineCost:
    """A program: `tapes` by name, and the one frozen layer.

    block_width       entries of a block of the prompt
    working_width     entries of the token between the layer's feed-forward parts
    kinds             kinds of steps
    heads             literal heads of the layer
    grid_tokens       tokens they attend to
    stored            numbers that are saved
    dense_parameters  entries of the layer's literal matrices
    """

    tapes: dict[str, TapeCost]
    block_width: int
    working_width: int
    kinds: int
    heads: int
    grid_tokens: int
    stored: int
    dense_parameters: int

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a result file."""
        return asdict(self)

    def __str__(self) -> str:
        columns = [("a round", *self.tapes)]
        for name, label in _ROWS.items():
            values = (_shown(getattr(tape, name)) for tape in self.tapes.values())
            columns.append((label, *values))
        widths = [max(len(row[k]) for row in columns) for k in range(len(columns[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if k == 0 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in columns
        ]
        layer = [
            f"the layer: {_shown(self.kinds)} kinds of steps, {_shown(self.heads)} heads on "
            f"{_shown(self.grid_tokens)} grid tokens",
            f"blocks of {_shown(self.block_width)} entries, {_shown(self.working_width)} inside the layer",
            f"{_shown(self.stored)} numbers stored, {_shown(self.dense_parameters)} in literal matrices",
        ]
        return "\n".join([*lines, *layer])


_ROWS = {
    "instructions": "instructions",
    "heads_or_gates": "  with heads or gates",
    "depth": "critical depth",
    "reads": "numbers read",
    "heads": "  by literal heads",
    "dense_flops": "FLOPs, literal matrices",
    "structured_flops": "FLOPs, as it is run",
}


def _shown(value: int) -> str:
    return f"{value:,}" if value < 10**7 else f"{value:.2e}"


def machine_cost(
    schedules: Schedules, tapes: dict[str, Tape], step: Layer, stored: int
) -> MachineCost:
    """Count the tapes of a program and its layer."""
    attention = step.attention
    assert isinstance(attention, BankAttention)
    heads = {bank.name: attention.heads_of(bank) for bank in attention.every_bank()}
    call = step.dense_flops(1)
    return MachineCost(
        tapes={
            name: _tape_cost(
                tape, schedules, [p.instruction for p in schedules.placed[name]], heads, call
            )
            for name, tape in tapes.items()
        },
        block_width=step.post.target.width,
        working_width=attention.layout.width,
        kinds=len(schedules.kinds),
        heads=sum(heads.values()),
        grid_tokens=attention.n_tokens,
        stored=stored,
        dense_parameters=step.dense_parameters(1),
    )


def _tape_cost(
    tape: Tape,
    schedules: Schedules,
    steps: Sequence[Instruction],
    heads: dict[str, int],
    call: int,
) -> TapeCost:
    banks = [schedules.kinds.kind_of(i).bank for i in steps]
    return TapeCost(
        instructions=len(steps),
        heads_or_gates=tape.steps_with_heads_or_gates,
        depth=tape.depth,
        reads=sum(i.n_reads for i in steps),
        heads=sum(heads[bank] for bank in banks if bank is not None),
        dense_flops=len(steps) * call,
        structured_flops=sum(map(structured_flops, steps)),
    )


def structured_flops(i: Instruction) -> int:
    """Operations of one instruction as tensors: products count two per term, sums and choices one per entry."""
    routes = sum(math.prod(o.register.shape) for o in i.operands if not o.route.is_selection)
    size = i.output.size
    if i.opcode is Opcode.MATMUL:
        work = 2 * size * i.operands[0].shape[-1] + size * (len(i.operands) - 2)
    elif i.opcode is Opcode.FUNCTION:
        return routes + PER_FUNCTION * size
    elif i.opcode is Opcode.SOFTMAX:
        work = 5 * size
    else:
        work = size * max(1, len(i.operands) - 1)
    n_reads = i.n_reads if i.opcode in (Opcode.MATMUL, Opcode.MULTIPLY) else 0
    return routes + work + PER_FUNCTION * n_reads
