"""The attention of the machine: banks of softmax heads over tokens that the layer lays out itself.

Every table of tokens (the grid that multiplies, the table of a function, the places of a row) stands on tokens
of its own; a head sees those of its table only, for the keys of all others hold a score that shuts them out.
A head over a grid asks with [s, 1, off]: its scores are rate_k s + offset_k, and the token that takes all of
the weight when the head is shut has the score strength * off - threshold.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from icgd.mechanisms.machine.layer.banks import BankForm
from icgd.mechanisms.machine.layer.dense_attention import DenseBankAttention, write_out
from icgd.mechanisms.machine.layer.tables import GridTable, RowTable, Table
from icgd.mechanisms.machine.tape.instruction import Opcode
from icgd.mechanisms.machine.tape.semantics import HeadFunctions
from icgd.transformer.gadgets.machine_heads.heads import Heads
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.chain.attention_layer import AttentionLayer, DenseAttention
from icgd.transformer.nn.feedforward import frozen
from icgd.transformer.nn.limits import Limits
from icgd.transformer.nn.named_parts import named_parts
from icgd.transformer.nn.symbolic import Builder, Reg, once_fixed
from icgd.transformer.nn.views import Grid


class Bank(nn.Module):
    """Heads of one form; the few weights that all of them share.

    ask    weight of the number that is asked      one   of the constant beside it, which meets the offsets
    shut   weight of what shuts a head             gain  of what a head writes
    """

    def __init__(self, name: str, form: BankForm, dtype: torch.dtype) -> None:
        super().__init__()
        self.name, self.form = name, form
        self._compiled_form = form
        self.ask, self.one, self.shut, self.gain = (frozen(1.0, (), dtype) for _ in range(4))

    @property
    def query(self) -> str:
        """The slot of the numbers that are asked."""
        return f"query_{self.name}"

    @property
    def value(self) -> str:
        """The slot of the numbers that are multiplied."""
        return f"value_{self.name}"

    @property
    def result(self) -> str:
        """The slot that is written."""
        return f"result_{self.name}"

    @property
    def off(self) -> str:
        """The slot of what shuts its heads one by one, where they have buckets."""
        return f"off_{self.name}"

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight, and the index map, is the one that was compiled."""
        return self.form == self._compiled_form and all(float(p) == 1.0 for p in self.parameters())


