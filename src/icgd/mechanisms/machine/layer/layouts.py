"""Named slots of a machine's blocks, and of the token between its feed-forward layers."""

from __future__ import annotations

from collections.abc import Sequence

from icgd.mechanisms.machine.layer.banks import BankForm
from icgd.mechanisms.machine.layer.kinds import KindTable
from icgd.mechanisms.machine.tape.instruction import Kind
from icgd.transformer.layout import Layout, Slot

SEEN = ("token", "first", "second", "third")
"""The blocks a step sees: its instruction token and at most three registers."""


def off_bank(name: str) -> str:
    """The flag of instruction tokens that is 0 for the kinds that use a bank."""
    return f"off_bank_{name}"


def block_layout(kinds: KindTable, room: int) -> Layout:
    """Every block has room for the largest register; instruction tokens have flags besides.

    Statement: [COT] Definition 4.3

    Differs from the paper: blocks hold registers of a program instead of the layers of a network, and the kind
    of a step stands in an instruction token.
    """
    slots = [
        Slot(
            "value", (room,), "a register, row by row; of a flag, then its complement", ragged=True
        )
    ]
    slots += [Slot(kind.off, (), f"0 in tokens of {kind.name}, 1 in others") for kind in kinds]
    slots += [
        Slot(off_bank(name), (), f"0 in tokens that use the heads {name}")
        for name in kinds.banks.values()
    ]
    return Layout(slots)


def working_layout(kinds: KindTable, room: int, thermometers: dict[str, int]) -> Layout:
    """Operands of heads, their results, what passes by them, and the flags.

    thermometers  how many numbers shut the heads of a bank, where its heads have buckets
    """
    flags = [kind.example.output.size for kind in kinds if kind.example.output.kind is Kind.FLAG]
    slots = [
        Slot("aside", (room,), "what needs no heads, or is added to what they write", ragged=True)
    ]
    if flags:
        slots.append(Slot("shut", (max(flags),), "0 where a flag is to be 1", ragged=True))
    for form, name in kinds.banks.items():
        slots += _bank_slots(form, name)
        if thermometers.get(name):
            slots.append(
                Slot(f"off_{name}", (thermometers[name],), "what shuts the heads", ragged=True)
            )
    slots += [Slot(kind.off, (), "carried") for kind in kinds]
    slots += [Slot(off_bank(name), (), "carried") for name in kinds.banks.values()]
    return Layout(slots)


def _bank_slots(form: BankForm, name: str) -> Sequence[Slot]:
    slots = [Slot(f"query_{name}", (form.n_queries,), "numbers the heads are asked", ragged=True)]
    if form.n_values:
        slots.append(Slot(f"value_{name}", (form.n_values,), "numbers they multiply", ragged=True))
    return [*slots, Slot(f"result_{name}", (form.n_results,), "what they write", ragged=True)]
