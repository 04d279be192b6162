"""Softmax attention over grid tokens that the layer lays out itself (Lemma A.5's linear map A).

The current token is spread over p grid tokens by a left-and-right linear map and fixed position
entries, T_k = [L_k u | 2 beta L_k | -beta L_k^2]. Every head asks with [s, 1], compares with the two
position entries and collects a selection of L_k u: softmax turns s into the mean level, so a head
multiplies the number s with the vector it collects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.attention import attention
from icgd.transformer.nn.chain.attention_layer import AttentionLayer, DenseAttention
from icgd.transformer.nn.chain.grid_reader import FACTORED_LIMIT, PairReader, read_shifted
from icgd.transformer.nn.feedforward import frozen
from icgd.transformer.nn.named_parts import named_parts
from icgd.transformer.nn.symbolic import ZERO, Builder, Reg, Value, Zero, once_fixed, uniform
from icgd.transformer.nn.views import Grid


@dataclass(frozen=True)
class ValuePath:
    """What head h collects and where it puts it.

    take  "column": source[:, h]   "row": source[h, :]   "whole": the same vector for every head
    put   "whole": added to a vector slot   "column": target[:, h]
    """

    source: str
    take: Literal["column", "row", "whole"]
    target: str
    put: Literal["whole", "column"]
    scale: float = 1.0

    @property
    def name(self) -> str:
        """Key of the path's parameters."""
        return f"{self.source}>{self.target}"


