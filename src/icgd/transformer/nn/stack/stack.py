"""A stack of attention, feed-forward and multiplication layers on tokens that hold the whole state.

Tokens are rows, (..., T, width). Every sublayer adds to its input; `dense`, `sparse` and `collapsed`
evaluate the same named weights (transformer/nn/stack/head_family.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from icgd.transformer.layout import Layout
from icgd.transformer.nn.feedforward import frozen
from icgd.transformer.nn.frozen_layer import FrozenLayer
from icgd.transformer.nn.named_parts import named_parts
from icgd.transformer.nn.stack.head_family import HeadFamily, Look, Question
from icgd.transformer.nn.symbolic import once_fixed
from icgd.transformer.nn.views import Grid, HeadView, Interest, StageKind, StageOutline


def unwatched(question: Question, value: Tensor, reach: float) -> None:
    """Look at nothing."""


class Sublayer(nn.Module, ABC):
    """One residual layer of a stack.

    kind   what it is made of     title  in words, for people
    """

    kind: StageKind
    title: str

    @abstractmethod
    def collapsed(self, tokens: Tensor, look: Look) -> Tensor:
        """The fast evaluation."""

    @abstractmethod
    def sparse(self, tokens: Tensor, look: Look) -> Tensor:
        """By index arrays, every pair of tokens."""

    @abstractmethod
    def dense(self, tokens: Tensor, look: Look) -> Tensor:
        """With literal matrices."""

    @abstractmethod
    def counts(self, width: int) -> SublayerCounts:
        """What it is made of, on tokens of this width."""

    def views(self, tokens: Tensor, interest: Interest) -> list[HeadView]:
        """What its heads ask of tokens (T, width), for people who watch."""
        return []

    def grid(self) -> Grid | None:
        """The grid tokens its heads attend over, if they do."""
        return None


class SublayerCounts:
    """Heads or hidden units of one sublayer and what they cost.

    kind  "attention", "mlp" or "product"
    """

    def __init__(
        self,
        kind: str,
        width: int,
        *,
        heads: int = 0,
        hidden: int = 0,
        nonzeros: int = 0,
        sparse: Sequence[HeadFamily] = (),
        sparse_per_token: int = 0,
    ) -> None:
        self.kind, self.width = kind, width
        self.heads, self.hidden, self.nonzeros = heads, hidden, nonzeros
        self._families, self._per_token = sparse, sparse_per_token

    @property
    def parameters(self) -> int:
        """Entries of the literal matrices."""
        return 3 * self.width**2 * self.heads + 2 * self.hidden * self.width

    def dense_flops(self, n_tokens: int) -> int:
        """Products and sums with literal matrices; a mean over tokens is not counted."""
        D, T = self.width, n_tokens
        mixing = {"attention": 4 * D * T * T, "product": 4 * D * T, "mlp": 0}[self.kind]
        return self.heads * (6 * D * D * T + mixing) + 4 * self.hidden * D * T

    def sparse_flops(self, n_tokens: int) -> int:
        """The same, for entries that are not zero."""
        mixed = sum(family.sparse_flops(n_tokens) for family in self._families)
        return mixed + n_tokens * self._per_token


class AttentionSublayer(Sublayer):
    """H + 1/T sum over heads and tokens of act(<Q h_i, K h_s>) V h_s.

    Statement: [DEEP] Definition 7
    Statement: [BRIDGE] Definition 1

    Differs from the paper: tokens are rows; the activation is any of nn.head_family.ACTIVATIONS.
    """

    title = "Attention heads, the mean over tokens of act(score) times value"

    def __init__(self, families: Mapping[str, HeadFamily]) -> None:
        super().__init__()
        self.families = named_parts("families", families)
        self.kind: StageKind = self.each()[0].activation

    def each(self) -> list[HeadFamily]:
        """The families of heads, in order."""
        return [family for family in self.families.values() if isinstance(family, HeadFamily)]

    def collapsed(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        out = tokens
        for family in self.each():
            out = out + family.collapsed(tokens, look)
        return out

    def sparse(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        out = tokens
        for family in self.each():
            out = out + family.sparse(tokens, look)
        return out

    def dense(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        out = tokens
        for family in self.each():
            out = out + family.dense(tokens, look)
        return out

    def views(self, tokens: Tensor, interest: Interest) -> list[HeadView]:
        """See Sublayer."""
        named = [(n, f) for n, f in self.families.items() if isinstance(f, HeadFamily)]
        return [v for name, family in named if (v := family.view(name, tokens, interest))]

    def counts(self, width: int) -> SublayerCounts:
        """See Sublayer."""
        families = self.each()
        return SublayerCounts(
            "attention",
            width,
            heads=sum(f.n_heads for f in families),
            nonzeros=sum(f.nonzeros() for f in families),
            sparse=families,
        )


class UnitGroup(nn.Module):
    """ReLU units: out[write[h]] += w_out[h] relu(sum_r w_in[h, r] token[read[h, r]]).

    A sum is taken from left to right, so that terms which cancel exactly can be put first.
    """

    def __init__(
        self, read: Tensor, w_in: Tensor, write: Tensor, w_out: Tensor, *, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.register_buffer("read", read, persistent=False)
        self.register_buffer("write", write, persistent=False)
        self.w_in = frozen(w_in, tuple(read.shape), dtype)
        self.w_out = frozen(w_out, tuple(write.shape), dtype)
        self._compiled = [p.data.clone() for p in self.parameters()]

    @property
    def size(self) -> int:
        """How many units."""
        return self.w_out.numel()

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight is the one that was compiled."""
        now = list(self.parameters())
        return all(torch.equal(p, was.to(p)) for p, was in zip(now, self._compiled, strict=True))

    def add_to(self, out: Tensor, tokens: Tensor) -> Tensor:
        """The units' contribution, added to `out` in place."""
        read = self.get_buffer("read")
        total = tokens[..., read[:, 0]] * self.w_in[:, 0]
        for r in range(1, read.shape[1]):
            total = total + tokens[..., read[:, r]] * self.w_in[:, r]
        return out.index_add_(-1, self.get_buffer("write"), total.relu() * self.w_out)


