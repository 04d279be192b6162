"""A tape as text, one line per step."""

from __future__ import annotations

import math

from icgd.mechanisms.machine.tape.instruction import Instruction
from icgd.mechanisms.machine.tape.tape import Tape


def listing(name: str, tape: Tape) -> str:
    """A head line, what the tape finds, its steps, and what it leaves.

    A step reads: register = instruction operands through their routes, shape, numbers read, where from.
    """
    inputs = [f"  {r.name:6} {_shape(r.shape):14} {label}" for label, r in tape.inputs.items()]
    given = [
        f"  {r.name:6} {_shape(r.shape):14} constant {_shown(value)}"
        for r, value in tape.constants.items()
    ]
    steps = [f"  {_step(k, i)}" for k, i in enumerate(tape, 1)]
    left = [f"  {r.name:6} {label}" for label, r in tape.outputs.items()]
    head = f"tape {name}: {len(tape)} steps, depth {tape.depth}"
    return "\n".join([head, "finds", *inputs, *given, "steps", *steps, "leaves", *left])


def _step(number: int, i: Instruction) -> str:
    operands = ", ".join(str(o) for o in i.operands)
    reads = f"  reads {i.n_reads:,}" if i.n_reads else ""
    where = f"  # {i.origin.phase + ' ' if i.origin.phase else ''}{i.origin}".rstrip()
    comment = "" if where == "  #" else where
    return f"{number:4} {i.output.name:6} = {i.label} {operands} -> {_shape(i.output.shape)}{reads}{comment}"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "number"


def _shown(value) -> str:  # type: ignore[no-untyped-def]
    if math.prod(value.shape) == 1:
        return f"{float(value.reshape(-1)[0]):.6g}"
    return f"of {value.numel()} numbers"