class HeadBank(nn.Module):
    """Heads of one form: head h multiplies query entry h with the vectors of its value paths."""

    def __init__(
        self,
        name: str,
        n_heads: int,
        d_value: int,
        queries: Sequence[str],
        paths: Sequence[ValuePath],
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.name, self.n_heads, self.d_value, self.paths = name, n_heads, d_value, tuple(paths)
        self.query = nn.ParameterDict({s: frozen(1.0, (n_heads,), dtype) for s in queries})
        self.query_one = frozen(1.0, (n_heads,), dtype)
        self.key_linear = frozen(1.0, (n_heads,), dtype)
        self.key_quadratic = frozen(1.0, (n_heads,), dtype)
        shape = (n_heads, d_value)
        self.value = nn.ParameterDict({p.name: frozen(1.0, shape, dtype) for p in paths})
        self.output = nn.ParameterDict({p.name: frozen(p.scale, shape, dtype) for p in paths})

    @once_fixed
    def is_plain(self) -> bool:
        """Whether query and key weights are all one, so that all heads read the grid alike."""
        weights = (*self.query.values(), self.query_one, self.key_linear, self.key_quadratic)
        return all(uniform(w) == 1.0 for w in weights)


class GridAttention(AttentionLayer):
    """X + sum over heads of softmax attention from X to the grid tokens A(X)."""

    def __init__(
        self,
        layout: Layout,
        spread: Sequence[str],
        levels: Sequence[float],
        beta: float,
        banks: Sequence[HeadBank],
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.layout = layout
        self._levels, self._beta = tuple(levels), beta
        level, linear, quadratic = self._compiled_tables()
        self.levels = frozen(level, level.shape, dtype)
        self.linear = frozen(linear, level.shape, dtype)
        self.quadratic = frozen(quadratic, level.shape, dtype)
        self.spread = nn.ParameterDict({s: frozen(1.0, layout[s].shape, dtype) for s in spread})
        self.banks = named_parts("banks", {bank.name: bank for bank in banks})
        self.grid_layout = Layout(
            [*(layout[s] for s in spread), Slot("grid/linear", ()), Slot("grid/quadratic", ())]
        )

    @property
    def like(self) -> Tensor:
        """A weight, for its dtype and device."""
        return self.levels

    def layouts(self) -> dict[str, Layout]:
        """Named layouts of the tokens this attention works on."""
        return {"working": self.layout, "grid": self.grid_layout}

    @property
    def n_grid(self) -> int:
        """The number p of grid tokens."""
        return self.levels.numel()

    def grids(self) -> dict[str, Grid]:
        """See AttentionLayer; all banks share one grid."""
        level = self.levels.data
        grid = Grid(level, self.linear.data, self.quadratic.data, level)
        return {f"attention.{b.name}": grid for b in self.head_banks() if b.is_plain()}

    def head_banks(self) -> list[HeadBank]:
        """The banks, typed."""
        return [bank for bank in self.banks.values() if isinstance(bank, HeadBank)]

    @once_fixed
    def is_plain(self) -> bool:
        """Whether the grid and every value path are as compiled, so that zeros stay zeros."""
        tables = (self.levels, self.linear, self.quadratic)
        return all(
            torch.equal(now, then.to(now))
            for now, then in zip(tables, self._compiled_tables(), strict=True)
        ) and all(
            self._path_scale(bank, path) == float(self.levels.new_tensor(path.scale))
            for bank in self.head_banks()
            for path in bank.paths
        )

    def _compiled_tables(self) -> tuple[Tensor, Tensor, Tensor]:
        level = torch.tensor(self._levels, dtype=torch.float64)
        return level, 2 * self._beta * level, -self._beta * level * level

    @once_fixed
    def reader(self, radius: float) -> Callable[[Tensor], Tensor]:
        """The function s -> softmax-weighted mean of the levels, entry by entry.

        Levels come in +- pairs, and the sum is taken over differences of a pair, so that s = 0 reads
        exactly 0. Where no score can overflow, sinh and cosh of 2 beta s L give both.
        """
        L, a, c = self.levels.data, self.linear.data, self.quadratic.data
        odd = self.n_grid % 2
        plus, minus = slice(odd, None, 2), slice(odd + 1, None, 2)
        paired = (
            torch.equal(L[plus], -L[minus])
            and torch.equal(a[plus], -a[minus])
            and torch.equal(c[plus], c[minus])
            and not (odd and (L[0] != 0 or a[0] != 0))
        )
        if not paired:
            return lambda s: torch.softmax(s.unsqueeze(-1) * a + c, dim=-1) @ L
        rate, rest, level = a[plus].clone(), c[plus].clone(), L[plus].clone()
        largest = max(float(rate.abs().max()) * radius, float(rest.abs().max()))
        if odd:
            centre = c[:1].clone()
            return lambda s: read_shifted(s, rate, rest, level, centre)
        if largest > FACTORED_LIMIT[L.dtype]:
            return lambda s: read_shifted(s, rate, rest, level)
        return PairReader(rate, rest.exp(), level)

    def reads_pairs(self, radius: float) -> bool:
        """Whether `reader` takes the mean over pairs, with an error relative to what is read."""
        reader = self.reader(radius)
        return isinstance(reader, PairReader) and reader.equally_spaced

    def emit(self, b: Builder, radius: float) -> None:
        """Heads as matrix products: read the queries off the grid once, then multiply."""
        reader = self.reader(radius)
        for slot in self.layout:
            b.write(slot.name, b.read(slot.name))
        for bank in self.head_banks():
            self._emit_bank(b, bank, reader)

    def _emit_bank(self, b: Builder, bank: HeadBank, reader: Callable[[Tensor], Tensor]) -> None:
        plain = bank.is_plain()
        if plain:
            query: Value = b.combine([(b.read(slot), 1.0) for slot in bank.query])
        else:
            query = self._mixed_query(b, bank)
        if isinstance(query, Zero) and (
            not plain or float(reader(self.levels.new_zeros(1))) != 0.0
        ):
            # An altered head may read something other than 0 for 0.
            query = self._zero_query(b, bank)
        if not isinstance(query, Reg):
            return
        sources = [slot for slot in bank.query if not isinstance(b.read(slot), Zero)]
        slots = "+".join(sources) or next(iter(bank.query))
        b.watch(f"attention.{bank.name}", slots, query)
        hat = b.hat(query, reader) if plain else self._mixed_read(b, bank, query)
        b.heads(f"attention.{bank.name}", slots, query, hat)
        for path in bank.paths:
            source = b.read(path.source)
            if isinstance(source, Zero):
                continue
            source = b.tensor(source, self.levels)
            coef = self._path_scale(bank, path)
            if coef is None:
                self._emit_uneven(b, path, source, hat, self._path_weight(bank, path))
            elif path.put == "column":
                b.write_product(path.target, "outer", source, hat, coef)
            else:
                kind = "matvec" if path.take == "column" else "matvec_t"
                b.write_product(path.target, kind, source, hat, coef)

    @once_fixed
    def _path_scale(self, bank: HeadBank, path: ValuePath) -> float | None:
        """The common weight of a path, or None if its entries are weighted differently."""
        factors = (bank.value[path.name], bank.output[path.name], self.spread[path.source])
        scales = [uniform(factor) for factor in factors]
        return None if None in scales else math.prod(s for s in scales if s is not None)

    def _path_weight(self, bank: HeadBank, path: ValuePath) -> Tensor:
        """Product of value, output and spreading weights, shaped (head, value entry)."""
        spread = self.spread[path.source].data
        spread = spread.T if path.take == "column" else spread
        return bank.value[path.name].data * bank.output[path.name].data * spread

    def _emit_uneven(
        self, b: Builder, path: ValuePath, source: Reg, hat: Reg, weight: Tensor
    ) -> None:
        """Uneven weights (never compiled, only met in altered programs): weigh the matrix itself."""
        if path.put == "column":
            update = b.compute(
                lambda v, s: weight.T * v.unsqueeze(-1) * s.unsqueeze(-2), [source, hat]
            )
            b.write(path.target, update)
            return
        shaped = weight.T if path.take == "column" else weight
        weighted = b.compute(lambda m: m * shaped, [source])
        kind = "matvec" if path.take == "column" else "matvec_t"
        b.write_product(path.target, kind, weighted, hat, 1.0)

    def _mixed_query(self, b: Builder, bank: HeadBank) -> Reg | Zero:
        regs, coefs = [], []
        for slot, coef in bank.query.items():
            value = b.read(slot)
            if not isinstance(value, Zero):
                regs.append(b.tensor(value, coef))
                coefs.append(coef.data)
        if not regs:
            return ZERO
        return b.compute(lambda *xs: sum(c * x for c, x in zip(coefs, xs, strict=True)), regs)

    def _zero_query(self, b: Builder, bank: HeadBank) -> Reg | Zero:
        """A query of zeros with the batch shape of what the heads collect."""
        for path in bank.paths:
            source = b.read(path.source)
            if isinstance(source, Reg):
                if path.take == "whole":
                    return b.compute(torch.zeros_like, [source])
                return b.compute(lambda m: torch.zeros_like(m[..., 0]), [source])
        return ZERO

    def _mixed_read(self, b: Builder, bank: HeadBank, query: Reg) -> Reg:
        linear = bank.key_linear.data.unsqueeze(-1) * self.linear.data
        rest = (bank.query_one.data * bank.key_quadratic.data).unsqueeze(-1) * self.quadratic.data
        level = self.levels.data
        return b.compute(
            lambda s: torch.softmax(s.unsqueeze(-1) * linear + rest, dim=-1) @ level, [query]
        )

    def dense(self, n_columns: int) -> DenseGridAttention:
        """The literal matrices, heads stacked in front."""
        token, grid = self.layout, self.grid_layout
        like = self.levels
        right = like.new_zeros(self.n_grid, n_columns)
        right[:, 0] = self.levels.data
        W_A = like.new_zeros(token.width, grid.width)
        for slot, coef in self.spread.items():
            W_A[token.index(slot).reshape(-1), grid.index(slot).reshape(-1)] = coef.data.reshape(-1)
        position = like.new_zeros(self.n_grid, grid.width)
        position[:, grid.slice("grid/linear")] = self.linear.data.unsqueeze(-1)
        position[:, grid.slice("grid/quadratic")] = self.quadratic.data.unsqueeze(-1)
        stacks = [_dense_bank(bank, token, grid, like) for bank in self.head_banks()]
        d_value = max(W_V.shape[-1] for *_, W_V, _ in stacks)
        W_Q, b_Q, W_K, W_V, W_O = [
            torch.cat([_fit(part, role, d_value) for part in parts])
            for role, parts in zip("qbkvo", zip(*stacks, strict=True), strict=True)
        ]
        dense = DenseGridAttention(right, W_A, position, W_Q, b_Q, W_K, W_V, W_O)
        start = 0
        for bank in self.head_banks():
            heads = slice(start, start + bank.n_heads)
            dense.heads[f"attention.{bank.name}"] = ("+".join(bank.query), heads)
            start += bank.n_heads
        return dense

    def dense_parameters(self, n_columns: int) -> int:
        """Entries of the literal matrices."""
        token, grid, p = self.layout.width, self.grid_layout.width, self.n_grid
        n_heads, d_value = self._head_sizes()
        heads = n_heads * (token * 2 + 2 + grid * 2 + grid * d_value + d_value * token)
        return p * n_columns + token * grid + p * grid + heads

    def dense_flops(self, n_columns: int) -> int:
        """Multiply-adds of one call: every column, every head, every grid token."""
        token, grid, p = self.layout.width, self.grid_layout.width, self.n_grid
        n_heads, d_value = self._head_sizes()
        per_head = (
            n_columns * token * 2
            + p * grid * 2
            + p * grid * d_value
            + n_columns * p * 2
            + n_columns * p * d_value
            + n_columns * d_value * token
        )
        return p * n_columns * token + p * token * grid + n_heads * per_head

    def _head_sizes(self) -> tuple[int, int]:
        banks = self.head_banks()
        widest = max(bank.d_value * len(bank.paths) for bank in banks)
        return sum(bank.n_heads for bank in banks), widest


def _fit(part: Tensor, role: str, d_value: int) -> Tensor:
    """Pad value and output matrices so that banks with fewer collected entries can be stacked."""
    if role == "v":
        return nn.functional.pad(part, (0, d_value - part.shape[-1]))
    if role == "o":
        return nn.functional.pad(part, (0, 0, 0, d_value - part.shape[-2]))
    return part


def _dense_bank(bank: HeadBank, token: Layout, grid: Layout, like: Tensor) -> tuple[Tensor, ...]:
    n_heads, d = bank.n_heads, bank.d_value
    heads = torch.arange(n_heads)
    W_Q = like.new_zeros(n_heads, token.width, 2)
    for slot, coef in bank.query.items():
        W_Q[heads, token.index(slot), 0] = coef.data
    b_Q = torch.stack([torch.zeros_like(bank.query_one.data), bank.query_one.data], dim=-1)
    W_K = like.new_zeros(n_heads, grid.width, 2)
    W_K[:, grid.slice("grid/linear"), 0] = bank.key_linear.data.unsqueeze(-1)
    W_K[:, grid.slice("grid/quadratic"), 1] = bank.key_quadratic.data.unsqueeze(-1)
    W_V = like.new_zeros(n_heads, grid.width, d * len(bank.paths))
    W_O = like.new_zeros(n_heads, d * len(bank.paths), token.width)
    row, entry = heads.unsqueeze(-1), torch.arange(d)
    for i, path in enumerate(bank.paths):
        source, target = grid.index(path.source), token.index(path.target)
        if path.take == "whole":
            taken = source.expand(n_heads, -1)
        else:
            taken = source.T if path.take == "column" else source
        placed = target.T if path.put == "column" else target.expand(n_heads, -1)
        W_V[row, taken, i * d + entry] = bank.value[path.name].data
        W_O[row, i * d + entry, placed] = bank.output[path.name].data
    return W_Q, b_Q, W_K, W_V, W_O


class DenseGridAttention(DenseAttention):
    """The same attention with literal matrices: every column, every head, every grid token."""

    def __init__(self, right: Tensor, W_A: Tensor, position: Tensor, *heads: Tensor) -> None:
        super().__init__()
        W_Q, b_Q, W_K, W_V, W_O = heads
        self.right = nn.Parameter(right, requires_grad=False)
        self.W_A = nn.Parameter(W_A, requires_grad=False)
        self.position = nn.Parameter(position, requires_grad=False)
        self.W_Q = nn.Parameter(W_Q, requires_grad=False)
        self.b_Q = nn.Parameter(b_Q, requires_grad=False)
        self.W_K = nn.Parameter(W_K, requires_grad=False)
        self.W_V = nn.Parameter(W_V, requires_grad=False)
        self.W_O = nn.Parameter(W_O, requires_grad=False)
        self.heads: dict[str, tuple[str, slice]] = {}

    def asked(self, tokens: Tensor) -> list[tuple[str, str, Tensor]]:
        """(head, slot, numbers) that the heads of the first column ask, for the range watch."""
        first = self.queries(tokens)[..., 0]
        return [(label, slot, first[..., heads]) for label, (slot, heads) in self.heads.items()]

    def queries(self, tokens: Tensor) -> Tensor:
        """The number every head asks with, (..., head, column)."""
        return (tokens.unsqueeze(-3) @ self.W_Q)[..., 0]

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: (..., column, entry)."""
        grid = self.right @ tokens @ self.W_A + self.position
        q = tokens.unsqueeze(-3) @ self.W_Q + self.b_Q.unsqueeze(-2)
        k = grid.unsqueeze(-3) @ self.W_K
        v = grid.unsqueeze(-3) @ self.W_V
        return tokens + (attention(q, k, v) @ self.W_O).sum(dim=-3)
