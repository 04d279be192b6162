"""Banks of heads: which number every head asks, which values it collects and where it puts them.

A product of whatever form is an index map: head h reads entry h of the bank's query slot and adds it times
value v to result r, for the triples (h, v, r) of the map.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from icgd.mechanisms.machine.tape.instruction import HEADS, Instruction, Opcode
from icgd.transformer.linear_map import LinearMap


class Triples(NamedTuple):
    """An index map, term by term."""

    head: Tensor
    value: Tensor
    result: Tensor


@dataclass(frozen=True)
class BankForm:
    """What a bank does, apart from its weights; instructions of one form share a bank.

    asked   the numbers that heads read, before they are repeated
    spread  how a read number is repeated over the product: the rest of the query's route
    shapes  of the factors as the product sees them (of the only operand of a function)
    read    which factor is read
    """

    opcode: Opcode
    function: str
    asked: tuple[int, ...]
    spread: LinearMap
    shapes: tuple[tuple[int, ...], ...]
    read: int

    @property
    def table(self) -> str:
        """The table of tokens its heads look at."""
        if self.opcode is Opcode.SOFTMAX:
            return f"rows{self.shapes[0][-1]}"
        return self.function or "read"

    @property
    def n_queries(self) -> int:
        """Numbers asked."""
        return math.prod(self.asked)

    @property
    def n_values(self) -> int:
        """Numbers collected; none by functions."""
        return math.prod(self.shapes[1 - self.read]) if len(self.shapes) == 2 else 0

    @property
    def n_results(self) -> int:
        """Numbers written."""
        return math.prod(self.result_shape)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of what is written."""
        if self.opcode is Opcode.MATMUL:
            a, b = self.shapes
            return (*a[:-1], b[-1])
        return self.shapes[0]

    @cached_property
    def n_terms(self) -> int:
        """Products that are added up."""
        if self.opcode is Opcode.MATMUL:
            return self.n_results * self.shapes[0][-1]
        return self.n_results

    def triples(self) -> Triples:
        """The index map."""
        index = torch.arange(self.n_queries).reshape(self.asked)
        if self.opcode is Opcode.FUNCTION:
            flat = index.reshape(-1)
            return Triples(flat, torch.zeros_like(flat), flat)
        heads = self.spread(index)
        values = torch.arange(self.n_values).reshape(self.shapes[1 - self.read])
        results = torch.arange(self.n_results).reshape(self.result_shape)
        if self.opcode is Opcode.MATMUL:
            a, b = (heads, values) if self.read == 0 else (values, heads)
            a, b, results = a.unsqueeze(-1), b.unsqueeze(-3), results.unsqueeze(-2)
            heads, values = (a, b) if self.read == 0 else (b, a)
        every = torch.broadcast_tensors(heads, values, results)
        return Triples(*(part.reshape(-1) for part in every))

    def product(self) -> Callable[[Tensor, Tensor], Tensor]:
        """The product of what was read with the values, as a tensor operation."""
        operation: Callable[[Tensor, Tensor], Tensor] = torch.mul
        if self.opcode is Opcode.MATMUL:
            operation = torch.mm if len(self.shapes[0]) == 2 else torch.matmul
        if self.read == 0:
            return operation
        return lambda read, value: operation(value, read)


def split_route(route: LinearMap) -> tuple[LinearMap, LinearMap]:
    """A query's route up to where numbers are repeated, and the rest.

    >>> wide = LinearMap((3,)).then("view", (1, 3)).then("expand", (2, 3))
    >>> query, spread = split_route(wide)
    >>> query.shape, spread.shape
    ((1, 3), (2, 3))
    """
    at = next((k for k, m in enumerate(route.moves) if m[0] == "expand"), len(route.moves))
    query = LinearMap(route.source, route.moves[:at])
    return query, LinearMap(query.shape, route.moves[at:])


def form_of(i: Instruction) -> BankForm | None:
    """The bank that an instruction needs; None where it needs no heads."""
    if i.opcode not in HEADS:
        return None
    factors = i.operands[:2] if i.opcode in (Opcode.MULTIPLY, Opcode.MATMUL) else i.operands[:1]
    read = i.read_operand or 0
    query, spread = split_route(factors[read].route)
    if i.opcode in (Opcode.FUNCTION, Opcode.SOFTMAX):
        query, spread = factors[0].route, LinearMap(factors[0].shape)
    function = str(i.settings.get("function", ""))
    shapes = tuple(o.shape for o in factors)
    return BankForm(i.opcode, function, query.shape, spread, shapes, read)


def forms_of(instructions: Sequence[Instruction]) -> list[BankForm]:
    """Every bank that is needed, each once."""
    forms = (form_of(i) for i in instructions)
    return list(dict.fromkeys(form for form in forms if form is not None))


def bank_name(form: BankForm, index: int) -> str:
    """What a bank is called in layouts and files."""
    return f"{form.function or form.opcode}{index}"
