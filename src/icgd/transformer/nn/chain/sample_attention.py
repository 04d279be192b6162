"""Attention with one head per sample: each head spreads its own sample over tokens and asks with w.

A block holds n tokens, one per sample. Head i of a bank lays out the tokens
    T_k = [a_k u_i | v_k u_i | c_k],   u_i the slots of sample i, k = 1..p
by a left-and-right linear map of the block, compares them with the query of the asking token and
collects v_k u_i: softmax turns the number it reads, s_i = q.u_i, into f(s_i), so head i returns
f(s_i) u_i and the bank their mean over the samples. All heads of a bank have the same weights; they
differ in the sample they spread. The query comes from slots that all tokens share, so every token
receives the same sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from icgd.transformer.layout import Layout
from icgd.transformer.nn.chain.attention_layer import AttentionLayer
from icgd.transformer.nn.chain.dense_sample_attention import DenseSampleAttention, DenseSampleBank
from icgd.transformer.nn.chain.grid_reader import ProductReader, table_reader
from icgd.transformer.nn.feedforward import frozen
from icgd.transformer.nn.named_parts import named_parts
from icgd.transformer.nn.symbolic import Builder, Const, Reg, Value, Zero, once_fixed, uniform
from icgd.transformer.nn.views import Grid, grid_of


@dataclass(frozen=True)
class QueryTerm:
    """One term of the number a head reads: coef * <asking token's query, sample's key>."""

    query: str
    key: str
    coef: float = 1.0

    @property
    def name(self) -> str:
        """Key of the term's parameters."""
        return f"{self.query}*{self.key}"


@dataclass(frozen=True)
class SamplePath:
    """What a head collects from its sample, where it goes, and with which factor."""

    source: str
    target: str
    scale: float = 1.0

    @property
    def name(self) -> str:
        """Key of the path's parameters."""
        return f"{self.source}>{self.target}"


