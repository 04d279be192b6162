"""What instructions compute, given heads: exact ones, or those of the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from icgd.mechanisms.machine.tape.instruction import Instruction, Opcode
from icgd.mechanisms.machine.tape.tape import Tape


class HeadFunctions(Protocol):
    """What heads answer."""

    def read(self, q: Tensor) -> Tensor:
        """What a product head reads for these numbers."""

    def function(self, name: str, q: Tensor) -> Tensor:
        """What heads with the table of a function answer."""


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "exp": torch.exp,
    "log": torch.log,
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
"""The functions heads have tables for, as PyTorch has them."""


class ExactHeads:
    """Heads without error: what a tape means."""

    def read(self, q: Tensor) -> Tensor:
        """The numbers themselves."""
        return q

    def function(self, name: str, q: Tensor) -> Tensor:
        """PyTorch's own function."""
        return FUNCTIONS[name](q)


def evaluate(i: Instruction, values: Sequence[Tensor], heads: HeadFunctions) -> Tensor:
    """The result of an instruction whose registers hold `values`, one per operand."""
    routed = [o.route(v) for o, v in zip(i.operands, values, strict=True)]
    op = i.opcode
    if op in (Opcode.MULTIPLY, Opcode.MATMUL):
        at = i.read_operand or 0
        factors = [heads.read(x) if k == at else x for k, x in enumerate(routed[:2])]
        product = factors[0] * factors[1] if op is Opcode.MULTIPLY else torch.matmul(*factors)
        return product if len(routed) == 2 else product + routed[2]
    if op is Opcode.FUNCTION:
        return heads.function(i.settings["function"], routed[0])
    return PLAIN[op](i, routed)


def _sum(i: Instruction, xs: Sequence[Tensor]) -> Tensor:
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


PLAIN: dict[Opcode, Callable[[Instruction, Sequence[Tensor]], Tensor]] = {
    Opcode.AFFINE: _sum,
    Opcode.JOIN: lambda i, xs: torch.cat(list(xs), dim=i.settings["axis"]),
    Opcode.SOFTMAX: lambda i, xs: torch.softmax(xs[0], dim=-1),
    Opcode.RELU: lambda i, xs: torch.relu(xs[0]),
    Opcode.COMPARE: lambda i, xs: xs[0] > xs[1],
    Opcode.EQUALS: lambda i, xs: xs[0] == xs[1],
    Opcode.SELECT: lambda i, xs: torch.where(xs[0], xs[1], xs[2]),
    Opcode.BOTH: lambda i, xs: xs[0] & xs[1],
    Opcode.INVERT: lambda i, xs: ~xs[0],
    Opcode.NUMBER: lambda i, xs: xs[0].to(torch.get_default_dtype()),
}


def run_tape(
    tape: Tape,
    inputs: Mapping[str, Tensor],
    heads: HeadFunctions,
    dtype: torch.dtype = torch.float64,
    every: bool = False,
) -> dict[str, Tensor]:
    """The outputs by name; with `every`, all registers by their names instead."""
    values = {register.name: inputs[name] for name, register in tape.inputs.items()}
    for register, value in tape.constants.items():
        values[register.name] = value if value.dtype == torch.bool else value.to(dtype)
    for i in tape:
        args = [values[o.register.name] for o in i.operands]
        if i.opcode is Opcode.NUMBER:
            values[i.output.name] = i.operands[0].route(args[0]).to(dtype)
        else:
            values[i.output.name] = evaluate(i, args, heads)
    if every:
        return values
    return {name: values[register.name] for name, register in tape.outputs.items()}
