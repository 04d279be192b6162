"""Step kinds: the distinct instructions of a program, each with the slots its operands go to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from icgd.mechanisms.machine.layer.banks import BankForm, bank_name, form_of
from icgd.mechanisms.machine.tape.instruction import Instruction


@dataclass(frozen=True)
class StepKind:
    """An instruction as the layer knows it.

    name  of the kind; instruction tokens carry one flag per kind, 0 for their own
    bank  the bank of heads it uses, if any
    """

    name: str
    example: Instruction
    bank: str | None

    @property
    def off(self) -> str:
        """The flag of instruction tokens that is 0 for this kind."""
        return f"off_{self.name}"


@dataclass
class KindTable:
    """The kinds of a program's tapes; the weights of its layer depend on these alone."""

    kinds: dict[tuple[Any, ...], StepKind] = field(default_factory=dict)
    banks: dict[BankForm, str] = field(default_factory=dict)

    def add(self, instructions: Iterable[Instruction]) -> None:
        """Take in the instructions of a tape."""
        for instruction in instructions:
            self.kind_of(instruction)

    def kind_of(self, instruction: Instruction) -> StepKind:
        """The kind of an instruction, a new one if it is new."""
        key = instruction.signature
        if key not in self.kinds:
            name = f"{instruction.label}_{len(self.kinds)}"
            self.kinds[key] = StepKind(name, instruction, self._bank(instruction))
        return self.kinds[key]

    def _bank(self, instruction: Instruction) -> str | None:
        form = form_of(instruction)
        if form is None:
            return None
        if form not in self.banks:
            self.banks[form] = bank_name(form, len(self.banks))
        return self.banks[form]

    def __iter__(self) -> Iterator[StepKind]:
        return iter(self.kinds.values())

    def __len__(self) -> int:
        return len(self.kinds)