class SampleBank(nn.Module):
    """n heads of one form, one per sample: mean over i of f(s_i) u_i.

    readings  the numbers a head reads, each a sum of query terms: one for f(s), two for f(s, y)
    rates     per reading, how each token's score follows it
    watched   whether |s| is held against the radius while running
    """

    def __init__(
        self,
        name: str,
        readings: Mapping[str, Sequence[QueryTerm]],
        paths: Sequence[SamplePath],
        rates: Sequence[Tensor],
        offset: Tensor,
        values: Tensor,
        *,
        layout: Layout,
        radius: float,
        dtype: torch.dtype,
        watched: bool = True,
    ) -> None:
        super().__init__()
        self.name, self.paths, self.radius, self.watched = name, tuple(paths), radius, watched
        self.readings = {label: tuple(terms) for label, terms in readings.items()}
        self._layout = layout
        self._compiled = (*(r.to(dtype) for r in rates), offset.to(dtype), values.to(dtype))
        self.rates = nn.ParameterDict(
            {label: frozen(r, r.shape, dtype) for label, r in zip(readings, rates, strict=True)}
        )
        self.offset = frozen(offset, offset.shape, dtype)
        self.values = frozen(values, values.shape, dtype)
        terms = [term for several in self.readings.values() for term in several]
        shapes = {term.name: layout[term.key].shape for term in terms}
        self.query = nn.ParameterDict(
            {t.name: frozen(t.coef, shapes[t.name], dtype) for t in terms}
        )
        self.key = nn.ParameterDict({t.name: frozen(1.0, shapes[t.name], dtype) for t in terms})
        self.value = nn.ParameterDict(
            {p.name: frozen(1.0, layout[p.source].shape, dtype) for p in paths}
        )
        self.output = nn.ParameterDict(
            {p.name: frozen(p.scale, layout[p.source].shape, dtype) for p in paths}
        )

    @property
    def n_tokens(self) -> int:
        """Tokens every head attends over."""
        return self.offset.numel()

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight is the one that was compiled."""
        tables = (*self.rates.values(), self.offset, self.values)
        terms = [term for several in self.readings.values() for term in several]
        return (
            all(
                torch.equal(now, then.to(now))
                for now, then in zip(tables, self._compiled, strict=True)
            )
            and all(uniform(self.query[t.name]) == _as(self.offset, t.coef) for t in terms)
            and all(uniform(self.key[t.name]) == 1.0 for t in terms)
            and all(uniform(self.value[p.name]) == 1.0 for p in self.paths)
            and all(uniform(self.output[p.name]) == _as(self.offset, p.scale) for p in self.paths)
        )

    # -- symbolic ---------------------------------------------------------------------------------

    def emit(self, b: Builder) -> list[tuple[SamplePath, Reg]]:
        """Read every sample's number(s) and apply f; what is to be collected with which factors."""
        reads = {label: self._read(b, terms) for label, terms in self.readings.items()}
        rates = [self.rates[label].data for label in reads]
        factor = self._factor(b, list(reads.values()), rates)
        first = next(iter(reads.values()))
        if isinstance(first, Reg):
            slots = "+".join(term.key for term in next(iter(self.readings.values())))
            if self.watched:
                b.watch(f"attention.{self.name}", slots, first)
            b.heads(f"attention.{self.name}", slots, first, factor)
        return [(path, factor) for path in self.paths if not isinstance(b.read(path.source), Zero)]

    def _factor(self, b: Builder, reads: list[Value], rates: list[Tensor]) -> Reg:
        offset, values = self.offset.data, self.values.data
        if len(reads) == 1:
            reader = table_reader(rates[0], offset, values, self.radius)
            query = b.tensor(reads[0], self.offset)
            # What depends on the samples alone is read once for the whole run.
            constant = all(term.query == "one" for term in next(iter(self.readings.values())))
            return b.hat(query, reader) if constant else b.compute(reader, [query])
        s, y = (b.tensor(read, self.offset) for read in reads)
        product = ProductReader(rates[0], rates[1], offset, values)
        if not product.factorises:
            return b.compute(product.literal, [s, y])
        return b.compute(product.finish, [s, b.hat(y, product.begin)])

    def _read(self, b: Builder, terms: Sequence[QueryTerm]) -> Value:
        """The sum over terms of <query, key>, for every sample at once."""
        total: list[tuple[Value, float]] = []
        for term in terms:
            query, key = b.read(term.query), b.read(term.key)
            if isinstance(query, Zero) or isinstance(key, Zero):
                continue
            weight = self.query[term.name].data * self.key[term.name].data
            if not self._layout[term.key].shape:
                total.append(_scalar_term(b, query, key, float(weight), self.offset))
                continue
            query_reg, key_reg = b.tensor(query, self.offset), b.tensor(key, self.offset)
            total.append((_inner(b, query_reg, key_reg, weight), 1.0))
        return b.combine(total)

    # -- literal ----------------------------------------------------------------------------------

    def dense(self, layout: Layout) -> DenseSampleBank:
        """The literal matrices of one head; the others differ in the sample they spread."""
        return DenseSampleBank(self, layout)


def _as(like: Tensor, value: float) -> float:
    return float(like.new_tensor(value))


def _scalar_term(
    b: Builder, query: Value, key: Value, weight: float, like: Tensor
) -> tuple[Value, float]:
    """(value, factor) of a product of two numbers, the query shared by all samples."""
    if isinstance(query, Const):
        return key, weight * query.value
    if isinstance(key, Const):
        # A shared number, such as an intercept, stands beside every sample.
        shared = b.tensor(query, like)
        return b.compute(lambda x: x.unsqueeze(-1), [shared]), weight * key.value
    q, k = b.tensor(query, like), b.tensor(key, like)
    return b.compute(lambda x, y: x.unsqueeze(-1) * y, [q, k]), weight


def _inner(b: Builder, query: Reg, key: Reg, weight: Tensor) -> Reg:
    common = uniform(weight)

    def inner(w: Tensor, x: Tensor) -> Tensor:
        w = w if common == 1.0 else w * weight
        return torch.mv(x, w) if x.dim() == 2 else torch.matmul(x, w.unsqueeze(-1)).squeeze(-1)

    return b.compute(inner, [query, key])


