"""Prompts of Newton's method: data to tokens, checked for what the iteration needs, and back."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.checked_data import as_tensor
from icgd.mechanisms.loops.common.codec import STATE, LoopCodec, checked_pairs
from icgd.mechanisms.loops.common.parts import binary_codes
from icgd.mechanisms.loops.newton.layers import NewtonOptions
from icgd.mechanisms.loops.regression.shared_layers import check_gates
from icgd.mechanisms.step_size import refuse_underflow
from icgd.problems.regression import LinearRegression
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.program.session import Session

SLACK = 1e-6
"""Norms may pass their bound by so much: what is bounded is rounded, too."""
EDGE = 1e-9
"""alpha |S|^2 closer to 2 than this counts as 2."""
WORST = 1e-2
"""A run whose relative error may pass this is warned about."""


class NewtonCodec(LoopCodec):
    """x_1 y_1 .. x_N y_N, queries, ANS.

    unit  relative error of one step on well-conditioned data, what condition numbers multiply
    """

    def __init__(
        self,
        problem: LinearRegression,
        options: NewtonOptions,
        unit: float,
        like: Sequence[Tensor],
        step: Stack,
    ) -> None:
        super().__init__(like, step)
        self.problem, self.options, self.unit = problem, options, unit

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
        session = super().session(
            X, Y, init=init, epochs=epochs, steps=steps, padded=padded, query=query
        )
        # All tokens between the examples and ANS ask.
        return replace(session, answers=session.n_columns - 2 * self.problem.n_examples - 1)

    def prompt(self, X: Any, Y: Any, query: Any) -> tuple[Block, int, tuple[int, ...]]:
        """See LoopCodec."""
        x, y = checked_pairs(self.problem, X, Y, self.like)
        queries = self.queries(x, query)
        self.check(x, queries)
        return self.tokens(x, y, queries)

    def queries(self, x: Tensor, query: Any) -> Tensor:
        """Queries (..., m, d); m = 0 if there are none."""
        if query is None:
            return x[..., :0, :]
        queries = as_tensor("query", query, self.like)
        d = self.problem.n_features
        queries = queries.unsqueeze(0) if queries.dim() == 1 and queries.shape == (d,) else queries
        good = queries.dim() == x.dim() and queries.shape[-1] == d and queries.shape[-2] >= 1
        if not good or queries.shape[:-2] != x.shape[:-2]:
            raise InvalidParameter(
                "query", tuple(queries.shape), f"have shape {(*x.shape[:-2], 'm', d)}"
            )
        return queries

    def tokens(self, x: Tensor, y: Tensor, queries: Tensor) -> tuple[Block, int, tuple[int, ...]]:
        """The prompt of checked data."""
        p, batch, m = self.problem, tuple(x.shape[:-2]), queries.shape[-2]
        pairs, n = 2 * p.n_examples, 2 * p.n_examples + m + 1
        codes = binary_codes(p.n_examples + 1).to(self.like)
        codes = torch.cat([codes[:-1].repeat_interleave(2, dim=0), codes[-1:].expand(m + 1, -1)])
        inputs = self.like.new_zeros(*batch, n, p.n_features)
        inputs[..., 0:pairs:2, :], inputs[..., pairs : n - 1, :] = x, queries
        labels = self.like.new_zeros(*batch, n, p.n_outputs)
        labels[..., 1:pairs:2, :] = y
        names = ("is_train", "is_y", "is_test", "is_answer")
        marks = {name: self.like.new_zeros(n) for name in names}
        marks["is_train"][0:pairs:2], marks["is_y"][1:pairs:2] = 1.0, 1.0
        marks["is_test"][pairs : n - 1] = 1.0
        marks["is_answer"][-1], marks["is_y"][-1] = 1.0, 1.0
        values: dict[str, Tensor | float] = {
            "x": inputs,
            "y": labels,
            "code": codes.expand(*batch, *codes.shape),
            **{name: mark.expand(*batch, n) for name, mark in marks.items()},
        }
        return make_block(values), n, batch

    def check(self, x: Tensor, queries: Tensor) -> None:
        """What the iteration needs of the data: range, rank, alpha, and a condition number to live with."""
        o, values = self.options, torch.linalg.svdvals(x.double())
        largest = max(float(part.norm(dim=-1).max()) for part in (x, queries) if part.numel())
        if largest > (1 + SLACK) * o.x_reach:
            raise AssumptionViolated(
                f"|x| reaches {largest:.6g}, and the program was compiled for |x| <= {o.x_reach:.6g}. Compile "
                f"with icgd.LinearRegression(..., x_radius={1.01 * largest:.3g}), or scale the data down."
            )
        refuse_underflow(x, "Newton's iteration")
        top, low = values[..., 0], values[..., -1]
        cut = max(x.shape[-2:]) * torch.finfo(x.dtype).eps
        if bool((low <= cut * top).any()):
            size = min(x.shape[-2:])
            rank = int((values > cut * top.unsqueeze(-1)).sum(dim=-1).min())
            raise AssumptionViolated(
                f"X has rank {rank} where min(n, d) = {size}: outside its row space errors of M_k double at "
                "every step of Newton's iteration. Remove collinear columns (or repeated rows if n < d), or "
                "use icgd.GD."
            )
        reach = o.alpha * float(top.max()) ** 4
        if reach >= 2 - EDGE:
            raise AssumptionViolated(
                f"alpha |S|^2 = {reach:.6g} for alpha = {o.alpha:.6g} and |S| = {float(top.max()) ** 2:.6g}: "
                f"Newton's iteration converges only below 2. Compile with icgd.Newton(alpha) and alpha < "
                f"{2 / float(top.max()) ** 4:.6g}, or with alpha='auto' and x_radius >= {largest:.4g}."
            )
        check_gates("M_0 x", o.alpha * (x @ (x.mT @ x)))
        self._check_condition(float((top / low).max()) ** 2)
        self._check_leverage(x, queries)

    def _check_condition(self, kappa: float) -> None:
        if kappa * self.unit > WORST:
            warnings.warn(
                f"X^T X has condition number {kappa:.3g}, which multiplies errors: in mode "
                f"{self.options.products.mode!r} and {self.like.dtype} weights may be off by a relative "
                f"{min(1.0, kappa * self.unit):.1g}. Use mode='spectral' in float64, or decorrelate columns.",
                UserWarning,
                stacklevel=7,
            )

    def _check_leverage(self, x: Tensor, queries: Tensor) -> None:
        """<x, S^+ x_j> is what the answering product reads in the end; M_k only shrinks it."""
        if not queries.numel():
            return
        leverage = float((queries.double() @ torch.linalg.pinv(x.double())).abs().max())
        if leverage > self.options.leverage:
            raise AssumptionViolated(
                f"For a query x, |<x, S^-1 x_j>| reaches {leverage:.4g}, and the answering product is made for "
                f"<= {self.options.leverage:g} (mode {self.options.products.mode!r}). Ask for a shorter vector "
                "(predictions are linear in it), use mode='spectral', or give more examples."
            )

    def columns(self, live: Mapping[Address, Block]) -> Tensor:
        """M_k x_i of every example, (..., N, d)."""
        return _slot(live[STATE], "u")[..., 0 : 2 * self.problem.n_examples : 2, :]

    def decode(self, live: Mapping[Address, Block]) -> Tensor:
        """w_k = M_k X^T y = sum_i (M_k x_i) y_i; (..., d), or (..., k, d) for k outputs."""
        labels = _slot(live[STATE], "y")[..., 1 : 2 * self.problem.n_examples : 2, :]
        columns = self.columns(live)
        if not bool(columns.isfinite().all()):
            raise AssumptionViolated(
                "M_k x overflowed: the state holds infinity or NaN. Run fewer steps, or a smaller alpha."
            )
        weights = labels.mT @ columns
        return weights[..., 0, :] if self.problem.n_outputs == 1 else weights

    def output_of(self, block: Block) -> Tensor:
        """See Codec: without ANS, which stands last and asks nothing."""
        return _slot(block, "o")[..., :-1, :]


def unit_error(options: NewtonOptions, sup_error: float, n_examples: int) -> float:
    """Relative error of sum_j u_j s_j: every s_j has one of its own, of either sign.

    A spectral head reads every number to full relative precision, better than its certificate.
    """
    eps = torch.finfo(options.products.dtype).eps
    return math.sqrt(n_examples) * (16 * eps if options.spectral else sup_error)


def _slot(block: Block, name: str) -> Tensor:
    value = block.value(name)
    assert isinstance(value, Tensor)
    return value
