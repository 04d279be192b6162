"""Plans: a layer worked out for blocks of known kind, as a short list of tensor operations.

The flags of the visible blocks decide which gates are open. A plan runs the layer's parts once on
symbolic values; what remains are the operations that depend on the numbers. It computes the same
function as the literal matrices, because every part states its own effect and falls back to its
literal units whenever its weights are not the ones it was compiled with.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from icgd.transformer.blocks import Block, Tag, closed_from
from icgd.transformer.linear_map import LinearMap
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.limits import Limits
from icgd.transformer.nn.symbolic import ZERO, Closed, Const, Reg, Value, Zero

NOTHING = torch.empty(0)
"""What stands in a register before anything is computed."""


@dataclass(frozen=True, slots=True)
class Operation:
    """registers[output] = function(*registers[inputs]).

    key  what the function does, where two operations with equal keys and inputs are one
    """

    function: Callable[..., Tensor]
    inputs: tuple[int, ...]
    output: int
    key: Hashable = None


@dataclass(slots=True)
class Plan:
    """Load slots into registers, run the operations, store registers into slots."""

    loads: list[tuple[int, str, int]] = field(default_factory=list)
    hat_loads: list[tuple[int, str, int]] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    stores: list[tuple[str, int]] = field(default_factory=list)
    hat_stores: list[tuple[str, int]] = field(default_factory=list)
    signature: tuple[tuple[str, Tag], ...] = ()
    watched: list[tuple[str, str, int]] = field(default_factory=list)
    limits: Mapping[str, Limits] = field(default_factory=dict)
    n_registers: int = 0

    def run(self, blocks: Sequence[Block]) -> tuple[Block, list[Tensor]]:
        """The new block, and the registers for whoever watches ranges."""
        registers = [NOTHING] * self.n_registers
        for which, slot, index in self.loads:
            registers[index] = blocks[which].slots[slot]
        for which, slot, index in self.hat_loads:
            registers[index] = blocks[which].hats[slot]
        for op in self.operations:
            registers[op.output] = op.function(*[registers[i] for i in op.inputs])
        slots = {slot: registers[index] for slot, index in self.stores}
        hats = {slot: registers[index] for slot, index in self.hat_stores}
        return Block(slots, self.signature, hats), registers


@dataclass(frozen=True)
class _Product:
    kind: str
    left: Reg
    right: Reg


Term = tuple[Value | _Product, float | Tensor]


class PlanBuilder:
    """Runs a layer on symbolic values and records what is left to compute."""

    def __init__(
        self,
        layer: Layer,
        prefixes: Sequence[str],
        blocks: Sequence[Block],
        *,
        batched: bool,
        reusable: frozenset[str] = frozenset(),
    ) -> None:
        self.plan = Plan(limits=layer.attention.limits)
        self.layer, self.batched = layer, batched
        self.in_place, self._reusable, self._owned = bool(reusable), reusable, set[int]()
        self._relus: dict[Reg, Reg] = {}
        self._hats: dict[Reg, Reg] = {}
        self._arranged: dict[Reg, tuple[Reg, LinearMap]] = {}
        self._token: dict[str, Value] = {}
        self._terms: dict[str, list[Term]] = {}
        for which, (prefix, block) in enumerate(zip(prefixes, blocks, strict=True)):
            for slot, tag in block.signature:
                self._token[f"{prefix}/{slot}"] = self._load(which, slot, tag, block)

    def _load(self, which: int, slot: str, tag: Tag, block: Block) -> Value:
        if not isinstance(tag, str):
            return Const(tag)
        reg = self._new()
        self.plan.loads.append((which, slot, reg.index))
        if slot in self._reusable:
            self._owned.add(reg.index)
        if slot in block.hats:
            hat = self._new()
            self.plan.hat_loads.append((which, slot, hat.index))
            self._hats[reg] = hat
        if tag.startswith("closed:"):
            return Closed(reg, float(tag.removeprefix("closed:")))
        return reg

    def build(self) -> Plan:
        """Pre, attention, post; then store what the new block holds."""
        self.layer.pre.emit(self)
        self._next_token(in_place=False)
        self.layer.attention.emit(self, self.layer.radius)
        self._next_token(in_place=self.in_place)
        self.layer.post.emit(self)
        self._next_token(in_place=self.in_place)
        signature: list[tuple[str, Tag]] = []
        for slot, value in self._token.items():
            if isinstance(value, Const) and value.value != 0.0:
                signature.append((slot, value.value))
            elif isinstance(value, Closed):
                signature.append((slot, f"closed:{value.slope!r}"))
                self.plan.stores.append((slot, value.activation.index))
            elif isinstance(value, Reg):
                signature.append((slot, "tensor"))
                self.plan.stores.append((slot, value.index))
                if value in self._hats:
                    self.plan.hat_stores.append((slot, self._hats[value].index))
        self.plan.signature = tuple(sorted(signature, key=lambda item: item[0]))
        return self.plan

    # -- what parts of a layer may ask for (nn.structured.Builder) --------------------------------

    def read(self, slot: str) -> Value:
        """See Builder."""
        return self._token.get(slot, ZERO)

    def write(self, slot: str, value: Value, coef: float | Tensor = 1.0) -> None:
        """See Builder."""
        if not isinstance(value, Zero):
            self._terms.setdefault(slot, []).append((value, coef))

    def write_product(self, slot: str, kind: str, left: Reg, right: Reg, coef: float) -> None:
        """See Builder."""
        if coef != 0.0:
            self._terms.setdefault(slot, []).append((_Product(kind, left, right), coef))

    def compute(
        self, function: Callable[..., Tensor], inputs: Sequence[Reg], *, key: Hashable = None
    ) -> Reg:
        """See Builder."""
        out = self._new()
        self.plan.operations.append(
            Operation(function, tuple(reg.index for reg in inputs), out.index, key)
        )
        return out

    def arrange(self, source: Reg, route: LinearMap) -> Reg:
        """See Builder."""
        if route.is_identity:
            return source
        out = self.compute(route.operation, [source], key=("route", route))
        if route.is_rearrangement:
            self._arranged[out] = (source, route)
        return out

    def tensor(self, value: Value, like: Tensor) -> Reg:
        """See Builder."""
        if isinstance(value, Reg):
            return value
        if isinstance(value, Closed):
            slope = value.slope
            return self.compute(lambda a: closed_from(a, slope), [value.activation])
        number = like.new_tensor(value.value if isinstance(value, Const) else 0.0)
        return self.compute(lambda: number, [])

    def relu(self, value: Reg) -> Reg:
        """See Builder."""
        if value not in self._relus:
            self._relus[value] = self.compute(torch.relu, [value])
        return self._relus[value]

    def combine(self, terms: Sequence[tuple[Value, float]]) -> Value:
        """See Builder."""
        return self._fold([(value, coef) for value, coef in terms if not isinstance(value, Zero)])

    def hat(self, query: Reg, reader: Callable[[Tensor], Tensor]) -> Reg:
        """See Builder."""
        if query not in self._hats:
            if query in self._arranged:  # the same numbers in another order are read once
                source, route = self._arranged[query]
                self._hats[query] = self.arrange(self.hat(source, reader), route)
            else:
                self._hats[query] = self.compute(reader, [query], key=("read", reader))
        return self._hats[query]

    def watch(self, label: str, slot: str, value: Reg) -> None:
        """See Builder."""
        self.plan.watched.append((label, slot, value.index))

    def heads(self, label: str, slot: str, query: Reg, read: Reg) -> None:
        """See Builder: a plan records nothing."""

    # -- sums -------------------------------------------------------------------------------------

    def _new(self) -> Reg:
        self.plan.n_registers += 1
        return Reg(self.plan.n_registers - 1)

    def _next_token(self, *, in_place: bool) -> None:
        # Slots that may be updated in place come last: everything else still reads the old values.
        order = sorted(self._terms.items(), key=lambda item: _has_outer(item[1]))
        self._token = {slot: self._fold(terms, in_place=in_place) for slot, terms in order}
        self._terms = {}

    def _fold(self, terms: Sequence[Term], *, in_place: bool = False) -> Value:
        """One value for a sum: constants are added up, a base and a product become one operation."""
        constant = 0.0
        rest: list[Term] = []
        for value, coef in terms:
            if isinstance(value, Const) and not isinstance(coef, Tensor):
                constant += coef * value.value
            elif not isinstance(value, Zero):
                rest.append((value, coef))
        if not rest:
            return Const(constant) if constant else ZERO
        if constant:
            rest.append((Const(constant), 1.0))
        if len(rest) == 1 and _is_one(rest[0][1]) and not isinstance(rest[0][0], _Product):
            return rest[0][0]
        rest.sort(key=lambda term: isinstance(term[0], _Product))
        total: Reg | None = None
        for value, coef in rest:
            total = self._add(total, value, coef, in_place)
        assert total is not None
        return total

    def _add(
        self, base: Reg | None, value: Value | _Product, coef: float | Tensor, in_place: bool
    ) -> Reg:
        in_place = in_place and base is not None and base.index in self._owned
        if isinstance(value, _Product):
            assert not isinstance(coef, Tensor)
            return self._add_product(base, value, coef, in_place)
        reg = self.tensor(value, self.layer.attention.like)
        if base is None:
            if _is_one(coef):
                return reg
            return self.compute(lambda x: coef * x, [reg])
        if isinstance(coef, Tensor):
            return self.compute(lambda x, y: x + coef * y, [base, reg])
        if in_place:
            return self.compute(lambda x, y: x.add_(y, alpha=coef), [base, reg])
        return self.compute(lambda x, y: torch.add(x, y, alpha=coef), [base, reg])

    def _add_product(self, base: Reg | None, product: _Product, coef: float, in_place: bool) -> Reg:
        left, right = product.left, product.right
        if product.kind == "outer":
            return self._add_outer(base, left, right, coef, in_place)
        transpose = product.kind == "matvec_t"
        if self.batched:
            function = _matvec_batched(transpose)
        elif base is not None and not transpose and coef == 1.0:
            return self.compute(lambda m, v, x: torch.addmv(x, m, v), [left, right, base])
        elif transpose:
            function = lambda m, v: torch.matmul(v, m)  # noqa: E731
        else:
            function = torch.mv
        result = self.compute(function, [left, right])
        return self._add(base, result, coef, in_place)

    def _add_outer(
        self, base: Reg | None, left: Reg, right: Reg, coef: float, in_place: bool
    ) -> Reg:
        if base is None:
            return self.compute(
                lambda u, v: coef * u.unsqueeze(-1) * v.unsqueeze(-2), [left, right]
            )
        if self.batched:
            # Broadcasting beats batched matrix products of rank one by far.
            add = torch.Tensor.addcmul_ if in_place else torch.addcmul
            return self.compute(
                lambda u, v, m: add(m, u.unsqueeze(-1), v.unsqueeze(-2), value=coef),
                [left, right, base],
            )
        addr = torch.Tensor.addr_ if in_place else torch.addr
        return self.compute(lambda u, v, m: addr(m, u, v, alpha=coef), [left, right, base])


def _has_outer(terms: Sequence[Term]) -> bool:
    return any(isinstance(value, _Product) and value.kind == "outer" for value, _ in terms)


def _is_one(coef: float | Tensor) -> bool:
    return not isinstance(coef, Tensor) and coef == 1.0


SMALL = 24
"""Below this width broadcasting and summing beats a batch of tiny matrix products."""


def _matvec_batched(transpose: bool) -> Callable[[Tensor, Tensor], Tensor]:
    if not transpose:
        # A row times a matrix: several times faster than a matrix times a column.
        return lambda m, v: torch.bmm(v.unsqueeze(-2), m.mT).squeeze(-2)

    def transposed(m: Tensor, v: Tensor) -> Tensor:
        if m.shape[-1] < SMALL:
            return (m * v.unsqueeze(-1)).sum(dim=-2)
        return torch.bmm(v.unsqueeze(-2), m).squeeze(-2)

    return transposed
