"""The schedule of a program: which blocks every step sees. It is the tape, as a mask rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from icgd.mechanisms.machine.layer.kinds import KindTable
from icgd.mechanisms.machine.passes.allocate import Homes, Placed, allocate
from icgd.mechanisms.machine.tape.tape import Tape
from icgd.transformer.mask_rules import Address, Step

TOKEN = "I"
"""Kind of the blocks that are instruction tokens."""


@dataclass(frozen=True)
class TapeMask:
    """One schedule per tape of a program: the first round may differ from the others, and a smaller batch.

    Statement: [COT] Definition 4.4

    Differs from the paper: there rounds have one schedule, printed as a formula; here it is the program.
    """

    schedules: Mapping[str, tuple[Step, ...]]

    replaces: ClassVar[bool] = False

    def of(self, tape: str) -> tuple[Step, ...]:
        """The steps of a round with this tape."""
        return self.schedules[tape]

    def steps(self) -> Sequence[Step]:
        """The steps of the longest round."""
        return max(self.schedules.values(), key=len)

    def forward_steps(self) -> Sequence[Step]:
        """The same: a machine predicts with a tape of its own."""
        return self.steps()


@dataclass
class Schedules:
    """Everything the prompt and the mask need to know of a program's tapes."""

    homes: Homes = field(default_factory=Homes)
    kinds: KindTable = field(default_factory=KindTable)
    placed: dict[str, list[Placed]] = field(default_factory=dict)
    constants: dict[Address, Tensor] = field(default_factory=dict)
    room: int = 1
    _constant_of: dict[bytes, Address] = field(default_factory=dict)

    @classmethod
    def of(cls, tapes: Mapping[str, Tape]) -> Schedules:
        """All tapes of a program; what outlives a round has one place in all of them."""
        self = cls()
        for name, tape in tapes.items():
            where = {r.name: self._constant(value) for r, value in tape.constants.items()}
            self.placed[name] = allocate(tape, self.homes, where)
            self.kinds.add(p.instruction for p in self.placed[name])
            rooms = [r.room for r in tape.registers.values()]
            self.room = max([self.room, *rooms])
        return self

    def _constant(self, value: Tensor) -> Address:
        key = str((value.dtype, tuple(value.shape))).encode() + value.numpy().tobytes()
        if key not in self._constant_of:
            address = self.homes.constant(f"constant.{len(self._constant_of)}")
            self._constant_of[key] = address
            self.constants[address] = value
        return self._constant_of[key]

    def token(self, placed: Placed) -> Address:
        """The instruction token of a step."""
        names = [kind.name for kind in self.kinds]
        return (TOKEN, names.index(self.kinds.kind_of(placed.instruction).name))

    def mask(self) -> TapeMask:
        """The schedules as a mask rule."""
        at = {kind.name: k for k, kind in enumerate(self.kinds)}

        def step(placed: Placed) -> Step:
            kind = self.kinds.kind_of(placed.instruction)
            token = (TOKEN, at[kind.name])
            reads = [token, *placed.reads]
            reads += [token] * (4 - len(reads))
            return Step(step_name(placed), placed.writes, tuple(reads))

        return TapeMask({n: tuple(step(p) for p in placed) for n, placed in self.placed.items()})


def step_name(placed: Placed) -> str:
    """What a step is called in messages: instruction, register, and the user's line."""
    i = placed.instruction
    where = str(i.origin)
    phase = f", {i.origin.phase}" if i.origin.phase else ""
    return f"{i.label} -> {i.output.name}{phase}{', ' + where if where else ''}"
