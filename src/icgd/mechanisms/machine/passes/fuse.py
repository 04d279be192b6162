"""Sums join the instruction that makes one of their terms, so that they cost no step of their own.

r1 = x W        r2 = r1 + b            ->  r2 = x W + b       (a product adds a third operand)
r1 = a + b      r2 = c - 0.1 sum(r1)   ->  r2 = c - 0.1 sum(a) - 0.1 sum(b)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from icgd.mechanisms.machine.tape.instruction import Instruction, Kind, Opcode, Operand
from icgd.mechanisms.machine.tape.tape import Tape

PRODUCTS = (Opcode.MULTIPLY, Opcode.MATMUL)
MOST_OPERANDS = 3


def fused_sums(tape: Tape) -> Tape:
    """The tape with sums moved into their neighbours, as long as anything moves."""
    while True:
        shorter = _once(tape)
        if len(shorter) == len(tape):
            return tape
        tape = shorter


def _once(tape: Tape) -> Tape:
    uses = Counter(o.register.name for i in tape for o in i.operands)
    uses.update(r.name for r in tape.outputs.values())
    writer = {i.output.name: i for i in tape}
    gone: set[str] = set()
    result: list[Instruction] = []
    for instruction in tape:
        joined = instruction
        if instruction.opcode is Opcode.AFFINE and instruction.output.kind is Kind.REAL:
            joined = _joined(instruction, writer, uses, gone)
        result.append(joined)
        writer[joined.output.name] = joined
    return tape.with_instructions([i for i in result if i.output.name not in gone])


def _joined(
    sum_: Instruction, writer: Mapping[str, Instruction], uses: Counter[str], gone: set[str]
) -> Instruction:
    """The sum together with what writes one of its terms, if only the sum reads that."""
    for at, term in enumerate(sum_.operands):
        earlier = writer.get(term.register.name)
        if earlier is None or uses[term.register.name] != 1 or earlier.output.name in gone:
            continue
        rest = (*sum_.operands[:at], *sum_.operands[at + 1 :])
        both = _into_product(sum_, earlier, term, rest) or _into_sum(sum_, earlier, term, rest)
        if both is not None:
            gone.add(earlier.output.name)
            return both
    return sum_


def _into_product(
    sum_: Instruction, earlier: Instruction, term: Operand, rest: tuple[Operand, ...]
) -> Instruction | None:
    """A product that adds the other term; a factor of the product goes to the operand heads do not read."""
    moves = term.route.moves
    factor = moves[0][1] if len(moves) == 1 and moves[0][0] == "scale" else None
    fits = earlier.opcode in PRODUCTS and len(earlier.operands) == 2 and len(rest) == 1
    if not fits or not (term.route.is_identity or factor is not None):
        return None
    factors = list(earlier.operands)
    if factor is not None:
        other = 1 - (earlier.read_operand or 0)
        factors[other] = replace(factors[other], route=factors[other].route.scaled(factor))
    origin = earlier.origin if earlier.origin.file else sum_.origin
    return replace(earlier, operands=(*factors, rest[0]), output=sum_.output, origin=origin)


def _into_sum(
    sum_: Instruction, earlier: Instruction, term: Operand, rest: tuple[Operand, ...]
) -> Instruction | None:
    """A sum whose term is a sum."""
    if earlier.opcode is not Opcode.AFFINE:
        return None
    if len(earlier.operands) + len(rest) > MOST_OPERANDS:
        return None
    if any(move[0] == "sum" for move in term.route.moves) and len(earlier.operands) > 1:
        return None  # summing once is cheaper than summing every term
    inner = tuple(replace(o, route=term.route.after(o.route)) for o in earlier.operands)
    return replace(sum_, operands=(*inner, *rest))