class BankAttention(AttentionLayer):
    """X + sum over heads of softmax attention from X to the tokens A(X)."""

    def __init__(
        self,
        layout: Layout,
        banks: Mapping[str, BankForm],
        tables: Mapping[str, Table],
        heads: HeadFunctions,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.layout, self.heads = layout, heads
        self._compiled_heads = heads
        self.limits = {
            f"attention.{name}": limit
            for name, form in banks.items()
            if (limit := _limits(heads, form.table)) is not None
        }
        self.tables = named_parts("tables", tables)
        self.banks = named_parts("banks", {n: Bank(n, form, dtype) for n, form in banks.items()})
        self.anchor = frozen(1.0, (), dtype)  # a weight also where no head is needed
        values = [layout[b.value] for b in self.every_bank() if b.form.n_values]
        slots = [
            Slot(f"{t.name}/{s.name}", s.shape, s.meaning)
            for t in self.every_table()
            for s in t.slots
        ]
        self.grid_layout = Layout([*values, *slots, Slot("one", (), "1 on every token")])

    @property
    def like(self) -> Tensor:
        """See AttentionLayer."""
        return self.anchor

    def every_bank(self) -> list[Bank]:
        """The banks, typed."""
        return [bank for bank in self.banks.values() if isinstance(bank, Bank)]

    def every_table(self) -> list[Table]:
        """The tables, typed."""
        return [table for table in self.tables.values() if isinstance(table, (GridTable, RowTable))]

    def table_of(self, bank: Bank) -> Table:
        """What the heads of a bank look at."""
        table = self.tables[bank.form.table]
        assert isinstance(table, (GridTable, RowTable))
        return table

    def layouts(self) -> dict[str, Layout]:
        """See AttentionLayer."""
        return {"working": self.layout, "grid": self.grid_layout}

    def grids(self) -> dict[str, Grid]:
        """See AttentionLayer."""
        return {
            f"attention.{bank.name}": table.grid()
            for bank in self.every_bank()
            if isinstance(table := self.table_of(bank), GridTable) and len(table.buckets) == 1
        }

    @once_fixed
    def is_plain(self) -> bool:
        """Whether what is in no bank and no table is as compiled."""
        return float(self.anchor) == 1.0 and self.heads is self._compiled_heads

    def emit(self, b: Builder, radius: float) -> None:
        """See AttentionLayer; only the bank whose operands arrived has anything to do."""
        for slot in self.layout:
            b.write(slot.name, b.read(slot.name))
        for bank in self.every_bank():
            query = b.read(bank.query)
            if isinstance(query, Reg):
                self._emit_bank(b, bank, query)

    def _emit_bank(self, b: Builder, bank: Bank, query: Reg) -> None:
        form, label = bank.form, f"attention.{bank.name}"
        if form.opcode is Opcode.SOFTMAX:
            b.write(bank.result, b.compute(_softmax, [query], key="softmax"))
            return
        if form.opcode is Opcode.FUNCTION:
            name = form.function
            function = self._function(name)
            b.watch(label, name, query)
            answer = b.compute(function, [query], key=("function", name))
            b.heads(label, bank.query, query, answer)
            b.write(bank.result, answer)
            return
        b.watch(label, "read", query)
        hat = b.hat(query, self.heads.read)
        b.heads(label, bank.query, query, hat)
        value = b.read(bank.value)
        if isinstance(value, Reg):
            repeated = form.opcode is not Opcode.MULTIPLY
            spread = b.arrange(hat, form.spread if repeated else form.spread.before_broadcast)
            b.write(bank.result, b.compute(form.product(), [spread, value]))

    def _function(self, name: str):  # type: ignore[no-untyped-def]
        heads = self.heads
        return lambda q: heads.function(name, q)

    # -- literal matrices -------------------------------------------------------------------------

    @property
    def n_tokens(self) -> int:
        """Tokens that all tables stand on."""
        return sum(table.n_tokens for table in self.every_table())

    def n_heads(self) -> int:
        """Literal heads: one per number and bucket."""
        return sum(self.heads_of(bank) for bank in self.every_bank())

    def heads_of(self, bank: Bank) -> int:
        """Literal heads of a bank."""
        if bank.form.opcode is Opcode.SOFTMAX:
            return bank.form.n_queries // bank.form.shapes[0][-1]
        table = self.table_of(bank)
        assert isinstance(table, GridTable)
        return bank.form.n_queries * len(table.buckets)

    def dense(self, n_columns: int) -> DenseAttention:
        """See AttentionLayer."""
        return DenseBankAttention(*write_out(self, n_columns))

    def sizes(self) -> tuple[int, int]:
        """(length of queries and keys, length of values)."""
        d_key, d_value = 3, 1
        for bank in self.every_bank():
            if bank.form.opcode is Opcode.SOFTMAX:
                width = bank.form.shapes[0][-1]
                d_key, d_value = max(d_key, width + 1), max(d_value, width)
            elif bank.form.n_values:
                d_value = max(d_value, bank.form.n_terms // max(1, bank.form.n_queries))
            else:
                d_value = max(d_value, 2)
        return d_key, d_value

    def dense_parameters(self, n_columns: int) -> int:
        """See AttentionLayer."""
        token, grid, p = self.layout.width, self.grid_layout.width, self.n_tokens
        d_key, d_value = self.sizes()
        per_head = d_key * (token + 1 + grid) + d_value * (grid + token)
        return p * (n_columns + grid) + token * grid + self.n_heads() * per_head

    def dense_flops(self, n_columns: int) -> int:
        """See AttentionLayer."""
        token, grid, p = self.layout.width, self.grid_layout.width, self.n_tokens
        d_key, d_value = self.sizes()
        per_head = (
            n_columns * token * d_key
            + p * grid * (d_key + d_value)
            + n_columns * p * (d_key + d_value)
            + n_columns * d_value * token
        )
        return p * n_columns * token + p * token * grid + self.n_heads() * per_head


def _limits(heads: HeadFunctions, table: str) -> Limits | None:
    """Where heads of this table may be asked; None: within the radius of the layer, or anywhere."""
    if not isinstance(heads, Heads) or table.startswith("rows"):
        return None
    if table == "read" and heads.mode == "fixed":
        return None
    d = heads.domain(table)
    what = f"The head of {d.function}"
    return Limits(what, d.low, d.high, d.open_low, d.of_size, d.limits, d.remedy)


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)
