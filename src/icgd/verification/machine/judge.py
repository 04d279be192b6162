"""One round of a machine against the user's own step, from the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icgd.mechanisms.machine.compile import heads_of
from icgd.mechanisms.machine.programs.program import MachineProgram
from icgd.oracle.eager_step import EagerStep, Named, one_ulp_away
from icgd.verification.bounds.tape.bound import TapeBound, tape_bound
from icgd.verification.bounds.tape.sides import LiteralSide, MachineSide, Side, TorchSide
from icgd.verification.machine.check import MachineRound
from icgd.verification.verdict.judgement import Part, sight
from icgd.verification.weight_arithmetic import worst

NOISE = 0.01
"""An entry is noise where one unit in the last place of the weights changes its update by this fraction."""
TWINS = 100
"""Where rounding decides, the machine may be so many times as far off as PyTorch is from itself."""


def sides_of(program: MachineProgram, executor: str) -> list[Side]:
    """The machine as it is run, and PyTorch; the heads are those of the options, not those that are stored."""
    heads = heads_of(program.blueprint)
    literal = executor == "dense" or program._is_altered()
    machine = LiteralSide(heads) if literal else MachineSide(heads)
    return [machine, TorchSide(program.dtype)]


@dataclass(frozen=True)
class Entries:
    """A result of a round by its name, on all sides; numbers in double precision.

    nearby  what PyTorch does from weights one unit in the last place away, moved back by that unit
    """

    name: str
    before: Tensor
    got: Tensor
    exact: Tensor
    nearby: Tensor
    bound: Tensor

    @property
    def error(self) -> Tensor:
        """Of every entry."""
        same = self.got == self.exact  # infinite on both sides
        return torch.where(same, 0.0, (self.got - self.exact).abs())

    @property
    def twin(self) -> Tensor:
        """What one unit in the last place of the weights changes."""
        return (self.nearby - self.exact).abs()

    @property
    def noise(self) -> Tensor:
        """Where the update is rounding noise."""
        return self.twin > NOISE * (self.exact - self.before).abs()

    @property
    def allowed(self) -> Tensor:
        """The bound; where it is infinite and rounding decides, what PyTorch itself strays by."""
        return torch.where(self.noise & ~self.bound.isfinite(), TWINS * self.twin, self.bound)

    @property
    def within(self) -> bool:
        """Whether every entry is within what is allowed; never where something is NaN."""
        return bool((self.error <= self.allowed).all())

    @property
    def part(self) -> Part:
        """For the rules of judgement."""
        return Part(self.before, self.exact, self.got, self.allowed)


class RoundJudge:
    """Holds rounds of a program against PyTorch.

    moved  what a twin moves by one unit in the last place
    """

    def __init__(
        self,
        program: MachineProgram,
        eager: EagerStep,
        executor: str,
        *,
        moved: tuple[str, ...] = ("param.",),
    ) -> None:
        self.program, self.eager, self.moved = program, eager, moved
        self.sides = sides_of(program, executor)

    def entries(
        self,
        tape: str,
        inputs: Mapping[str, Tensor],
        arguments: Sequence[Any],
        got: Mapping[str, Tensor],
        eager: EagerStep | None = None,
    ) -> tuple[list[Entries], TapeBound]:
        """Every result of a round on all sides, and the bounds of the round.

        eager  the step in PyTorch, where it is another than the judge's
        """
        eager = eager or self.eager
        exact = eager(inputs, arguments)
        shifted = one_ulp_away(inputs, self.moved)
        nearby = eager(shifted, arguments)
        bound = tape_bound(self.program.tapes.tapes[tape], inputs, self.sides)
        rows = []
        for name, limit in bound.outputs.items():
            result = exact[name].double()
            before = inputs[name].double() if name in inputs else torch.zeros_like(result)
            back = shifted[name].double() - before if name in inputs else 0.0
            moved = nearby[name].double() - back
            rows.append(Entries(name, before, got[name].double(), result, moved, limit.double()))
        return rows, bound

    def record(
        self,
        number: int,
        tape: str,
        rows: Sequence[Entries],
        bound: TapeBound,
        run: tuple[float, float] = (0.0, 0.0),
    ) -> MachineRound:
        """What is written down of a round; run = (error of the run so far, its twin)."""
        noise = [row.noise for row in rows]
        return MachineRound(
            round=number,
            tape=tape,
            error=run[0],
            twin=run[1],
            round_error=_largest(r.error[~n] for r, n in zip(rows, noise, strict=True)),
            round_bound=_largest(r.allowed for r in rows),
            near_kink=bound.near_kink,
            noise=sum(int(n.sum()) for n in noise),
            noise_error=_largest(r.error[n] for r, n in zip(rows, noise, strict=True)),
            noise_twin=_largest(r.twin[n] for r, n in zip(rows, noise, strict=True)),
            update=_largest((r.exact - r.before).abs() for r in rows),
            within=all(row.within for row in rows),
            sight=sight([row.part for row in rows]),
        )


def _largest(tensors: Iterable[Tensor]) -> float:
    """The largest entry of all; NaN counts as the largest."""
    return worst(float(t.max()) for t in tensors if t.numel())


def apart(one: Mapping[str, Tensor], other: Mapping[str, Tensor], prefixes: Sequence[str]) -> float:
    """The largest difference of two states in what these prefixes name."""
    names = [name for name in one if name.startswith(tuple(prefixes)) and name in other]
    return _largest((one[n].double() - other[n].double()).abs() for n in names)


def lasting(values: Mapping[str, Tensor]) -> Named:
    """What the next round finds."""
    return {name: value for name, value in values.items() if not name.startswith("out.")}
