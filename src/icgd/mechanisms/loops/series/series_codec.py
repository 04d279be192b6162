"""Prompts of looped autoregression: a series to the tokens of one block, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.mechanisms.checked_data import as_tensor
from icgd.mechanisms.loops.common.codec import STATE, LoopCodec
from icgd.mechanisms.loops.regression.shared_layers import check_gates
from icgd.mechanisms.loops.series.series_layers import lags, series_codes
from icgd.mechanisms.step_size import (
    check_not_overflown,
    refuse_underflow,
    warn_if_diverging,
)
from icgd.problems import Autoregression
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.program.session import Session


def held(block: Block, slot: str) -> Tensor:
    """A slot that every token has to itself."""
    value = block.value(slot)
    assert isinstance(value, Tensor)
    return value


class SeriesCodec(LoopCodec):
    """x_0 .. x_N ANS; the series is its own target, so that every run answers."""

    def __init__(
        self, problem: Autoregression, lr: float, like: Sequence[Tensor], step: Stack
    ) -> None:
        super().__init__(like, step)
        self.problem, self.lr = problem, lr

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
        """See Codec: the token after the series is always asked for."""
        session = super().session(
            X, Y, init=init, epochs=epochs, steps=steps, padded=padded, query=query
        )
        return replace(session, answers=1)

    def series(self, X: Any) -> Tensor:
        """Checked data, (..., N + 1, d)."""
        p, x = self.problem, as_tensor("series", X, self.like)
        if x.dim() == 1 and p.n_features == 1:
            x = x.unsqueeze(-1)
        if x.dim() not in (2, 3) or x.shape[-2:] != (p.n_steps + 1, p.n_features):
            raise InvalidParameter(
                "series",
                tuple(x.shape),
                f"have shape ({p.n_steps + 1}, {p.n_features}), x_0 to x_N as compiled, or a batch of them",
            )
        return x

    def prompt(self, X: Any, Y: Any, query: Any) -> tuple[Block, int, tuple[int, ...]]:
        """See LoopCodec."""
        for name, value in (("Y", Y), ("query", query)):
            if value is not None:
                raise InvalidParameter(
                    name,
                    type(value).__name__,
                    "be None for an Autoregression",
                    remedy="A series is its own target, and x_(N+1) is always predicted: "
                    "program.run(series, None, steps=...).prediction.",
                )
        p, x = self.problem, self.series(X)
        windows = p.windows(x)
        features = p.phi(windows)
        first = windows
        for W, b in p.representation[:1]:
            first = windows @ W.to(x).T + b.to(x)
        check_gates("The series or its representation", x, first, features)
        refuse_underflow(features, "this series")
        warn_if_diverging(self.lr, features[..., :-1, :], "this series")
        batch, n = tuple(x.shape[:-2]), p.n_steps + 2
        t = torch.arange(n, device=x.device)
        flags = {
            "is_train": (t >= p.order - 1) & (t < p.n_steps),
            "is_last": t == p.n_steps,
            "is_early": t < p.order - 1,
            "is_answer": t == p.n_steps + 1,
            **{f"has{i}": (t >= i) & (t <= p.n_steps) for i in lags(p.order)},
        }
        codes = series_codes(p).codes.to(x)
        values: dict[str, Tensor | float] = {
            "x": torch.nn.functional.pad(x, (0, 0, 0, 1)),
            "code": codes.expand(*batch, *codes.shape),
            **{name: flag.to(x).expand(*batch, n) for name, flag in flags.items()},
        }
        return make_block(values), n, batch

    def decode(self, live: Mapping[Address, Block]) -> Tensor:
        """A (d, width of phi): it stays in the span of the phi_t, where the residuals determine it."""
        block, p = live[STATE], self.problem
        x, f, r = (held(block, name) for name in ("x", "f", "r"))
        check_not_overflown(r, "The regression")
        start, stop = p.order - 1, p.n_steps
        fitted = r[..., start:stop, :] + x[..., start + 1 : stop + 1, :]
        phi = f[..., start:stop, : p.n_representation]
        return (torch.linalg.pinv(phi) @ fitted).mT

    def output_of(self, block: Block) -> Tensor:
        """See Codec."""
        return held(block, "out")

    def problems(self, X: Any, Y: Any, init: Any) -> list[tuple[Tensor, Tensor, Any]]:
        """See Codec: representations of windows, and what follows them."""
        x = self.series(X)
        features = self.problem.phi(self.problem.windows(x))[..., :-1, :]
        return [(features, x[..., self.problem.order :, :], init)]
