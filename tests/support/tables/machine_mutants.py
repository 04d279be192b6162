"""Single changes of a compiled program of the machine: weights, tokens, schedules, index maps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from icgd.mechanisms.machine.layer.attention import Bank
from icgd.transformer.gadgets.gates.routed import RoutedPart, Wire
from icgd.transformer.linear_map import LinearMap

Change = Callable[[Any], None]
FACTORS = {"zeroed": 0.0, "flipped": -1.0, "scaled by 1%": 1.01}
SET = 0.01
"""What an entry that was 0 becomes."""


@dataclass(frozen=True)
class Mutant:
    """A named change of one of a family: weights, tokens, schedules, maps."""

    family: str
    name: str
    change: Change

    def of(self, program):
        altered = copy.deepcopy(program)
        self.change(altered)
        return altered


def weight_mutants(program, seed=0) -> Iterator[Mutant]:
    """One change of every weight tensor: an entry zeroed, flipped or scaled."""
    generator = torch.Generator().manual_seed(seed)
    kinds = list(FACTORS.items())
    for k, (name, weights) in enumerate(program.named_parameters()):
        entry = int(torch.randint(weights.numel(), (1,), generator=generator))
        label, factor = kinds[(k + seed) % len(kinds)]
        yield Mutant("weights", f"{name}[{entry}] {label}", _scaled(name, entry, factor))


def _scaled(name: str, entry: int, factor: float) -> Change:
    def change(program) -> None:
        flat = dict(program.named_parameters())[name].data.view(-1)
        flat[entry] = flat[entry] * factor if flat[entry] != 0 else SET

    return change


def token_mutants(program) -> Iterator[Mutant]:
    """Every token: its own flag raised, its bank's flag toggled, and another flag lowered."""
    for index, values in enumerate(program.codec.tokens):
        shut = [name for name, value in values.items() if value == 1.0]
        own = [name for name, value in values.items() if value == 0.0]
        for name in (*own, shut[index % len(shut)]):

            def change(altered, index=index, name=name) -> None:
                altered.codec.tokens[index][name] = 1.0 - altered.codec.tokens[index][name]

            yield Mutant("tokens", f"token {index}: {name} toggled", change)


def schedule_mutants(program) -> Iterator[Mutant]:
    """Every step: registers it reads exchanged, another token, another target; its turn with the next one."""
    for tape, steps in program.mask.schedules.items():
        blocks = sorted({step.writes for step in steps})
        n_tokens = len(program.codec.tokens)
        for k, step in enumerate(steps):
            token, first, second, *rest = step.reads
            changed = {
                "exchanged registers": replace(step, reads=(token, second, first, *rest)),
                "another token": replace(
                    step, reads=(("I", (token[1] + 1) % n_tokens), *step.reads[1:])
                ),
                "another target": replace(
                    step, writes=blocks[(blocks.index(step.writes) + 1) % len(blocks)]
                ),
            }
            for label, other in changed.items():
                if other != step:
                    yield Mutant("schedules", f"{tape} step {k} {label}", _with(tape, k, other))
            if k + 1 < len(steps):
                yield Mutant(
                    "schedules", f"{tape} steps {k} and {k + 1} exchanged", _swapped(tape, k)
                )


def _with(tape: str, at: int, step) -> Change:
    def change(program) -> None:
        steps = list(program.mask.schedules[tape])
        steps[at] = step
        program.mask.schedules[tape] = tuple(steps)

    return change


def _swapped(tape: str, at: int) -> Change:
    def change(program) -> None:
        steps = list(program.mask.schedules[tape])
        steps[at], steps[at + 1] = steps[at + 1], steps[at]
        program.mask.schedules[tape] = tuple(steps)

    return change


def map_mutants(program) -> Iterator[Mutant]:
    """Every route: its entries turned by one place; every bank: the same with what heads are asked."""
    for where in ("pre", "post"):
        for name, part in getattr(program.step, where).parts.items():
            if not isinstance(part, RoutedPart):
                continue
            for attribute, value in vars(part).items():
                if isinstance(value, Wire) and value.size > 1:
                    yield Mutant(
                        "maps",
                        f"{where} {name}.{attribute} turned",
                        _rewired(where, name, attribute),
                    )
    for name, bank in program.step.attention.banks.items():
        if isinstance(bank, Bank) and bank.form.n_queries > 1 and bank.form.n_values:

            def change(altered, name=name) -> None:
                form = altered.step.attention.banks[name].form
                spread = form.spread.after(_turned(form.asked))
                altered.step.attention.banks[name].form = replace(form, spread=spread)

            yield Mutant("maps", f"bank {name} spread turned", change)


def _turned(shape: tuple[int, ...]) -> LinearMap:
    """Entries moved on by one place."""
    n = int(torch.Size(shape).numel())
    order = (*range(1, n), 0)
    return LinearMap(shape).then("view", (n,)).then("pick", 0, order).then("view", shape)


def _rewired(where: str, name: str, attribute: str) -> Change:
    def change(program) -> None:
        part = getattr(program.step, where).parts[name]
        wire = getattr(part, attribute)
        turned = _turned(wire.route.shape).after(wire.route)
        setattr(part, attribute, replace(wire, route=turned))

    return change
