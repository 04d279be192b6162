"""Gradient descent by a chain of thought: linear attention appends one weight vector a step.

Tokens are [x, y, w, 1]: data (x_j, y_j, 0, 0), then the chain (0, 0, w_i, 1) from w_0 on. The last token asks
with W z = (w_i, -1), so that data token j scores x_j.w_i - y_j, its residual, and answers with -lr x_j:
    w_{i+1} = w_i - lr/n sum_j x_j (x_j.w_i - y_j).
Chain tokens have x = y = 0: they score 0, and the prompt may grow without changing the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import InvalidParameter
from icgd.mechanisms.checked_data import as_tensor
from icgd.mechanisms.loops.common.codec import checked_pairs
from icgd.mechanisms.step_size import warn_if_diverging
from icgd.problems import LinearRegression
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.chain.linear_attention_layer import LinearAttentionLayer
from icgd.transformer.program.session import Session
from icgd.transformer.runtime.executors.chain import StructuredExecutor

PROMPT: Address = ("H", 0)
ASKING: Address = ("Q", 0)
PREDICTED: Address = ("P", 0)


def chain_layout(n_features: int) -> Layout:
    """[x, y, w, 1], of width 2d + 2."""
    return Layout(
        [
            Slot("x", (n_features,), "input of a data token", each=True),
            Slot("y", (), "its label", each=True),
            Slot("w", (n_features,), "weights, in tokens of the chain", each=True),
            Slot("one", (), "1 in tokens of the chain", each=True),
        ]
    )


def chain_layer(layout: Layout, lr: float, n_data: int, dtype: torch.dtype) -> LinearAttentionLayer:
    """The layer whose last token is the next weight vector.

    Statement: [LSA] Theorem 3.2

    V = -lr from x to w;  W = 1 from w to x and -1 from `one` to y (rows are where it writes).

    Differs from the paper: not as far as is known; only a summary of it is at hand.
    """
    V, W = (torch.zeros(layout.width, layout.width, dtype=dtype) for _ in range(2))
    x, y, w, one = (layout.index(name).reshape(-1) for name in ("x", "y", "w", "one"))
    V[w, x] = -lr
    W[x, w], W[y, one] = 1.0, -1.0
    return LinearAttentionLayer(layout, V, W, n_data=n_data, n_speaking=n_data)


def reading_layer(layout: Layout, dtype: torch.dtype) -> LinearAttentionLayer:
    """A token that asks with x scores x.w at the newest token of the chain, which answers with its 1."""
    V, W = (torch.zeros(layout.width, layout.width, dtype=dtype) for _ in range(2))
    x, y, w, one = (layout.index(name).reshape(-1) for name in ("x", "y", "w", "one"))
    V[y, one] = 1.0
    W[w, x] = 1.0
    return LinearAttentionLayer(layout, V, W, n_data=1, n_speaking=1)


class ChainCodec:
    """Data tokens and the start of the chain; queries stand apart."""

    def __init__(self, problem: LinearRegression, lr: float, like: Sequence[Tensor]) -> None:
        self.problem, self.lr, self._like = problem, lr, like

    @property
    def like(self) -> Tensor:
        """A tensor with the program's dtype and device."""
        return self._like[0]

    def session(
        self,
        X: Any,
        Y: Any,
        *,
        init: Any = None,
        epochs: int | None = None,
        steps: int | None = None,
        padded: bool = False,
        query: Any = None,
    ) -> Session:
        """See Codec."""
        if epochs is not None:
            raise InvalidParameter(
                "epochs",
                epochs,
                "be left out for GD, whose every step uses all rows",
                remedy="Use steps=...",
            )
        n_rounds = whole_number("steps", steps)
        x, y = checked_pairs(self.problem, X, Y, self.like)
        warn_if_diverging(self.lr, x, "the chain of thought")
        prompt, n_asking = {PROMPT: self.block(x, y, self.start(init, x))}, 0
        if query is not None:
            asking = self.asking(query, x)
            prompt[ASKING], n_asking = make_block({"x": asking}), asking.shape[-2]

        def arrivals(executor: StructuredExecutor | None) -> Iterator[Mapping[Address, Block]]:
            for _ in range(n_rounds):
                yield {}

        n, d = x.shape[-2:]
        return Session(
            prompt=prompt,
            arrivals=arrivals,
            n_rounds=n_rounds,
            batched=x.dim() == 3,
            n_problems=x.shape[0] if x.dim() == 3 else 1,
            structured_flops_per_round=4 * n * (2 * d + 2),
            wanted={},
            decode=self.decode,
            # As long as the last step finds it: what is counted for literal matrices is an upper bound.
            n_columns=n + n_rounds,
            answers=n_asking,
        )

    def start(self, init: Any, x: Tensor) -> Tensor:
        """w_0, (..., d)."""
        shape = (*x.shape[:-2], x.shape[-1])
        if init is None:
            return x.new_zeros(shape)
        w = as_tensor("init", init, self.like)
        if w.shape not in (shape, shape[-1:]):
            raise InvalidParameter("init", tuple(w.shape), f"have shape {shape}")
        return w.expand(shape)

    def asking(self, query: Any, x: Tensor) -> Tensor:
        """Queries, (..., m, d)."""
        queries = as_tensor("query", query, self.like)
        queries = (
            queries.unsqueeze(0) if queries.shape == x.shape[-1:] and x.dim() == 2 else queries
        )
        good = queries.dim() == x.dim() and queries.shape[:-2] == x.shape[:-2]
        if not (good and queries.shape[-1] == x.shape[-1] and queries.shape[-2] >= 1):
            raise InvalidParameter(
                "query", tuple(queries.shape), f"have shape {(*x.shape[:-2], 'm', x.shape[-1])}"
            )
        return queries

    def block(self, x: Tensor, y: Tensor, start: Tensor) -> Block:
        """x_1 .. x_n, then w_0."""
        pad = torch.nn.functional.pad
        chain = torch.cat([torch.zeros_like(x), start.unsqueeze(-2)], dim=-2)
        one = pad(torch.zeros_like(x[..., 0]), (0, 1), value=1.0)
        return make_block(
            {"x": pad(x, (0, 0, 0, 1)), "y": pad(y[..., 0], (0, 1)), "w": chain, "one": one}
        )

    def decode(self, live: Mapping[Address, Block]) -> Tensor:
        """w of the newest token."""
        w = live[PROMPT].value("w")
        assert isinstance(w, Tensor)
        return w[..., -1, :]

    def output_of(self, block: Block) -> Tensor:
        """See Codec."""
        y = block.value("y")
        assert isinstance(y, Tensor)
        return y.unsqueeze(-1)

    def prediction(self, X: Any, weights: Any, *, padded: bool) -> tuple[Session, Address]:
        """See Codec: a chain that starts with the given weights, and tokens that ask."""
        w = as_tensor("weights", weights, self.like)
        d = self.problem.n_features
        if w.dim() not in (1, 2) or w.shape[-1] != d:
            raise InvalidParameter("weights", tuple(w.shape), f"have shape ({d},) or (b, {d})")
        none = w.new_zeros(*w.shape[:-1], 0, d)
        asking = self.asking(X, none)
        prompt = {PROMPT: self.block(none, none[..., :1], w), ASKING: make_block({"x": asking})}
        session = Session(
            prompt=prompt,
            arrivals=lambda executor: iter([{}]),
            n_rounds=1,
            batched=w.dim() == 2,
            n_problems=w.shape[0] if w.dim() == 2 else 1,
            structured_flops_per_round=4 * asking.shape[-2] * (2 * d + 2),
            wanted={},
            decode=self.decode,
            n_columns=1 + asking.shape[-2],
        )
        return session, PREDICTED

    def join(self, outputs: list[Tensor], session: Session) -> Tensor:
        """See Codec: one round answers all rows; the first token is the chain's."""
        return outputs[0][..., 1:, :]

    def is_plain(self) -> bool:
        """See Codec."""
        return True

    def problems(self, X: Any, Y: Any, init: Any) -> list[tuple[Tensor, Tensor, Any]]:
        """See Codec."""
        x, y = checked_pairs(self.problem, X, Y, self.like)
        start = self.start(init, x)
        if x.dim() == 2:
            return [(x, y[..., 0], start)]
        return list(zip(x, y[..., 0], start, strict=True))
