"""sum_s v_s <q_i, k_s> by one softmax head per token s, over a grid of its own tokens.

Head s lays out p tokens [a_m k_s | level_m v_s | offset_m] made from token s; a token that asks with q_i
has scores a_m <q_i, k_s> + offset_m, and softmax returns level(<q_i, k_s>) v_s, which is <q_i, k_s> v_s to
machine precision (transformer/gadgets/heads/spectral_head.py). All heads have the same weights.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from icgd.transformer.nn.chain.grid_reader import table_reader
from icgd.transformer.nn.feedforward import frozen
from icgd.transformer.nn.stack.head_family import Look, Question
from icgd.transformer.nn.stack.stack import Sublayer, SublayerCounts
from icgd.transformer.nn.symbolic import once_fixed
from icgd.transformer.nn.views import Grid, HeadView, Interest, StageKind, grid_of


class SpectralSublayer(Sublayer):
    """H + scale sum_s hat(<Q h_i, K h_s>) V h_s at the coordinates `target`.

    query, key       (r, width)    value  (m, width)     target  (m,)
    rates, offset, levels  (p,): the grid tokens         radius  range in which they are certified
    causal           whether token i sees heads of tokens s <= i only
    """

    kind: StageKind = "softmax"
    title = "Softmax heads over grid tokens, one head per token: they multiply"

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        target: Tensor,
        *,
        rates: Tensor,
        offset: Tensor,
        levels: Tensor,
        scale: float,
        radius: float,
        dtype: torch.dtype,
        causal: bool = False,
        label: str = "product",
        option: str = "x_radius",
    ) -> None:
        super().__init__()
        named = {
            "query": query,
            "key": key,
            "value": value,
            "rates": rates,
            "offset": offset,
            "levels": levels,
            "scale": torch.tensor(scale, dtype=torch.float64),
        }
        for name, number in named.items():
            self.register_parameter(name, frozen(number, tuple(number.shape), dtype))
        self.register_buffer("target", target, persistent=False)
        self.radius, self.causal, self.label = radius, causal, label
        self.question = Question(label, option=option)
        self._compiled = [p.data.clone() for p in self.parameters()]

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight is the one that was compiled."""
        now = list(self.parameters())
        return all(torch.equal(p, was.to(p)) for p, was in zip(now, self._compiled, strict=True))

    def collapsed(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer: all heads' numbers read in one call."""
        q, k = tokens @ self.get_parameter("query").T, tokens @ self.get_parameter("key").T
        s = q @ k.mT
        if self.causal:
            s = s.tril()
        look(self.question, s, self.radius)
        read = self._reader()
        values = tokens @ self.get_parameter("value").T
        weight = read(s)
        if self.causal:
            weight = weight.tril()
        collected = self.get_parameter("scale") * (weight @ values)
        return tokens.clone().index_add_(-1, self.get_buffer("target"), collected)

    def sparse(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer."""
        return self.collapsed(tokens, look)

    def dense(self, tokens: Tensor, look: Look) -> Tensor:
        """See Sublayer: one literal head after the other."""
        q, k = tokens @ self.get_parameter("query").T, tokens @ self.get_parameter("key").T
        queries = q @ k.mT
        look(self.question, queries.tril() if self.causal else queries, self.radius)
        values = tokens @ self.get_parameter("value").T
        rates, offset, levels = (self.get_parameter(n) for n in ("rates", "offset", "levels"))
        one = torch.ones_like(q[..., :1])
        out, n = tokens.clone(), tokens.shape[-2]
        for s in range(n):
            # The tokens head s lays out: [a_m k_s | offset_m] as keys, level_m v_s as values.
            keys = torch.cat(
                [
                    rates.unsqueeze(-1) * k[..., s : s + 1, :],
                    offset.unsqueeze(-1).expand(*k.shape[:-2], -1, 1),
                ],
                dim=-1,
            )
            spread = levels.unsqueeze(-1) * values[..., s : s + 1, :]
            scores = torch.cat([q, one], dim=-1) @ keys.mT
            collected = self.get_parameter("scale") * _summed_by_sign(
                torch.softmax(scores, dim=-1), spread
            )
            if self.causal:
                collected = collected * (torch.arange(n) >= s).to(collected).unsqueeze(-1)
            out.index_add_(-1, self.get_buffer("target"), collected)
        return out

    def grid(self) -> Grid:
        """See Sublayer."""
        rates, offset, levels = (self.get_parameter(n) for n in ("rates", "offset", "levels"))
        return grid_of(rates.data, offset.data, levels.data)

    def views(self, tokens: Tensor, interest: Interest) -> list[HeadView]:
        """See Sublayer: what tokens ask each other, and the heads of the token that asks for most."""
        s = (tokens @ self.get_parameter("query").T) @ (tokens @ self.get_parameter("key").T).mT
        s = s.tril() if self.causal else s
        read, rows, shown = (
            self._reader()(s),
            interest.of_tokens(len(tokens)),
            slice(0, interest.tokens),
        )
        read = read.tril() if self.causal else read
        asking = int(s.abs().amax(dim=-1).argmax())
        heads = interest.of_heads(s[asking])
        slot = f"{self.label}, token {asking + 1} asks"
        return [
            HeadView(
                "products",
                self.label,
                "tokens",
                s[rows, shown],
                rows,
                read[rows, shown],
                radius=self.radius,
            ),
            HeadView(
                "grid",
                slot,
                "grid",
                s[asking],
                heads,
                read[asking],
                self.grid().attention(s[asking][heads]),
                self.radius,
            ),
        ]

    def counts(self, width: int) -> SublayerCounts:
        """See Sublayer: heads are one per token, counted as one here because they share weights."""
        entries = sum(int((p != 0).sum()) for p in self.parameters())
        return SublayerCounts("attention", width, heads=1, nonzeros=entries)

    @once_fixed
    def _reader(self) -> Callable[[Tensor], Tensor]:
        rates, offset, levels = (self.get_parameter(n) for n in ("rates", "offset", "levels"))
        return table_reader(rates.data, offset.data, levels.data, self.radius)


def _summed_by_sign(attention: Tensor, values: Tensor) -> Tensor:
    """attention @ values, tokens of even and of odd number summed apart.

    A grid lists its levels as l, -l, ...: where attention is even, the two sums are exact negatives and cancel
    to exactly 0. One long sum does so only in some orders, and the order is the processor's.
    """
    plus, minus = (
        attention[..., k::2].contiguous() @ values[..., k::2, :].contiguous() for k in (0, 1)
    )
    return plus + minus
