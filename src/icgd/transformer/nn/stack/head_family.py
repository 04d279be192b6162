"""Heads that differ in coefficients only: index arrays say what they read, few numbers how.

Head (u, m) of a family gives token i
    1/T sum_s act( sum_f a[m, f] <h_i[query_f[u]], h_s[key_f[u]]> ) * c[m] * scale * h_s[source[u]]
and adds it to the coordinates target[u]. One set of weights, three evaluations of it: literal D x D
matrices, the index arrays over all pairs of tokens, and collapsed to one side where the other side
is equal in all tokens, so that the mean over tokens of a constant is that constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from icgd.errors import InvalidParameter
from icgd.transformer.nn.attention import attention
from icgd.transformer.nn.feedforward import frozen
from icgd.transformer.nn.symbolic import once_fixed
from icgd.transformer.nn.views import HeadView, Interest, StageKind


@dataclass(frozen=True)
class Question:
    """What heads ask, for the range watch and its messages; nothing reads the label but people.

    label   its name
    layer   of the network it belongs to; None where the place of the sublayer in its stack says more
    option  of compile, or of the problem, that widens its range
    """

    label: str
    layer: int | None = None
    option: str = "radius"


Look = Callable[[Question, Tensor, float], None]
"""Called with (what was asked, the numbers, the range they must keep to)."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
ROOM = 1 << 22
"""Numbers a temporary may hold; larger families are worked off in parts."""
IN_CACHE = 1 << 18
"""Numbers that stay in the cache while one operation after the other goes over them: 5 to 10 times as fast."""


@dataclass(frozen=True)
class Feature:
    """<h_i[query[u]], h_s[key[u]]> of every unit u: index arrays (U, r) of one shape.

    label, layer, option  what is asked, as in Question      reach  range it must keep to
    """

    label: str
    query: Tensor
    key: Tensor
    reach: float = math.inf
    layer: int | None = None
    option: str = "radius"

    @property
    def question(self) -> Question:
        """What is asked."""
        return Question(self.label, self.layer, self.option)


