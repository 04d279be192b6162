"""Single changes of a compiled program: weights, temperature, mask edges, flags."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

import icgd
from icgd.transformer.mask_rules import DynamicMask, Step

Change = Callable[[icgd.Program], None]


@dataclass(frozen=True)
class Mutant:
    """A named change.

    table   it changes the grid, which a certificate can judge
    prompt  it changes the prompt or the mask, which probes of the layer do not touch
    """

    name: str
    change: Change
    table: bool = False
    prompt: bool = False

    def of(self, program: icgd.Program) -> icgd.Program:
        altered = copy.deepcopy(program)
        # The codec follows the program's own weights, wherever they are copied to.
        altered.codec._like = [altered.step.attention.levels]
        self.change(altered)
        return altered


SCALES = {"zeroed": 0.0, "flipped": -1.0, "scaled by 1%": 1.01}
TABLES = ("step.attention.levels", "step.attention.linear", "step.attention.quadratic")


def weight_mutants(program: icgd.Program, *, per_tensor: int, seed: int = 0) -> Iterator[Mutant]:
    """`per_tensor` changes of single entries of every weight tensor; every entry of the grid."""
    generator = torch.Generator().manual_seed(seed)
    kinds = list(SCALES.items())
    for which, (name, weights) in enumerate(program.named_parameters()):
        entries = range(weights.numel())
        table = name in TABLES
        n_changes = weights.numel() if table else per_tensor
        for i in range(n_changes):
            label, factor = kinds[(which + i) % len(kinds)]
            if table:
                entry = i
            else:
                entry = int(torch.randint(len(entries), (1,), generator=generator))
            yield Mutant(f"{name}[{entry}] {label}", _scale(name, entry, factor), table)


def _scale(name: str, entry: int, factor: float) -> Change:
    def change(program: icgd.Program) -> None:
        weights = dict(program.named_parameters())[name]
        weights.data.view(-1)[entry] *= factor

    return change


def temperature_mutants() -> Iterator[Mutant]:
    """beta doubled and halved, in the whole grid and in its two tables alone."""
    for factor in (2.0, 0.5):
        for tables in (("linear", "quadratic"), ("linear",), ("quadratic",)):

            def change(program: icgd.Program, f: float = factor, t: tuple = tables) -> None:
                for table in t:
                    getattr(program.step.attention, table).data.mul_(f)

            yield Mutant(f"temperature x{factor} in {'+'.join(tables)}", change)


class _Mask(DynamicMask):
    """A dynamic mask with other steps."""

    def steps(self) -> tuple[Step, ...]:
        return self.__dict__["altered"]


def _with_steps(alter: Callable[[list[Step]], list[Step]]) -> Change:
    def change(program: icgd.Program) -> None:
        mask = _Mask(program.mask.n_layers)
        mask.__dict__["altered"] = tuple(alter(list(program.mask.steps())))
        program.mask = mask

    return change


def mask_mutants(program: icgd.Program) -> Iterator[Mutant]:
    """Every step: its two blocks swapped, and each of them replaced by a neighbour's."""
    steps = program.mask.steps()
    n_layers = program.mask.n_layers
    for i, step in enumerate(steps):
        top, bottom = step.reads
        choices = {"swapped": (bottom, top)}
        for position, (kind, layer) in enumerate(step.reads):
            if kind in ("F", "B"):
                for other in (layer - 1, layer + 1):
                    if 1 <= other <= n_layers and (kind == "B" or other <= i):
                        reads = list(step.reads)
                        reads[position] = (kind, other)
                        choices[f"sees {kind}_{other} for {kind}_{layer}"] = tuple(reads)
            else:
                reads = list(step.reads)
                reads[position] = ("Y" if kind == "X" else "X", 0)
                choices[f"sees {reads[position][0]} for {kind}"] = tuple(reads)
        for label, reads in choices.items():

            def alter(found: list[Step], i: int = i, reads: tuple = tuple(reads)) -> list[Step]:
                found[i] = replace(found[i], reads=reads)
                return found

            yield Mutant(f"mask step {i} ({step.kind}) {label}", _with_steps(alter), prompt=True)
    for i in range(len(steps) - 1):

        def swap(found: list[Step], i: int = i) -> list[Step]:
            found[i], found[i + 1] = found[i + 1], found[i]
            return found

        yield Mutant(f"mask steps {i} and {i + 1} exchanged", _with_steps(swap), prompt=True)


def flag_mutants() -> Iterator[Mutant]:
    """Every flag of the prompt taken away, or raised where it must not be."""
    for group in ("layer_flags", "data_flags"):
        for flag in ("not_forward", "not_backward", "not_data"):

            def change(program: icgd.Program, group: str = group, flag: str = flag) -> None:
                flags = dict(getattr(program.codec, group))
                if flag in flags:
                    del flags[flag]
                else:
                    flags[flag] = 1.0
                setattr(program.codec, group, flags)

            yield Mutant(f"{group}: {flag} toggled", change, prompt=True)
