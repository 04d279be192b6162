"""Single changes of a compiled stack: weights, index arrays, mask, options."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

import icgd
from icgd.transformer.mask_rules import StateMask, Step

SCALES = {"zeroed": 0.0, "flipped": -1.0, "scaled by 1%": 1.01}
SET = 0.01
"""What an entry that was 0 becomes."""


@dataclass(frozen=True)
class Mutant:
    """A changed program, what was changed, and the entry as it was."""

    name: str
    program: icgd.Program
    before: float = 1.0


def weight_mutants(
    program: icgd.Program, per_tensor: int, *, every_kind: bool = False, seed: int = 0
) -> Iterator[Mutant]:
    """Some entries of every weight tensor, one kind of change each or all of them."""
    generator = torch.Generator().manual_seed(seed)
    kinds = list(SCALES.items())
    for which, (name, weights) in enumerate(program.named_parameters()):
        chosen = torch.randperm(weights.numel(), generator=generator)[:per_tensor].tolist()
        for i, entry in enumerate(chosen):
            before = float(weights.data.view(-1)[entry])
            tried = kinds if every_kind else [kinds[(which + i) % len(kinds)]]
            if before == 0:
                tried = [("set", SET)]
            for label, factor in tried:
                altered = copy.deepcopy(program)
                altered.codec._like = [altered.step.like]
                new = SET if label == "set" else before * factor
                dict(altered.named_parameters())[name].data.view(-1)[entry] = new
                yield Mutant(f"{name}[{entry}] {label}", altered, before)


def index_mutants(program: icgd.Program, per_tensor: int, seed: int = 0) -> Iterator[Mutant]:
    """Some entries of every index array moved to the next coordinate."""
    generator = torch.Generator().manual_seed(seed)
    for name, index in program.named_buffers():
        for entry in torch.randperm(index.numel(), generator=generator)[:per_tensor].tolist():
            altered = copy.deepcopy(program)
            altered.codec._like = [altered.step.like]
            home, attribute = name.rsplit(".", 1)
            moved = dict(altered.named_buffers())[name].clone().contiguous()
            moved.view(-1)[entry] = (int(moved.view(-1)[entry]) + 1) % program.layout.width
            setattr(altered.get_submodule(home), attribute, moved)
            yield Mutant(f"{name}[{entry}] moved", altered)


@dataclass(frozen=True)
class _Steps(StateMask):
    """A mask with other steps."""

    altered: tuple[Step, ...] = ()

    def steps(self) -> tuple[Step, ...]:
        return self.altered


def other_mutants(program: icgd.Program) -> Iterator[Mutant]:
    """No step and two steps a round; a layer left out, twice, and two exchanged; another size of step."""
    (update,) = program.mask.steps()
    away = Step("update", ("P", 0), (("H", 0),))
    for label, steps in (("no step", ()), ("two steps", (update, update)), ("elsewhere", (away,))):
        altered = copy.deepcopy(program)
        altered.mask = _Steps(altered=steps)
        yield Mutant(f"mask: {label}", altered)
    names = list(program.step.sublayers)
    for i, name in enumerate(names):
        rest = names[:i] + names[i + 1 :]
        swaps = [*names[: i - 1], names[i], names[i - 1], *names[i + 1 :]] if i else None
        for label, order in (("left out", rest), ("before the one above", swaps)):
            if order is not None:
                altered = copy.deepcopy(program)
                layers = altered.step.sublayers
                kept = {n: layers[n] for n in order}
                layers.clear()
                layers.update(kept)
                altered.codec._like = [altered.step.like]
                yield Mutant(f"layer {name} {label}", altered)
    for key, factor in (("lr", 1.01), ("lr", 2.0), ("box", 1.01)):
        altered = copy.deepcopy(program)
        changed = {key: factor * getattr(program.optimizer, key)}
        altered.optimizer = replace(program.optimizer, **changed)
        yield Mutant(f"config: {key} x {factor}", altered)
