"""The literal matrices of the machine's attention: every head, every token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from icgd.mechanisms.machine.layer.layouts import off_bank
from icgd.mechanisms.machine.layer.tables import GridTable, RowTable
from icgd.mechanisms.machine.tape.instruction import Opcode
from icgd.transformer.nn.chain.grid_attention import DenseGridAttention
from icgd.transformer.nn.limits import Limits

if TYPE_CHECKING:
    from icgd.mechanisms.machine.layer.attention import Bank, BankAttention

SHUT_OUT = {torch.float64: -(2.0**60), torch.float32: -(2.0**60)}
"""The score by which a head is kept from the tokens of other tables; its exponential is exactly 0."""


class Asks(NamedTuple):
    """A bank by its label, its table, and where a token holds what it is asked and the flag that shuts it."""

    label: str
    table: str
    where: slice
    off: int


class DenseBankAttention(DenseGridAttention):
    """Literal heads; see DenseGridAttention.

    asks    what banks are asked
    limits  where they may be asked, by label
    """

    def __init__(self, asks: list[Asks], limits: Mapping[str, Limits], *matrices: Tensor) -> None:
        super().__init__(*matrices)
        self.asks, self.limits = asks, limits

    def asked(self, tokens: Tensor) -> list[tuple[str, str, Tensor]]:
        """See DenseAttention: numbers as they are, however many buckets look at each.

        Banks that a step shuts are asked nothing: zeros stand in their slots.
        """
        first = tokens[..., 0, :]
        return [
            (ask.label, ask.table, first[..., ask.where])
            for ask in self.asks
            if not bool((first[..., ask.off] > 0).all())  # also where it is NaN
        ]


def write_out(
    layer: BankAttention, n_columns: int
) -> tuple[list[Asks], Mapping[str, Limits], *tuple[Tensor, ...]]:
    """What banks are asked, within which limits; spreading, position entries, heads stacked in front."""
    return _Matrices(layer, n_columns).result()


class _Matrices:
    def __init__(self, layer: BankAttention, n_columns: int) -> None:
        self.layer = layer
        like = layer.like
        token, grid = layer.layout, layer.grid_layout
        p, n_heads = layer.n_tokens, layer.n_heads()
        d_key, d_value = layer.sizes()
        self.right = like.new_zeros(p, n_columns)
        self.W_A = like.new_zeros(token.width, grid.width)
        self.position = like.new_zeros(p, grid.width)
        self.W_Q = like.new_zeros(n_heads, token.width, d_key)
        self.b_Q = like.new_zeros(n_heads, d_key)
        self.W_K = like.new_zeros(n_heads, grid.width, d_key)
        self.W_V = like.new_zeros(n_heads, grid.width, d_value)
        self.W_O = like.new_zeros(n_heads, d_value, token.width)
        self.asks: list[Asks] = []
        self._tokens()
        start = 0
        for bank in layer.every_bank():
            stop = start + layer.heads_of(bank)
            if isinstance(layer.table_of(bank), RowTable):
                self._rows(bank, start)
            else:
                self._over_grid(bank, start)
                off = int(token.index(off_bank(bank.name)))
                label = f"attention.{bank.name}"
                where = token.slice(bank.query)
                self.asks.append(Asks(label, bank.form.table, where, off))
            start = stop

    def result(self) -> tuple[list[Asks], Mapping[str, Limits], *tuple[Tensor, ...]]:
        """Everything that was written out."""
        heads = (self.W_Q, self.b_Q, self.W_K, self.W_V, self.W_O)
        return self.asks, self.layer.limits, self.right, self.W_A, self.position, *heads

    def _tokens(self) -> None:
        """Tokens of all tables, one table after the other; foreign tokens have a score that shuts them out."""
        grid, start = self.layer.grid_layout, 0
        for table in self.layer.every_table():
            at = slice(start, start + table.n_tokens)
            self.position[:, grid.slice(f"{table.name}/offset")] = SHUT_OUT[self.right.dtype]
            for name, entries in table.position().items():
                where = grid.slice(f"{table.name}/{name}")
                self.position[at, where] = entries.reshape(table.n_tokens, -1)
            if table.name == "read":
                assert isinstance(table, GridTable)
                self.right[at, 0] = table.values.data
            start += table.n_tokens
        self.position[:, grid.slice("one")] = 1.0
        for bank in self.layer.every_bank():
            if bank.form.n_values:
                rows = self.layer.layout.index(bank.value).reshape(-1)
                self.W_A[rows, grid.index(bank.value).reshape(-1)] = 1.0

    def _over_grid(self, bank: Bank, start: int) -> None:
        """Heads that ask [s, 1, off]; head (bucket, number) stands at start + bucket * n_queries + number."""
        layer, form = self.layer, bank.form
        token, grid, table = layer.layout, layer.grid_layout, layer.table_of(bank)
        assert isinstance(table, GridTable)
        n, n_buckets = form.n_queries, len(table.buckets)
        triples = form.triples()
        rank = _rank_within(triples.head, n)
        for k in range(n_buckets):
            heads = torch.arange(start + k * n, start + (k + 1) * n)
            scale, gain, plus, shift = table.per_bucket.data[k]
            self.W_Q[heads, token.index(bank.query).reshape(-1), 0] = bank.ask.data * scale
            self.b_Q[heads, 0] = shift
            self.b_Q[heads, 1] = bank.one.data
            if table.has_sink and token_has(token, bank.off):
                off = token.index(bank.off).reshape(n_buckets, n)[k]
                self.W_Q[heads, off, 2] = bank.shut.data
            for i, name in enumerate(("rate", "offset", "shut")):
                self.W_K[heads, grid.index(f"{table.name}/{name}"), i] = 1.0
            if form.opcode is Opcode.FUNCTION:
                results = token.index(bank.result).reshape(-1)
                for i, (name, weight) in enumerate((("value", gain), ("inside", plus))):
                    self.W_V[heads, grid.index(f"{table.name}/{name}"), i] = 1.0
                    self.W_O[heads, i, results] = bank.gain.data * weight
            else:
                values = grid.index(bank.value).reshape(-1)[triples.value]
                results = token.index(bank.result).reshape(-1)[triples.result]
                self.W_V[heads[triples.head], values, rank] = 1.0
                self.W_O[heads[triples.head], rank, results] = bank.gain.data * gain

    def _rows(self, bank: Bank, start: int) -> None:
        """Heads that ask a whole row and write the weights they give to its places."""
        token, grid, form = self.layer.layout, self.layer.grid_layout, bank.form
        width = form.shapes[0][-1]
        n_rows = form.n_queries // width
        heads = torch.arange(start, start + n_rows).unsqueeze(-1)
        place = torch.arange(width).expand(n_rows, width)
        queries = token.index(bank.query).reshape(n_rows, width)
        results = token.index(bank.result).reshape(n_rows, width)
        hot = grid.index(f"{form.table}/hot").expand(n_rows, width)
        self.W_Q[heads, queries, place] = bank.ask.data
        self.W_K[heads, hot, place] = 1.0
        self.b_Q[heads[:, 0], width] = bank.one.data
        self.W_K[heads[:, 0], grid.index(f"{form.table}/offset"), width] = 1.0
        self.W_V[heads, hot, place] = 1.0
        self.W_O[heads, place, results] = bank.gain.data


def token_has(layout: object, slot: str) -> bool:
    """Whether a layout has this slot."""
    return slot in layout  # type: ignore[operator]


def _rank_within(head: Tensor, n_heads: int) -> Tensor:
    """Of every term of an index map, its place among the terms of the same head."""
    order = torch.argsort(head, stable=True)
    counts = torch.bincount(head, minlength=n_heads)
    first = torch.cumsum(counts, 0) - counts
    rank = torch.empty_like(head)
    rank[order] = torch.arange(len(head)) - first[head[order]]
    return rank
