"""Registers of a tape get blocks of the prompt: as few as are alive at a time.

What outlives a round (weights, buffers, state of the optimizer) has a home, a block of its own that every tape
of a program finds and leaves it in; everything else takes the first block that is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from icgd.mechanisms.machine.tape.instruction import Instruction, Kind, Opcode, Operand, Register
from icgd.mechanisms.machine.tape.tape import Tape
from icgd.transformer.mask_rules import Address

STATE, TEMPORARY, CONSTANT, DATA, RESULT = "S", "R", "C", "D", "O"
"""Kinds of blocks, besides instruction tokens "I"."""
LASTING = ("param.", "buffer.", "state.", "slot.")
"""Names of what outlives a round."""


@dataclass
class Homes:
    """Blocks by the name of what stands in them, shared by the tapes of a program."""

    by_name: dict[str, Address] = field(default_factory=dict)

    def of(self, name: str) -> Address:
        """The block of this name, a new one if it is new."""
        if name not in self.by_name:
            kind = (
                STATE if name.startswith(LASTING) else RESULT if name.startswith("out.") else DATA
            )
            count = sum(address[0] == kind for address in self.by_name.values())
            self.by_name[name] = (kind, count)
        return self.by_name[name]

    def constant(self, key: str) -> Address:
        """The block of a constant."""
        if key not in self.by_name:
            count = sum(address[0] == CONSTANT for address in self.by_name.values())
            self.by_name[key] = (CONSTANT, count)
        return self.by_name[key]


@dataclass(frozen=True)
class Placed:
    """An instruction with the blocks it sees and the one it writes."""

    instruction: Instruction
    reads: tuple[Address, ...]
    writes: Address


def allocate(tape: Tape, homes: Homes, constants: Mapping[str, Address]) -> list[Placed]:
    """The instructions in order, with their blocks; copies that bring results home stand at the end."""
    return _Allocator(tape, homes, constants).run()


class _Allocator:
    def __init__(self, tape: Tape, homes: Homes, constants: Mapping[str, Address]) -> None:
        self.tape, self.homes = tape, homes
        self.where: dict[str, Address] = dict(constants)
        self.where.update({r.name: homes.of(name) for name, r in tape.inputs.items()})
        self.placed: list[Placed] = []
        self.free: list[Address] = []
        self.n_temporary = 0
        self.last: dict[str, int] = {}
        for at, instruction in enumerate(tape):
            for operand in instruction.operands:
                self.last[operand.register.name] = at
        end = len(tape)
        self.wanted: dict[str, list[str]] = {}
        for name, register in tape.outputs.items():
            self.wanted.setdefault(register.name, []).append(name)
            self.last[register.name] = end
        self.holder = {homes.of(name): r.name for name, r in tape.inputs.items()}

    def run(self) -> list[Placed]:
        for at, instruction in enumerate(self.tape):
            reads = tuple(self.where[o.register.name] for o in instruction.operands)
            for operand in instruction.operands:
                self._release(operand.register.name, at)
            writes = self._place(instruction.output, at)
            self.where[instruction.output.name] = writes
            self.placed.append(Placed(instruction, reads, writes))
        self._bring_home()
        return self.placed

    def _release(self, name: str, at: int) -> None:
        address = self.where[name]
        if self.last[name] == at and address[0] == TEMPORARY and address not in self.free:
            self.free.append(address)

    def _place(self, register: Register, at: int) -> Address:
        """Its home, if what stands there is not read any more; else the first free block."""
        for name in self.wanted.get(register.name, ()):
            home = self.homes.of(name)
            now = self.holder.get(home)
            if now is None or self.last.get(now, -1) <= at:
                self.holder[home] = register.name
                return home
        if self.free:
            self.free.sort()
            return self.free.pop(0)
        self.n_temporary += 1
        return (TEMPORARY, self.n_temporary - 1)

    def _bring_home(self) -> None:
        """Copy results that could not be written where they belong, through a spare block where homes meet."""
        moves = [
            (register, self.homes.of(name))
            for name, register in self.tape.outputs.items()
            if self.where[register.name] != self.homes.of(name)
        ]
        targets = {home for _, home in moves}
        for register, _ in moves:
            if self.where[register.name] in targets:
                spare = self._place(Register("", register.shape), len(self.tape))
                self._copy(register, spare)
                self.where[register.name] = spare
        for register, home in moves:
            self._copy(register, home)

    def _copy(self, register: Register, target: Address) -> None:
        whole = Operand.whole(register)
        flag = register.kind is Kind.FLAG
        copy = Instruction(
            Opcode.BOTH if flag else Opcode.AFFINE,
            (whole, whole) if flag else (whole,),
            Register(f"{register.name}'", register.shape, register.kind),
        )
        source = self.where[register.name]
        self.placed.append(Placed(copy, (source,) * len(copy.operands), target))