class SampleAttention(AttentionLayer):
    """X + 1/n sum over samples and banks of softmax heads, one head per sample and bank."""

    def __init__(self, layout: Layout, banks: Sequence[SampleBank]) -> None:
        super().__init__()
        self.layout = layout
        self.banks = named_parts("banks", {bank.name: bank for bank in banks})

    def sample_banks(self) -> list[SampleBank]:
        """The banks, typed."""
        return [bank for bank in self.banks.values() if isinstance(bank, SampleBank)]

    @property
    def like(self) -> Tensor:
        """A weight, for its dtype and device."""
        return self.sample_banks()[0].offset

    def layouts(self) -> dict[str, Layout]:
        """Named layouts of the tokens this attention works on."""
        return {"working": self.layout}

    def grids(self) -> dict[str, Grid]:
        """See AttentionLayer; a bank that reads two numbers has a grid of pairs, which is not shown."""
        return {
            f"attention.{bank.name}": grid_of(
                next(iter(bank.rates.values())).data, bank.offset.data, bank.values.data
            )
            for bank in self.sample_banks()
            if len(bank.readings) == 1
        }

    def emit(self, b: Builder, radius: float) -> None:
        """All banks; factors of the same sample slot and target are added before collecting."""
        for slot in self.layout:
            b.write(slot.name, b.read(slot.name))
        joined: dict[tuple[str, str], list[tuple[Reg, float]]] = {}
        for bank in self.sample_banks():
            for path, factor in bank.emit(b):
                weight = bank.value[path.name].data * bank.output[path.name].data
                common = uniform(weight)
                if common is None:
                    self._collect(b, path.source, path.target, factor, weight)
                else:
                    joined.setdefault((path.source, path.target), []).append((factor, common))
        for (source, target), factors in joined.items():
            scale = next((coef for _, coef in factors if coef != 0.0), 0.0)
            if scale == 0.0:
                continue
            total = b.combine([(factor, coef / scale) for factor, coef in factors])
            if isinstance(total, Reg):
                self._collect(b, source, target, total, scale)

    def _collect(
        self, b: Builder, source: str, target: str, factor: Reg, scale: float | Tensor
    ) -> None:
        """target += mean_i scale * factor_i * sample_i[source]."""
        value = b.read(source)
        n_axes = len(self.layout[source].shape)
        if isinstance(value, Const):
            constant = value.value
            b.write(target, b.compute(lambda f: f.mean(dim=-1) * (constant * scale), [factor]))
            return
        reg = b.tensor(value, self.like)

        def collect(f: Tensor, x: Tensor) -> Tensor:
            if n_axes == 0:
                return (f * x).mean(dim=-1) * scale
            if x.dim() == 2:
                total = torch.mv(x.T, f)
            else:
                total = torch.matmul(f.unsqueeze(-2), x).squeeze(-2)
            return total.mul_(scale / x.shape[-2])

        b.write(target, b.compute(collect, [factor, reg]))

    def dense(self, n_columns: int) -> DenseSampleAttention:
        """The literal matrices for blocks of n_columns tokens."""
        return DenseSampleAttention([bank.dense(self.layout) for bank in self.sample_banks()])

    def dense_parameters(self, n_columns: int) -> int:
        """Entries of the literal matrices of all heads."""
        per_head = sum(
            p.numel() for bank in self.sample_banks() for p in bank.dense(self.layout).parameters()
        )
        return n_columns * per_head

    def dense_flops(self, n_columns: int) -> int:
        """Multiply-adds of one call: spread, compare, collect, for every head and token."""
        n, total = n_columns, 0
        for bank in self.sample_banks():
            d = bank.dense(self.layout)
            width, grid = d.W_A.shape[-2], d.W_A.shape[-1]
            p, dk, dv = bank.n_tokens, d.W_Q.shape[-1], d.W_V.shape[-1]
            total += n * d.W_A.shape[0] * (width * grid + p * grid) + n * p * grid * (dk + dv)
            total += n * width * dk + n * n * p * (dk + dv) + n * n * dv + n * dv * width
        return total
