"""What nobody reads is not computed, and constants that nobody reads are not in the prompt."""

from __future__ import annotations

from dataclasses import replace

from icgd.mechanisms.machine.tape.tape import Tape


def without_unused(tape: Tape) -> Tape:
    """The tape without instructions and constants that no result depends on."""
    needed = {register.name for register in tape.outputs.values()}
    kept = []
    for instruction in reversed(tape.instructions):
        if instruction.output.name in needed:
            needed.update(o.register.name for o in instruction.operands)
            kept.append(instruction)
    constants = {r: value for r, value in tape.constants.items() if r.name in needed}
    return replace(tape, instructions=tuple(kept[::-1]), constants=constants)