class MlpSublayer(Sublayer):
    """H + W_2 relu(W_1 H).

    Statement: [DEEP] Definition 8
    Statement: [BRIDGE] Definition 2

    Differs from the paper: no.
    """

    kind: StageKind = "feed_forward"
    title = "Feed-forward units, each token by itself"

    def __init__(self, groups: Mapping[str, UnitGroup]) -> None:
        super().__init__()
        self.groups = named_parts("groups", groups)

    def each(self) -> list[UnitGroup]:
        """The groups of units, in order."""
        return [group for group in self.groups.values() if isinstance(group, UnitGroup)]

    def collapsed(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        out = tokens.clone()
        for group in self.each():
            group.add_to(out, tokens)
        return out

    def sparse(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        return self.collapsed(tokens, look)

    def matrices(self, width: int) -> tuple[Tensor, Tensor]:
        """Literal W_1 (hidden, width) and W_2 (width, hidden)."""
        groups = self.each()
        hidden = sum(group.size for group in groups)
        W_1 = groups[0].w_in.new_zeros(hidden, width)
        W_2 = groups[0].w_in.new_zeros(width, hidden)
        start = 0
        for group in groups:
            unit = torch.arange(start, start + group.size)
            read = group.get_buffer("read")
            # A coordinate may be read twice: entries add up.
            W_1.index_put_((unit.unsqueeze(1).expand_as(read), read), group.w_in, accumulate=True)
            W_2.index_put_((group.get_buffer("write"), unit), group.w_out, accumulate=True)
            start += group.size
        return W_1, W_2

    def dense(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        W_1, W_2 = self.matrices(tokens.shape[-1])
        return tokens + torch.relu(tokens @ W_1.T) @ W_2.T

    def counts(self, width: int) -> SublayerCounts:
        """See Sublayer."""
        groups = self.each()
        entries = sum(int((g.w_in != 0).sum()) + g.size for g in groups)
        hidden = sum(g.size for g in groups)
        return SublayerCounts(
            "mlp", width, hidden=hidden, nonzeros=entries, sparse_per_token=2 * entries
        )


class ProductSublayer(Sublayer):
    """Element-wise multiplication: head u adds coef[u] <h_i[query[u]], h_i[key[u]]> h_i[source[u]].

    Statement: [DEEP] Definition 6

    Differs from the paper: no; it has no activation and no mean over tokens, as its definition says
    and some of its displays do not.
    """

    kind: StageKind = "product"
    title = "Element-wise products within each token"

    def __init__(
        self, query: Tensor, key: Tensor, source: Tensor, target: Tensor, *, dtype: torch.dtype
    ) -> None:
        super().__init__()
        for name, index in zip(
            ("query", "key", "source", "target"), (query, key, source, target), strict=True
        ):
            self.register_buffer(name, index, persistent=False)
        self.coef = frozen(1.0, tuple(source.shape), dtype)

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight is the one that was compiled."""
        return bool((self.coef == 1.0).all())

    def collapsed(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        query, key = self.get_buffer("query"), self.get_buffer("key")
        factor = (tokens[..., query] * tokens[..., key]).sum(dim=-1)
        value = self.coef * factor * tokens[..., self.get_buffer("source")]
        return tokens.clone().index_add_(-1, self.get_buffer("target"), value)

    def sparse(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        return self.collapsed(tokens, look)

    def dense(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        out, width = tokens, tokens.shape[-1]
        query, key = self.get_buffer("query"), self.get_buffer("key")
        for u in range(self.coef.numel()):
            Q, K, V = (tokens.new_zeros(width, width) for _ in range(3))
            row = torch.arange(query.shape[1])
            Q[row, query[u]], K[row, key[u]] = 1.0, 1.0
            V[self.get_buffer("target")[u], self.get_buffer("source")[u]] = self.coef[u]
            factor = ((tokens @ Q.T) * (tokens @ K.T)).sum(dim=-1, keepdim=True)
            out = out + factor * (tokens @ V.T)
        return out

    def counts(self, width: int) -> SublayerCounts:
        """See Sublayer."""
        heads, r = self.get_buffer("query").shape
        entries = int(heads) * (2 * int(r) + 1)
        return SublayerCounts(
            "product",
            width,
            heads=int(heads),
            nonzeros=entries,
            sparse_per_token=2 * entries + int(heads) * (2 * int(r) + 2),
        )


class Stack(FrozenLayer):
    """Sublayers one after the other.

    Statement: [DEEP] Definition 9

    n_layers  how many layers the paper counts them as
    kinks     labels of what heads are asked where the sign decides something

    Differs from the paper: multiplication layers may stand between the others.
    """

    def __init__(
        self,
        layout: Layout,
        sublayers: Mapping[str, Sublayer],
        *,
        n_layers: int,
        radius: float,
        kinks: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self.layout, self.n_layers, self.radius = layout, n_layers, radius
        self.kinks = kinks
        self.sublayers = named_parts("sublayers", sublayers)

    @property
    def like(self) -> Tensor:
        """See FrozenLayer."""
        return next(self.parameters())

    def layouts(self) -> dict[str, Layout]:
        """See FrozenLayer: its tokens are the block's own."""
        return {}

    def each(self) -> list[tuple[str, Sublayer]]:
        """The sublayers by name, in order."""
        return [(n, layer) for n, layer in self.sublayers.items() if isinstance(layer, Sublayer)]

    def stages(self) -> list[StageOutline]:
        """See FrozenLayer."""
        return [StageOutline(n, part.kind, part.title, self.layout) for n, part in self.each()]

    def grids(self) -> dict[str, Grid]:
        """See FrozenLayer."""
        return {f"{n}.grid": grid for n, part in self.each() if (grid := part.grid()) is not None}

    def forward(
        self, tokens: Tensor, evaluation: str = "collapsed", look: Look = unwatched
    ) -> Tensor:
        """Apply all sublayers to tokens (..., T, width)."""
        for _, layer in self.each():
            tokens = getattr(layer, evaluation)(tokens, look)
        return tokens

    def counts(self) -> list[SublayerCounts]:
        """What every sublayer is made of."""
        return [layer.counts(self.layout.width) for _, layer in self.each()]

    def dense_parameters(self, n_columns: int) -> int:
        """See FrozenLayer."""
        return sum(c.parameters for c in self.counts())

    def dense_flops(self, n_columns: int) -> int:
        """See FrozenLayer."""
        return sum(c.dense_flops(n_columns) for c in self.counts())
