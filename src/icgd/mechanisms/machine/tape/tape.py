"""A tape: what one round of a program does, instruction by instruction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.tape.instruction import (
    LINEAR,
    Instruction,
    Kind,
    Opcode,
    Operand,
    Origin,
    Register,
)
from icgd.transformer.linear_map import LinearMap


@dataclass(frozen=True)
class Tape:
    """Registers that a round finds, instructions, and registers that it leaves.

    inputs     by the name of what stands in them: "param.0.weight", "hyper.0.lr", "data.0"
    constants  registers with the numbers that stand in the prompt from the beginning
    outputs    by name: "param.0.weight", "out.0"
    """

    inputs: Mapping[str, Register]
    constants: Mapping[Register, Tensor]
    instructions: tuple[Instruction, ...]
    outputs: Mapping[str, Register]

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __len__(self) -> int:
        return len(self.instructions)

    def with_instructions(self, instructions: Sequence[Instruction]) -> Tape:
        """The same inputs and outputs with other instructions."""
        return replace(self, instructions=tuple(instructions))

    @property
    def registers(self) -> dict[str, Register]:
        """Every register by its name."""
        every = [*self.inputs.values(), *self.constants, *(i.output for i in self)]
        return {register.name: register for register in every}

    @property
    def depth(self) -> int:
        """Steps on the longest chain of instructions that wait for each other."""
        ready: dict[str, int] = {}
        for i in self:
            waits = [ready.get(o.register.name, 0) for o in i.operands]
            ready[i.output.name] = max(waits, default=0) + 1
        return max((ready.get(r.name, 0) for r in self.outputs.values()), default=0)

    @property
    def steps_with_heads_or_gates(self) -> int:
        """Instructions that are more than a linear map."""
        return sum(i.opcode not in LINEAR for i in self)

    # -- files ------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The tape as numbers, names and lists."""
        return {
            "inputs": {name: _register_json(r) for name, r in self.inputs.items()},
            "constants": [
                [_register_json(r), value.reshape(-1).tolist()]
                for r, value in self.constants.items()
            ],
            "instructions": [_instruction_json(i) for i in self],
            "outputs": {name: r.name for name, r in self.outputs.items()},
        }

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> Tape:
        """What `to_json` described."""
        inputs = {name: _register(r) for name, r in described["inputs"].items()}
        constants = {
            (r := _register(of)): _constant(r, values) for of, values in described["constants"]
        }
        known = {r.name: r for r in (*inputs.values(), *constants)}
        instructions = []
        for one in described["instructions"]:
            made_of = tuple(
                Operand(known[name], LinearMap.from_json(route)) for name, route in one["operands"]
            )
            output = _register(one["output"])
            known[output.name] = output
            instructions.append(
                Instruction(
                    Opcode(one["opcode"]),
                    made_of,
                    output,
                    dict(one["settings"]),
                    Origin(*one["origin"]),
                )
            )
        outputs = {name: known[register] for name, register in described["outputs"].items()}
        return cls(inputs, constants, tuple(instructions), outputs)


def _constant(register: Register, values: Sequence[Any]) -> Tensor:
    dtype = torch.bool if register.kind is Kind.FLAG else torch.float64
    return torch.tensor(values, dtype=dtype).reshape(register.shape)


def _register_json(r: Register) -> list[Any]:
    return [r.name, list(r.shape), str(r.kind)]


def _register(described: Sequence[Any]) -> Register:
    name, shape, kind = described
    return Register(name, tuple(shape), Kind(kind))


def _instruction_json(i: Instruction) -> dict[str, Any]:
    o = i.origin
    return {
        "opcode": str(i.opcode),
        "operands": [[x.register.name, x.route.to_json()] for x in i.operands],
        "output": _register_json(i.output),
        "settings": dict(i.settings),
        "origin": [o.file, o.line, o.text, o.phase],
    }


@dataclass
class TapeWriter:
    """Writes instructions one after the other, each distinct one once.

    Two instructions with the same operation and operands are the same number.
    """

    inputs: dict[str, Register] = field(default_factory=dict)
    constants: dict[Register, Tensor] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    origin: Origin = field(default_factory=Origin)

    def __post_init__(self) -> None:
        self._known: dict[tuple[Any, ...], Register] = {}
        self._written: dict[str, Instruction] = {}
        self._constant_of: dict[tuple[Any, ...], Register] = {}

    def input(self, name: str, shape: tuple[int, ...], kind: Kind) -> Register:
        """A register that a round finds."""
        self.inputs[name] = Register(f"x{len(self.inputs)}", shape, kind)
        return self.inputs[name]

    def constant(self, value: Tensor) -> Register:
        """A register of the prompt that holds these numbers."""
        kind = Kind.FLAG if value.dtype == torch.bool else Kind.REAL
        value = value if kind is Kind.FLAG else value.to(torch.float64)
        key = (kind, tuple(value.shape), value.contiguous().numpy().tobytes())
        if key not in self._constant_of:
            register = Register(f"c{len(self.constants)}", tuple(value.shape), kind)
            self._constant_of[key] = register
            self.constants[register] = value.detach().clone().contiguous()
        return self._constant_of[key]

    def write(
        self,
        opcode: Opcode,
        operands: Sequence[Operand],
        shape: tuple[int, ...],
        *,
        kind: Kind = Kind.REAL,
        **settings: Any,
    ) -> Register:
        """The register that holds the result of this instruction."""
        seen = tuple((o.register.name, o.route) for o in operands)
        key = (opcode, seen, shape, tuple(sorted(settings.items())))
        if key not in self._known:
            output = Register(f"r{len(self.instructions)}", shape, kind)
            instruction = Instruction(opcode, tuple(operands), output, settings, self.origin)
            self.instructions.append(instruction)
            self._known[key], self._written[output.name] = output, instruction
        return self._known[key]

    def writer_of(self, register: Register) -> Instruction | None:
        """The instruction that wrote a register; None for inputs and constants."""
        return self._written.get(register.name)

    def finish(self, outputs: Mapping[str, Register]) -> Tape:
        """The tape with these results."""
        return Tape(dict(self.inputs), dict(self.constants), tuple(self.instructions), outputs)
