"""What one round of a machine may differ from PyTorch by, entry by entry, from the same numbers.

    |machine - PyTorch| <= |machine - centre| + |centre - PyTorch| <= E_machine + E_PyTorch

for every register of the tape. The centre is the tape in double precision; both bounds are running-error bounds
with the rounding of the side, of the centre and of themselves included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.mechanisms.machine.tape.instruction import Instruction, Opcode
from icgd.mechanisms.machine.tape.semantics import ExactHeads, evaluate
from icgd.mechanisms.machine.tape.tape import Tape
from icgd.verification.bounds.tape.rules import error_of, seen
from icgd.verification.bounds.tape.sides import Side


@dataclass(frozen=True)
class TapeBound:
    """Centres and bounds of a round.

    values     centre of every register, by its name
    errors     bound on the difference of the two sides, by the register's name; a flag has 1
               where it is in doubt
    outputs    bound on every result, by the name of the result
    near_kink  comparisons that rounding could decide
    """

    values: Mapping[str, Tensor]
    errors: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    near_kink: int


def tape_bound(tape: Tape, inputs: Mapping[str, Tensor], sides: Sequence[Side]) -> TapeBound:
    """Bounds on the difference of sides that execute a tape from the same numbers.

    sides  the machine and PyTorch; one alone is bounded against exact arithmetic
    """
    values = {r.name: _centre(inputs[name]) for name, r in tape.inputs.items()}
    values |= {r.name: _centre(value) for r, value in tape.constants.items()}
    errors = [{name: _nothing(value) for name, value in values.items()} for _ in sides]
    near_kink = 0
    with torch.no_grad():
        for i in tape:
            values[i.output.name] = result = _exact(i, values)
            for side, known in zip(sides, errors, strict=True):
                known[i.output.name] = _bounded(i, values, known, result, side)
            if i.opcode in (Opcode.COMPARE, Opcode.EQUALS):
                doubtful = torch.stack([known[i.output.name] for known in errors]).amax(dim=0)
                near_kink += int(torch.count_nonzero(doubtful))
    total = {name: sum((known[name] for known in errors[1:]), errors[0][name]) for name in values}
    outputs = {name: total[r.name] for name, r in tape.outputs.items()}
    return TapeBound(values, total, outputs, near_kink)


def _bounded(
    i: Instruction,
    values: Mapping[str, Tensor],
    known: Mapping[str, Tensor],
    result: Tensor,
    side: Side,
) -> Tensor:
    names = [o.register.name for o in i.operands]
    operands = [
        seen(o, values[name], known[name], side) for o, name in zip(i.operands, names, strict=True)
    ]
    return error_of(i, operands, result, side)


def _centre(value: Tensor) -> Tensor:
    return value.detach() if value.dtype == torch.bool else value.detach().to(torch.float64)


def _nothing(value: Tensor) -> Tensor:
    return torch.zeros(value.shape, dtype=torch.float64)


def _exact(i: Instruction, values: Mapping[str, Tensor]) -> Tensor:
    if i.opcode is Opcode.NUMBER:
        flag = i.operands[0]
        return flag.route(values[flag.register.name]).to(torch.float64)
    return evaluate(i, [values[o.register.name] for o in i.operands], ExactHeads())