class HeadFamily(nn.Module):
    """U x M heads on tokens of `width` coordinates.

    a, c     (M, F) and (M,): how the F features enter a score, and the weight of the head's value
    scale    common factor of all values
    source, target  (U, m): values are moved from these coordinates of h_s to those of h_i
    own      (width,): True where every token has a number of its own
    """

    def __init__(
        self,
        features: Sequence[Feature],
        a: Tensor,
        c: Tensor,
        source: Tensor,
        target: Tensor,
        own: Tensor,
        *,
        scale: float = 1.0,
        activation: Any = "relu",
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise InvalidParameter("attention", activation, f"be one of {sorted(ACTIVATIONS)}")
        self.a = frozen(a, tuple(a.shape), dtype)
        self.c = frozen(c, tuple(c.shape), dtype)
        self.scale = frozen(scale, (), dtype)
        self._compiled = [p.data.clone() for p in self.parameters()]
        self.questions = [f.question for f in features]
        self.reach = [f.reach for f in features]
        self.n_features = len(features)
        self.activation: StageKind = activation
        for i, feature in enumerate(features):
            self.register_buffer(f"query_{i}", feature.query, persistent=False)
            self.register_buffer(f"key_{i}", feature.key, persistent=False)
        self.register_buffer("source", source, persistent=False)
        self.register_buffer("target", target, persistent=False)
        self._pairs = [_Pairs(f.query, f.key) for f in features]
        # Whether the two sides of a head are the same in all tokens.
        self.same_query = not any(bool(own[f.query].any()) for f in features)
        self.same_key = not any(bool(own[f.key].any()) for f in features)
        self.same_key &= not bool(own[source].any())

    @property
    def n_units(self) -> int:
        """The number U of units."""
        return int(self.get_buffer("source").shape[0])

    @property
    def n_heads(self) -> int:
        """U x M."""
        return self.n_units * self.c.numel()

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight is the one that was compiled."""
        now = list(self.parameters())
        return all(torch.equal(p, was.to(p)) for p, was in zip(now, self._compiled, strict=True))

    # -- counts -----------------------------------------------------------------------------------

    @property
    def key_width(self) -> int:
        """Components of a query and of a key."""
        return sum(int(self.get_buffer(f"query_{i}").shape[1]) for i in range(self.n_features))

    def nonzeros(self) -> int:
        """Non-zero entries of all query, key and value matrices."""
        widths = self.a.new_tensor(
            [self.get_buffer(f"query_{i}").shape[1] for i in range(self.n_features)]
        )
        used = (self.a != 0).to(widths) @ widths  # a zero weight makes its row of Q and K idle
        return self.n_units * int((2 * used).sum()) + self.n_heads * self.values_per_head

    @property
    def values_per_head(self) -> int:
        """Non-zero entries of one value matrix."""
        return int(self.get_buffer("source").shape[1])

    def sparse_flops(self, n_tokens: int) -> int:
        """Operations with index arrays over all pairs of tokens."""
        r, m, n = self.key_width, self.values_per_head, n_tokens
        return self.n_heads * (2 * n * (2 * r + m) + 2 * n * n * (r + m))

    # -- three evaluations ------------------------------------------------------------------------

    def collapsed(self, tokens: Tensor, look: Look) -> Tensor:
        """What the family adds, (..., T or 1, width), using that shared slots are equal in all tokens."""
        if not (self.same_query or self.same_key):
            return self.sparse(tokens, look)
        first = tokens[..., :1, :]
        q_side = first if self.same_query and not self.same_key else tokens
        k_side = first if self.same_key else tokens
        parts = [p.along(q_side, k_side) for p in self._pairs]
        self._look(parts, look)
        weight = self._weigh(torch.stack(torch.broadcast_tensors(*parts), dim=-1))
        source, target = self.get_buffer("source"), self.get_buffer("target")
        room = max(1, ROOM // (weight[..., 0].numel() * self.values_per_head))
        out: Tensor | float = 0.0
        for start in range(0, self.n_units, room):
            part = slice(start, start + room)
            moved = weight[..., part].unsqueeze(-1) * (self.scale * k_side[..., source[part]])
            if not self.same_key:  # sums over examples: the same in every token
                moved = moved.mean(dim=-3, keepdim=True)
            out = out + _gather(moved, target[part], tokens.shape[-1])
        assert isinstance(out, Tensor)
        return out

    def view(self, name: str, tokens: Tensor, interest: Interest) -> HeadView | None:
        """What units ask in some tokens, and the sum of their heads; None where every pair has its own."""
        if not (self.same_query or self.same_key):
            return None
        first = tokens[:1]
        q_side = first if self.same_query and not self.same_key else tokens
        k_side = first if self.same_key else tokens
        parts = [p.along(q_side, k_side) for p in self._pairs]
        features = torch.stack(torch.broadcast_tensors(*parts), dim=-1)[..., : interest.tokens, :]
        rows = interest.of_tokens(features.shape[0])
        return HeadView(
            name,
            " * ".join(question.label for question in self.questions),
            "units",
            asked=features[rows, :, 0],
            heads=rows,
            read=self._weigh(features[rows]),
            radius=self.reach[0],
        )

    def sparse(self, tokens: Tensor, look: Look) -> Tensor:
        """What the family adds, (..., T, width), over all pairs of tokens."""
        n = tokens.shape[-2]
        source, target = self.get_buffer("source"), self.get_buffer("target")
        out = torch.zeros_like(tokens)
        room = max(1, ROOM // (self.c.numel() * n * n))
        for start in range(0, self.n_units, room):
            part = slice(start, start + room)
            weight = self._weigh(torch.stack(self._asked(tokens, part, look), dim=-1)) / n
            values = self.scale * tokens[..., source[part]].movedim(-2, -3)
            moved = (weight @ values).movedim(-3, -2)
            out = out + _gather(moved, target[part], tokens.shape[-1])
        return out

    def _asked(self, tokens: Tensor, units: slice, look: Look) -> list[Tensor]:
        """Every feature of some units for all pairs of tokens, (..., u, i, s), shown to the range watch."""
        queries = []
        for i, question in enumerate(self.questions):
            query = tokens[..., self.get_buffer(f"query_{i}")[units]].movedim(-2, -3)
            key = tokens[..., self.get_buffer(f"key_{i}")[units]].movedim(-2, -3)
            queries.append(query @ key.transpose(-2, -1))
            # Equal along the side that is the same in all tokens: look once. (..., token, u)
            pairs = queries[-1]
            once = pairs[..., 0] if self.same_key else pairs[..., 0, :]
            seen = once if self.same_key or self.same_query else pairs.flatten(-2)
            look(question, seen.mT, self.reach[i])
        return queries

    def dense(self, tokens: Tensor, look: Look, room: int = 32) -> Tensor:
        """What the family adds, with literal D x D matrices, a few heads at a time.

        A score adds the features up, so the watch is shown them one by one, as the other evaluations do.
        """
        if any(map(math.isfinite, self.reach)):
            pairs = max(1, ROOM // tokens.shape[-2] ** 2)
            for start in range(0, self.n_units, pairs):
                self._asked(tokens, slice(start, start + pairs), look)
        out = torch.zeros_like(tokens)
        for start in range(0, self.n_heads, room):
            Q, K, V = self.matrices(range(start, min(start + room, self.n_heads)), tokens.shape[-1])
            rows = tokens.unsqueeze(-3)
            heads = attention(
                rows @ Q.mT, rows @ K.mT, rows @ V.mT, kind=ACTIVATIONS[self.activation]
            )
            out = out + heads.sum(dim=-3)
        return out

    def matrices(self, heads: Sequence[int], width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Literal Q, K, V of some heads, (head, width, width); head h is unit h // M, coefficients h % M."""
        head = torch.as_tensor(list(heads))
        unit, m = head // self.c.numel(), head % self.c.numel()
        Q, K, V = (self.a.new_zeros(len(head), width, width) for _ in range(3))
        at, row = torch.arange(len(head)).unsqueeze(1), 0
        for i in range(self.n_features):
            query = self.get_buffer(f"query_{i}")[unit]
            rows = torch.arange(row, row + query.shape[1]).expand_as(query)
            Q[at, rows, query] = self.a[m, i].unsqueeze(1).expand_as(query)
            K[at, rows, self.get_buffer(f"key_{i}")[unit]] = 1.0
            row += query.shape[1]
        target = self.get_buffer("target")[unit]
        V[at, target, self.get_buffer("source")[unit]] = (
            (self.scale * self.c[m]).unsqueeze(1).expand_as(target)
        )
        return Q, K, V

    def rounding(self, size: Tensor, n_tokens: int) -> Tensor:
        """In units of round-off: how far apart, per coordinate, the same sum can come out in two tokens.

        size  (width,), the largest number of every coordinate; each token adds up in an order of its own
        """
        pairs = [
            (size[self.get_buffer(f"query_{i}")] * size[self.get_buffer(f"key_{i}")]).sum(1).max()
            for i in range(self.n_features)
        ]
        argument = self.a.abs().to(size) @ torch.stack(pairs)
        height = argument if self.activation == "relu" else torch.ones_like(argument)
        each = self.c.abs().to(size) @ ((n_tokens + 8) * height + (self.key_width + 4) * argument)
        value = each * self.scale.abs().to(size) * size[self.get_buffer("source")]
        target = self.get_buffer("target").reshape(-1)
        return torch.zeros_like(size).index_add_(0, target, value.reshape(-1))

    def _weigh(self, features: Tensor) -> Tensor:
        """sum_m c_m act(a_m . features), in parts."""
        flat = features.reshape(-1, features.shape[-1])
        act = ACTIVATIONS[self.activation]
        room = max(1, IN_CACHE // self.c.numel())
        parts = [act(part @ self.a.T) @ self.c for part in flat.split(room)]
        return torch.cat(parts).reshape(features.shape[:-1])

    def _look(self, parts: Sequence[Tensor], look: Look) -> None:
        for question, value, reach in zip(self.questions, parts, self.reach, strict=True):
            look(question, value, reach)


class _Pairs:
    """The inner products of one feature, each different one computed once."""

    def __init__(self, query: Tensor, key: Tensor) -> None:
        both = torch.cat([query, key], dim=1)
        rows, self.place = torch.unique(both, dim=0, return_inverse=True)
        self.query, self.key = rows[:, : query.shape[1]], rows[:, query.shape[1] :]
        self.all = len(rows) == len(both)
        self.alike_query = bool((self.query == self.query[:1]).all())
        self.alike_key = bool((self.key == self.key[:1]).all())

    def along(self, q_side: Tensor, k_side: Tensor) -> Tensor:
        """(..., T, U) for tokens on one side and one token on the other."""
        if self.alike_query and k_side.shape[-2] == 1:
            products = q_side[..., self.query[0]] @ k_side[..., 0, self.key].mT
        elif self.alike_key and q_side.shape[-2] == 1:
            products = k_side[..., self.key[0]] @ q_side[..., 0, self.query].mT
        else:
            products = (q_side[..., self.query] * k_side[..., self.key]).sum(dim=-1)
        return products[..., self.place]


def _gather(moved: Tensor, target: Tensor, width: int) -> Tensor:
    """Add up the moved values (..., T, U, m) by the coordinate they go to."""
    out = moved.new_zeros((*moved.shape[:-2], width))
    return out.index_add_(-1, target.reshape(-1), moved.flatten(-2))
