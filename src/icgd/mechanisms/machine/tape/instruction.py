"""What a tape is made of: typed registers, and instructions that each write one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from icgd.transformer.linear_map import LinearMap


class Kind(StrEnum):
    """What the entries of a register are."""

    REAL = "real"
    FLAG = "flag"
    """0 or 1; a block holds both the flag and its complement, so that gates can be shut by either."""
    INDEX = "index"
    """Whole numbers, exact in floating point."""


class Opcode(StrEnum):
    """What an instruction does with its operands, after their routes."""

    AFFINE = "affine"
    """The sum of its operands."""
    JOIN = "join"
    """Its operands one after the other along an axis."""
    MULTIPLY = "multiply"
    """The first operand, read by heads, times the second, entry by entry; a third one is added."""
    MATMUL = "matmul"
    """A matrix product, with one factor read by heads; a third operand is added."""
    FUNCTION = "function"
    """A function of every entry, by heads with its table."""
    SOFTMAX = "softmax"
    """Softmax along the last axis."""
    RELU = "relu"
    COMPARE = "compare"
    """The flag first > second."""
    EQUALS = "equals"
    """The flag first = second."""
    SELECT = "select"
    """The second operand where the flag is 1, the third where it is 0."""
    BOTH = "both"
    """The flag that both flags are 1."""
    INVERT = "invert"
    """The complement of a flag."""
    NUMBER = "number"
    """A flag as the number 0 or 1."""


LINEAR = (Opcode.AFFINE, Opcode.JOIN, Opcode.NUMBER)
"""Instructions without heads or decisions."""
HEADS = (Opcode.MULTIPLY, Opcode.MATMUL, Opcode.FUNCTION, Opcode.SOFTMAX)


@dataclass(frozen=True)
class Origin:
    """Where in the user's code an instruction comes from; phase: forward, backward or update."""

    file: str = ""
    line: int = 0
    text: str = ""
    phase: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.file else ""


@dataclass(frozen=True)
class Register:
    """A value on the tape: written once, read by later instructions."""

    name: str
    shape: tuple[int, ...]
    kind: Kind = Kind.REAL

    @property
    def size(self) -> int:
        """How many entries it has."""
        return math.prod(self.shape)

    @property
    def room(self) -> int:
        """How many coordinates of a block it takes: flags stand there with their complement."""
        return 2 * self.size if self.kind is Kind.FLAG else self.size


@dataclass(frozen=True)
class Operand:
    """A register as an instruction sees it."""

    register: Register
    route: LinearMap

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape after the route."""
        return self.route.shape

    @classmethod
    def whole(cls, register: Register) -> Operand:
        """A register as it is."""
        return cls(register, LinearMap(register.shape))

    def __str__(self) -> str:
        return f"{self.register.name} {self.route}".strip()


@dataclass(frozen=True)
class Instruction:
    """One step: operands through their routes, an operation, one register written.

    settings  what belongs to the operation: {"function": "sqrt"}, {"axis": 0}, {"read": 1}
    """

    opcode: Opcode
    operands: tuple[Operand, ...]
    output: Register
    settings: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = Origin()

    @property
    def label(self) -> str:
        """Opcode and function for people."""
        function = self.settings.get("function")
        return f"{self.opcode}" if function is None else f"{function}"

    @property
    def signature(self) -> tuple[Any, ...]:
        """Everything the weights of its step kind depend on: shapes and routes, no names, no data."""
        seen = tuple((o.register.kind, o.register.shape, o.route.moves) for o in self.operands)
        out = (self.output.kind, self.output.shape)
        return (self.opcode, seen, out, tuple(sorted(self.settings.items())))

    @property
    def read_operand(self) -> int | None:
        """Which operand heads read as a query; None where no heads are asked."""
        if self.opcode is Opcode.MATMUL or self.opcode is Opcode.MULTIPLY:
            return int(self.settings.get("read", 0))
        return 0 if self.opcode in HEADS else None

    @property
    def n_reads(self) -> int:
        """Numbers that heads are asked: one head each at least."""
        at = self.read_operand
        if at is None:
            return 0
        if self.opcode is Opcode.SOFTMAX:
            return math.prod(self.operands[0].shape[:-1])
        if self.opcode is Opcode.FUNCTION:
            return math.prod(self.operands[0].shape)
        operand = self.operands[at]
        if operand.route.is_selection:
            return min(operand.register.size, math.prod(operand.shape))
        return math.prod(operand.shape)
