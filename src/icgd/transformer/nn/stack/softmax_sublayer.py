"""Softmax attention as a sublayer of a stack: every head is given by its own small matrices.

Head h adds softmax_s(<Q h_i, K h_s>) V h_s to the coordinates `target` of token i. Q, K and V have one
row per component and `width` columns, most of them zero; `collapsed` reads only columns that are not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from icgd.transformer.layout import Layout
from icgd.transformer.nn.attention import attention
from icgd.transformer.nn.feedforward import frozen
from icgd.transformer.nn.named_parts import named_parts
from icgd.transformer.nn.stack.head_family import Look, Question
from icgd.transformer.nn.stack.stack import Sublayer, SublayerCounts
from icgd.transformer.nn.symbolic import once_fixed
from icgd.transformer.nn.views import HeadView, Interest, StageKind

Rows = Sequence[tuple[str, float | Tensor]]
"""(slot, factor) of a linear map of a token: a number for the slot as it is, a matrix (r, size) for a map."""


def linear_rows(layout: Layout, rows: Rows) -> Tensor:
    """The matrix (r, width) of one group of components: the sum of the given maps of slots.

    >>> from icgd.transformer.layout import Slot
    >>> layout = Layout([Slot("x", (2,)), Slot("one", ())])
    >>> linear_rows(layout, [("x", 3.0)]).tolist()
    [[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]]
    """
    parts = []
    for slot, factor in rows:
        where = layout.index(slot).reshape(-1)
        block = (
            factor
            if isinstance(factor, Tensor)
            else factor * torch.eye(len(where), dtype=torch.float64)
        )
        matrix = torch.zeros(block.shape[0], layout.width, dtype=torch.float64)
        matrix[:, where] = block.to(torch.float64)
        parts.append(matrix)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def stacked(layout: Layout, groups: Sequence[Rows]) -> Tensor:
    """Groups of components one below the other, (r, width)."""
    return torch.cat([linear_rows(layout, rows) for rows in groups])


class SoftmaxHead(nn.Module):
    """One head.

    query, key  (r, width): score = <query h_i, key h_s>
    value       (m, width)  target  (m,) coordinates it is added to
    watched     optional ((r', width), (r', width), reach): inner products the head was made for
    option      of compile, or of the problem, that widens their range
    """

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        target: Tensor,
        *,
        dtype: torch.dtype,
        label: str = "score",
        watched: tuple[Tensor, Tensor, float] | None = None,
        option: str = "radius",
    ) -> None:
        super().__init__()
        for name, matrix in (("query", query), ("key", key), ("value", value)):
            self.register_parameter(name, frozen(matrix, tuple(matrix.shape), dtype))
            self.register_buffer(f"{name}_columns", _used(matrix), persistent=False)
        self.register_buffer("target", target, persistent=False)
        self.label, self.reach = label, math.inf
        self.question = Question(label, option=option)
        if watched is not None:
            self.register_buffer("watched_query", watched[0].to(dtype), persistent=False)
            self.register_buffer("watched_key", watched[1].to(dtype), persistent=False)
            self.reach = watched[2]
        self._compiled = [p.data.clone() for p in self.parameters()]

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight is the one that was compiled."""
        now = list(self.parameters())
        return all(torch.equal(p, was.to(p)) for p, was in zip(now, self._compiled, strict=True))

    def part(self, name: str, tokens: Tensor) -> Tensor:
        """Query, key or value of every token, from the columns that matter."""
        matrix, columns = self.get_parameter(name), self.get_buffer(f"{name}_columns")
        return tokens[..., columns] @ matrix[:, columns].T

    def look(self, tokens: Tensor, look: Look, causal: bool = False) -> None:
        """Show the numbers the head was made for to the range watch; tokens that are not seen do not count."""
        if math.isfinite(self.reach):
            q = tokens @ self.get_buffer("watched_query").T
            products = q @ (tokens @ self.get_buffer("watched_key").T).mT
            look(self.question, products.tril() if causal else products, self.reach)

    def nonzeros(self) -> int:
        """Non-zero entries of the three matrices."""
        return sum(int((p != 0).sum()) for p in self.parameters())


class SoftmaxSublayer(Sublayer):
    """H + sum over heads, every head a softmax over the tokens it may see.

    Statement: [ALGO] Equation 1

    causal  whether token i sees tokens s <= i only

    Differs from the paper: tokens are rows.
    """

    kind: StageKind = "softmax"
    title = "Softmax heads over tokens"

    def __init__(self, heads: Mapping[str, SoftmaxHead], *, causal: bool = False) -> None:
        super().__init__()
        self.heads = named_parts("heads", heads)
        self.causal = causal

    def each(self) -> list[SoftmaxHead]:
        """The heads, in order."""
        return [head for head in self.heads.values() if isinstance(head, SoftmaxHead)]

    def mask(self, n: int, like: Tensor) -> Tensor | None:
        """Which tokens a token sees."""
        if not self.causal:
            return None
        return torch.ones(n, n, dtype=torch.bool, device=like.device).tril()

    def collapsed(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        mask, out = self.mask(tokens.shape[-2], tokens), tokens.clone()
        for head in self.each():
            head.look(tokens, look, self.causal)
            collected = attention(
                head.part("query", tokens),
                head.part("key", tokens),
                head.part("value", tokens),
                mask=mask,
            )
            out.index_add_(-1, head.get_buffer("target"), collected)
        return out

    def sparse(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        return self.collapsed(tokens, look)

    def dense(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer: literal square matrices."""
        mask, out, width = self.mask(tokens.shape[-2], tokens), tokens, tokens.shape[-1]
        for head in self.each():
            head.look(tokens, look, self.causal)
            Q, K, V = (tokens.new_zeros(width, width) for _ in range(3))
            r = head.get_parameter("query").shape[0]
            Q[:r], K[:r] = head.get_parameter("query"), head.get_parameter("key")
            V.index_add_(0, head.get_buffer("target"), head.get_parameter("value"))
            out = out + attention(tokens @ Q.T, tokens @ K.T, tokens @ V.T, mask=mask)
        return out

    def views(self, tokens: Tensor, interest: Interest) -> list[HeadView]:
        """See Sublayer."""
        mask, shown = self.mask(len(tokens), tokens), slice(0, interest.tokens)
        rows, views = interest.of_tokens(len(tokens)), []
        for name, head in self.heads.items():
            assert isinstance(head, SoftmaxHead)
            score = head.part("query", tokens)[rows] @ head.part("key", tokens).mT
            if mask is not None:
                score = score.masked_fill(~mask[rows], -torch.inf)
            weights = torch.softmax(score, dim=-1)
            scores = score.masked_fill(score.isinf(), 0.0)  # what is masked has weight 0
            views.append(
                HeadView(
                    name, head.label, "tokens", scores[:, shown], rows, None, weights[:, shown]
                )
            )
        return views

    def counts(self, width: int) -> SublayerCounts:
        """See Sublayer."""
        heads = self.each()
        return SublayerCounts(
            "attention", width, heads=len(heads), nonzeros=sum(h.nonzeros() for h in heads)
        )


def _used(matrix: Tensor) -> Tensor:
    """Columns that are not zero; at least one, so that products have a shape."""
    used = (matrix != 0).any(dim=0).nonzero().reshape(-1)
    return used if len(used) else torch.zeros(1, dtype=torch.long)
