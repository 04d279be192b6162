"""Probes of every kind of step of a machine: registers of all sizes, leftovers wherever a step must not look.

A run visits a small part of what the layer must do right; a weight can be wrong where no run looks. Probes ask
every head in every bucket, at the edges and their neighbours, compare exact ties, and fill what a step must
ignore.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.mechanisms.machine.compile import heads_of
from icgd.mechanisms.machine.layer.kinds import StepKind
from icgd.mechanisms.machine.programs.program import MachineProgram
from icgd.mechanisms.machine.schedule import TOKEN
from icgd.mechanisms.machine.tape.instruction import Instruction, Kind, Operand, Register
from icgd.mechanisms.machine.tape.tape import Tape
from icgd.transformer.blocks import make_block
from icgd.transformer.mask_rules import Step
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.symbolic import weights_stay_fixed
from icgd.transformer.runtime.executors.chain import DenseExecutor, StructuredExecutor
from icgd.transformer.runtime.watch import RangeWatch
from icgd.verification.bounds.tape.bound import tape_bound
from icgd.verification.bounds.tape.sides import LiteralSide, MachineSide, Side
from icgd.verification.probes.machine_numbers import Numbers

LITERAL_LIMIT = 4_000_000
"""Entries of the literal matrices up to which they are probed: above it probes would take minutes."""
FAST_SETS = 8
"""Probes of a kind on the fast executor, which has no buckets to try one by one."""


@dataclass(frozen=True)
class MachineProbes:
    """All probes of one kind of step on one executor.

    error, bound  where the error is furthest beyond its bound; if it is nowhere, where it is largest
    """

    kind: str
    executor: str
    count: int
    error: float
    bound: float
    passed: bool


def probe_machine(
    program: MachineProgram, *, n_sets: int = 1, seed: int = 0
) -> list[MachineProbes]:
    """Probe every kind of step: fast (unless the program was altered), and literally where matrices fit."""
    return list(_Prober(program, n_sets, seed).run()) if n_sets else []


class _Prober:
    def __init__(self, program: MachineProgram, n_sets: int, seed: int) -> None:
        self.program, self.n_sets = program, n_sets
        self.heads = heads_of(program.blueprint)
        self.numbers = Numbers(self.heads, seed)
        assert isinstance(program.step, Layer)
        self.layer, self.layout = program.step, program.layout
        self.watch = RangeWatch(math.inf, 1.0, lambda largest: 0.0)
        self.room = self.layout["value"].size

    def run(self) -> Iterator[MachineProbes]:
        """Kind by kind."""
        fits = self.layer.dense_parameters(1) <= LITERAL_LIMIT
        with torch.no_grad(), weights_stay_fixed():
            altered, literal_banks = self.program._is_altered(), set[str | None]()
            literal = DenseExecutor(self.layer, self.layout, 1, self.watch) if fits else None
            for index, kind in enumerate(self.program.codec.schedules.kinds):
                instruction = _standing_alone(kind.example)
                new = literal is not None and kind.bank not in literal_banks
                literal_banks.add(kind.bank)
                sets = self.numbers.sets(instruction, self.n_sets, every=new)
                if not altered:
                    yield self._fast(kind, index, instruction, sets)
                if literal is not None:
                    yield self._literal(literal, kind, index, instruction, sets)

    def _fast(
        self, kind: StepKind, index: int, i: Instruction, sets: Sequence[Sequence[Tensor]]
    ) -> MachineProbes:
        prefixes = self.layer.prefixes
        executor = StructuredExecutor(
            self.layer, prefixes, self.watch, batched=False, keep_all=True
        )
        token = make_block(self.program.codec.tokens[index])
        results = []
        chosen = list(sets)[:: max(1, len(sets) // (FAST_SETS * self.n_sets))]
        for values in chosen:
            blocks = [token, *(make_block({"value": value}) for value in values)]
            blocks += [token] * (len(prefixes) - len(blocks))
            block = executor.step(blocks, _step(kind), 0)
            results.append(self.program.codec.read(block, i.output).unsqueeze(0))
        side: Side = MachineSide(self.heads)
        return self._judged(kind, "structured", i, chosen, torch.cat(results), side)

    def _literal(
        self,
        executor: DenseExecutor,
        kind: StepKind,
        index: int,
        i: Instruction,
        sets: Sequence[Sequence[Tensor]],
    ) -> MachineProbes:
        """Set by set: matrices of heads are slower on a batch of tokens than on one."""
        n, size, where = len(sets), i.output.size, self.layout.slice("value")
        token = executor.load(make_block(self.program.codec.tokens[index]))
        results: list[Tensor] = []
        for values in sets:
            blocks = [token]
            for operand, value in zip(i.operands, values, strict=True):
                blocks.append(torch.zeros_like(token))
                blocks[-1][0, where] = self._row(operand, value, clean=len(results) % 2 == 0)
            blocks += [token] * (len(self.layer.prefixes) - len(blocks))
            results.append(executor.step(blocks, _step(kind), 0)[0, where])
        tokens = torch.stack(results)
        got = tokens[:, :size]
        if i.output.kind is Kind.FLAG:  # the complement must be one as well
            agree = tokens[:, size : 2 * size] == 1 - got
            got = torch.where(agree, got, math.nan)
        return self._judged(
            kind, "dense", i, sets, got.reshape(n, *i.output.shape), LiteralSide(self.heads)
        )

    def _row(self, operand: Operand, value: Tensor, *, clean: bool) -> Tensor:
        """A register as the numbers of a block; behind it zeros, or leftovers of another register."""
        flat = value.reshape(-1)
        if operand.register.kind is Kind.FLAG:
            flat = torch.cat([flat, ~flat])
        flat = flat.to(self.layer.like)
        behind = self.numbers.leftovers(self.room - len(flat)).to(flat)
        return torch.cat([flat, torch.zeros_like(behind) if clean else behind])

    def _judged(
        self,
        kind: StepKind,
        executor: str,
        i: Instruction,
        sets: Sequence[Sequence[Tensor]],
        got: Tensor,
        side: Side,
    ) -> MachineProbes:
        tape = _tape_of(i)
        error, bound = [], []
        for values, result in zip(sets, got, strict=True):
            named = dict(zip(tape.inputs, values, strict=False))
            limits = tape_bound(tape, named, [side])
            exact = limits.values[i.output.name].double()
            error.append((result.double() - exact).abs().reshape(-1))
            bound.append(limits.errors[i.output.name].reshape(-1))
        errors, bounds = torch.cat(error), torch.cat(bound)
        errors = torch.where(errors.isnan() & bounds.isfinite(), math.inf, errors)
        excess = torch.where(bounds.isfinite(), errors - bounds, -math.inf)
        passed = not bool((excess > 0).any())
        shown = torch.where(bounds.isfinite(), errors, 0.0)
        at = int((shown if passed else excess).argmax())
        return MachineProbes(
            kind.name, executor, len(sets), float(shown[at]), float(bounds[at]), passed
        )


def _standing_alone(i: Instruction) -> Instruction:
    """The instruction with registers of its own: several operands may be one register."""
    renamed: dict[str, Register] = {}
    operands = []
    for operand in i.operands:
        r = operand.register
        own = renamed.setdefault(r.name, Register(f"p{len(renamed)}", r.shape, r.kind))
        operands.append(Operand(own, operand.route))
    output = Register("result", i.output.shape, i.output.kind)
    return Instruction(i.opcode, tuple(operands), output, i.settings, i.origin)


def _tape_of(i: Instruction) -> Tape:
    inputs: Mapping[str, Register] = {f"operand.{k}": o.register for k, o in enumerate(i.operands)}
    return Tape(inputs, {}, (i,), {"out.0": i.output})


def _step(kind: StepKind) -> Step:
    reads = tuple((name, 0) for name in (TOKEN, "first", "second", "third"))
    return Step(kind.name, ("probe", 0), reads)
