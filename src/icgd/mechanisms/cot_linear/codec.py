"""Examples and weights of a linear model to blocks of the prompt, and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.checked_data import as_tensor, refuse_query
from icgd.mechanisms.cot_linear.layer import LinearHeadOptions, Tables
from icgd.problems import LinearModelSpec
from icgd.problems.targets import check_targets
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.mask_rules import Address
from icgd.transformer.program.session import Session
from icgd.transformer.runtime.executors.chain import StructuredExecutor

BLOCK: Address = ("G", 0)
PREDICTED: Address = ("P", 0)


class LinearModelCodec:
    """One block of n tokens for a linear model; w (and b, its last entry) from the last block.

    Statement: [COT] Definition 3.1

    Differs from the paper: the weights stand once in a block, not once in every token, as long as the
    structured executor runs; the literal form has them in every token.
    """

    def __init__(
        self,
        spec: LinearModelSpec,
        options: LinearHeadOptions,
        tables: Tables,
        like: Sequence[Tensor],
    ) -> None:
        self.spec, self.options = spec, options
        # The heads as compiled and certified; an altered program may hold others.
        self.tables = tables
        self.target_radius = options.target_radius
        # A one-element list holding a live parameter: it follows the program to other devices.
        self._like = like

    @property
    def like(self) -> Tensor:
        """A tensor with the program's dtype and device."""
        return self._like[0]

    @property
    def n_weights(self) -> int:
        """Entries of the weight vector, the intercept included."""
        return self.spec.n_features + self.spec.intercept

    def is_plain(self) -> bool:
        """Nothing in the prompt can be altered."""
        return True

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
        refuse_query(query)
        if epochs is not None:
            raise InvalidParameter(
                "epochs",
                epochs,
                "be left out for GD, which sees every row in every round",
                remedy="Use steps=...",
            )
        x, y = self.checked(X, Y)
        n_steps = whole_number("steps", steps)
        w = self._weights("init", init, x.shape[:-2])
        return self._session({BLOCK: self._block(x, y, w)}, x, n_steps, predict=False)

    def prediction(self, X: Any, weights: Any, *, padded: bool) -> tuple[Session, Address]:
        """See Codec."""
        x = self._features(X)
        w = self._weights("weights", weights, None)
        if w.dim() == 2 and x.dim() == 2:
            x = x.expand(w.shape[0], *x.shape)  # the same rows for every problem
        if x.dim() == 3:
            if w.dim() == 1 or w.shape[0] != x.shape[0]:
                raise InvalidParameter(
                    "X", tuple(x.shape), f"have one batch entry per problem, {tuple(w.shape[:-1])}"
                )
            w = w.unsqueeze(1)
        # One block of one token per row: the prediction for a row depends on no other.
        rows = x.reshape(-1, 1, self.spec.n_features)
        w = w.expand(*x.shape[:-1], self.n_weights).reshape(-1, self.n_weights)
        block = self._block(rows, None, w)
        session = self._session({BLOCK: block}, rows, 1, predict=True)
        return replace(session, rows=tuple(x.shape[:-1])), PREDICTED

    def output_of(self, block: Block) -> Tensor:
        """See Codec."""
        value = block.value("positive" if self.spec.loss.form == "margin" else "y")
        if not isinstance(value, Tensor):
            return self.like.new_full((), float(value))
        return value.reshape(-1)

    def join(self, outputs: list[Tensor], session: Session) -> Tensor:
        """See Codec: one round answers all rows; a block may know that its answers are all the same."""
        (flat,) = outputs
        return flat.expand(math.prod(session.rows)).reshape(session.rows)

    def problems(self, X: Any, Y: Any, init: Any) -> list[tuple[Tensor, Tensor, Tensor]]:
        """The independent problems in checked data, one (X, y, w) each."""
        x, y = self.checked(X, Y)
        w = self._weights("init", init, x.shape[:-2])
        if x.dim() == 2:
            return [(x, y, w)]
        return [(x[i], y[i], w[i]) for i in range(x.shape[0])]

    # -- checks -----------------------------------------------------------------------------------

    def checked(self, X: Any, Y: Any) -> tuple[Tensor, Tensor]:
        """Examples as tensors (..., n, d) and (..., n), or a clear complaint."""
        x, y = self._features(X), as_tensor("y", Y, self.like)
        if y.shape == (*x.shape[:-1], 1):
            y = y.squeeze(-1)
        if y.shape != x.shape[:-1]:
            raise InvalidParameter(
                "y", tuple(y.shape), f"have one entry per row of X, shape {tuple(x.shape[:-1])}"
            )
        self._check_targets(y)
        return x, y

    def _features(self, X: Any) -> Tensor:
        d = self.spec.n_features
        x = as_tensor("X", X, self.like)
        if x.dim() not in (2, 3) or x.shape[-1] != d:
            raise InvalidParameter("X", tuple(x.shape), f"have shape (n, {d}) or (b, n, {d})")
        if x.numel() == 0:
            raise InvalidParameter("X", tuple(x.shape), "hold at least one example")
        bound = self.spec.x_radius
        if bound is not None:
            largest = float(x.norm(dim=-1).max())
            if largest > bound * (1 + 1e-12):
                raise AssumptionViolated(
                    f"An example has |x| = {largest:.6g}, above the x_radius {bound:g} the step size was "
                    f"chosen for. Scale the data or build the problem with x_radius >= {largest:.6g}."
                )
        return x

    def _check_targets(self, y: Tensor) -> None:
        loss = self.spec.loss
        check_targets(loss, y)
        largest = float(y.abs().max())
        if loss.form in ("link", "joint") and largest > self.target_radius:
            raise AssumptionViolated(
                f"`y` holds a value of size {largest:.6g}, outside the range [-{self.target_radius:g}, "
                f"{self.target_radius:g}] its head is certified for. Compile with target_radius >= "
                f"{largest:.6g}."
            )

    def _weights(self, name: str, value: Any, batch: Sequence[int] | None) -> Tensor:
        if value is None:
            return self.like.new_zeros(*(batch or ()), self.n_weights)
        w = as_tensor(name, value, self.like)
        d = self.n_weights
        shape = "(d,) or (b, d)" if batch is None else str((*batch, d))
        if (
            w.shape[-1:] != (d,)
            or w.dim() > 2
            or (batch is not None and w.shape[:-1] != tuple(batch))
        ):
            what = f"have shape {shape} with d = {d}" + (
                ", the intercept last" if self.spec.intercept else ""
            )
            raise InvalidParameter(name, tuple(w.shape), what)
        # A copy: the caller's tensor must never change.
        return w.clone()

    # -- blocks -----------------------------------------------------------------------------------

    def _block(self, x: Tensor, y: Tensor | None, w: Tensor) -> Block:
        d = self.spec.n_features
        values: dict[str, Tensor | float] = {"x": x, "weight": w[..., :d], "one": 1.0}
        if self.spec.intercept:
            values["bias"] = w[..., d]
        if y is not None and self.spec.loss.form == "margin":
            values |= {"positive": (y > 0).to(y), "negative": (y < 0).to(y)}
        elif y is not None:
            values["y"] = y
        return make_block(values)

    def _session(
        self, prompt: dict[Address, Block], x: Tensor, n_rounds: int, *, predict: bool
    ) -> Session:
        def arrivals(executor: StructuredExecutor | None) -> Iterator[Mapping[Address, Block]]:
            for _ in range(n_rounds):
                yield {}

        slots = (
            {"y", "positive"} if predict else {"x", "y", "positive", "negative", "weight", "bias"}
        )
        n, d = x.shape[-2], self.spec.n_features
        return Session(
            prompt=prompt,
            arrivals=arrivals,
            n_rounds=n_rounds,
            batched=x.dim() == 3,
            n_problems=x.shape[0] if x.dim() == 3 else 1,
            structured_flops_per_round=2 * n * (2 * d + 2 * self.tables.slope.n_tokens),
            wanted={(PREDICTED if predict else BLOCK): frozenset(slots)},
            decode=self._decode,
            n_columns=n,
        )

    def _decode(self, live: Mapping[Address, Block]) -> Tensor:
        block = live[BLOCK]
        w = block.value("weight")
        if not isinstance(w, Tensor):
            w = self.like.new_full((self.spec.n_features,), float(w))
        if not self.spec.intercept:
            return w
        b = block.value("bias")
        b = b if isinstance(b, Tensor) else self.like.new_full(w.shape[:-1], float(b))
        return torch.cat([w, b.unsqueeze(-1)], dim=-1)
