"""Prompts of looped constructions: data to tokens of one block, and back."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.checked_data import as_tensor
from icgd.mechanisms.loops.common.parts import binary_codes
from icgd.mechanisms.step_size import (
    check_not_overflown,
    refuse_underflow,
    warn_if_diverging,
)
from icgd.problems.regression import RepresentationRegression
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.program.session import Session
from icgd.transformer.runtime.executors.chain import StructuredExecutor

STATE: Address = ("H", 0)
PREDICTED: Address = ("P", 0)


def checked_pairs(
    problem: RepresentationRegression, X: Any, Y: Any, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Data of a regression problem, (..., N, d) and (..., N, k), or a clear complaint."""
    p = problem
    x, y = as_tensor("X", X, like), as_tensor("y", Y, like)
    if x.dim() not in (2, 3) or x.shape[-2:] != (p.n_examples, p.n_features):
        raise InvalidParameter(
            "X", tuple(x.shape), f"have shape ({p.n_examples}, {p.n_features}), as compiled"
        )
    if p.n_outputs == 1 and y.shape == x.shape[:-1]:
        y = y.unsqueeze(-1)
    if y.shape != (*x.shape[:-1], p.n_outputs):
        raise InvalidParameter("y", tuple(y.shape), f"have shape {(*x.shape[:-1], p.n_outputs)}")
    return x, y


class LoopCodec(ABC):
    """What looped constructions have in common: one block, replaced at every step.

    ahead  rounds before the first step
    """

    ahead = 0

    def __init__(self, like: Sequence[Tensor], step: Stack) -> None:
        self._like, self._step = like, step

    @property
    def like(self) -> Tensor:
        """A tensor with the program's dtype and device."""
        return self._like[0]

    @abstractmethod
    def prompt(self, X: Any, Y: Any, query: Any) -> tuple[Block, int, tuple[int, ...]]:
        """The first block, its number of tokens, and the shape of the batch of prompts."""

    @abstractmethod
    def decode(self, live: Mapping[Address, Block]) -> Any:
        """The trained weights held by the state."""

    @abstractmethod
    def output_of(self, block: Block) -> Tensor:
        """See Codec."""

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
        for name, value in (("init", init), ("epochs", epochs)):
            if value is not None:
                raise InvalidParameter(
                    name, value, "be left out: the loop starts at w = 0", remedy="Use steps=..."
                )
        n_rounds = whole_number("steps", steps)
        block, n_tokens, batch = self.prompt(X, Y, query)

        def arrivals(executor: StructuredExecutor | None) -> Iterator[Mapping[Address, Block]]:
            for _ in range(n_rounds):
                yield {}

        return Session(
            prompt={STATE: block},
            arrivals=arrivals,
            n_rounds=n_rounds,
            batched=bool(batch),
            n_problems=batch[0] if batch else 1,
            structured_flops_per_round=sum(c.sparse_flops(n_tokens) for c in self._step.counts()),
            wanted={},
            decode=self.decode,
            n_columns=n_tokens,
            answers=0 if query is None else 1,
        )

    def prediction(self, X: Any, weights: Any, *, padded: bool) -> tuple[Session, Address]:
        """See Codec."""
        raise InvalidParameter(
            "X",
            "new rows",
            "be given as query to run(): the weights of a loop live in its prompt",
            remedy="Use program.run(X, y, steps=..., query=X_new).prediction.",
        )

    def join(self, outputs: list[Tensor], session: Session) -> Tensor:
        """See Codec."""
        return outputs[0]

    def is_plain(self) -> bool:
        """See Codec."""
        return True

    def problems(self, X: Any, Y: Any, init: Any) -> list[tuple[Tensor, Tensor, Any]]:
        """See Codec."""
        return [(as_tensor("X", X, self.like), as_tensor("Y", Y, self.like), init)]


def warn_if_unreadable(phi: Tensor, labels: Tensor, weights: Tensor) -> None:
    """Weights are read off residuals by least squares, which multiplies their rounding by 1 / sigma_min."""
    singular = torch.linalg.svdvals(phi.double())
    cut = max(phi.shape[-2:]) * torch.finfo(phi.dtype).eps
    used = torch.where(singular > cut * singular[..., :1], singular, torch.inf).amin(dim=-1)
    size = labels.double().abs().amax(dim=(-2, -1)) * phi.shape[-2] ** 0.5
    reading = 16 * torch.finfo(phi.dtype).eps * size / used
    largest = weights.double().abs().amax(dim=(-2, -1))
    if bool(((largest > 0) & (reading > 1e-2 * largest)).any()):
        warnings.warn(
            f"Features have singular values down to {float(used.min()):.3g}: run.weights, read off residuals, "
            f"may be off by {float(reading.max()):.1g}. Predictions are not affected. Scale or decorrelate the "
            "columns.",
            UserWarning,
            stacklevel=2,
        )


class RegressionCodec(LoopCodec):
    """x_1 y_1 .. x_N y_N x_test ANS; several queries are several prompts with the same examples.

    lr     step size, to warn of one that diverges on the data
    reach  bound on |phi(x)| for which the products of the loop are certified
    """

    def __init__(
        self,
        problem: RepresentationRegression,
        like: Sequence[Tensor],
        step: Stack,
        *,
        lr: float,
        reach: float,
    ) -> None:
        super().__init__(like, step)
        self.problem, self.lr, self.reach = problem, lr, reach

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
        x, _ = self.examples(X, Y)
        m = session.n_problems // (x.shape[0] if x.dim() == 3 else 1)
        if m == 1:
            return session
        batch, outputs = x.shape[:-2], self.problem.n_outputs

        def decode(live: Mapping[Address, Block]) -> Tensor:
            # All prompts of one problem train alike: the first one will do.
            weights = self.decode(live)
            return weights.reshape(*batch, m, *weights.shape[1:]).select(len(batch), 0)

        return replace(
            session, decode=decode, shaped=lambda answers: answers.reshape(*batch, m, outputs)
        )

    def examples(self, X: Any, Y: Any) -> tuple[Tensor, Tensor]:
        """Checked data, (..., N, d) and (..., N, k)."""
        return checked_pairs(self.problem, X, Y, self.like)

    def check(self, x: Tensor, queries: Tensor) -> None:
        """Representations the products were made for, and a step size that converges."""
        phi = self.problem.phi(x)
        largest = max(float(part.norm(dim=-1).max()) for part in (phi, self.problem.phi(queries)))
        if not largest <= self.reach:
            what = "|phi(x)|" if self.problem.representation else "|x|"
            # Products are certified a little or a lot further than the radius asks for.
            wanted = 1.01 * largest * self.problem.radius / self.reach
            raise AssumptionViolated(
                f"{what} reaches {largest:.6g}, and the program was compiled for {what} <= {self.reach:.6g}. "
                f"Compile the problem with x_radius={wanted:.3g} or more, or scale the data down."
            )
        refuse_underflow(phi, "the looped regression")
        warn_if_diverging(self.lr, phi, "the looped regression", lam=self.problem.lam)

    def queries(self, x: Tensor, y: Tensor, query: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Examples and one query each; a zero query where none is asked."""
        if query is None:
            return x, y, torch.zeros_like(x[..., :1, :])
        queries = as_tensor("query", query, self.like)
        d = self.problem.n_features
        queries = queries.unsqueeze(0) if queries.dim() == 1 and queries.shape == (d,) else queries
        good = queries.dim() == x.dim() and queries.shape[:-2] == x.shape[:-2]
        if not (good and queries.shape[-1] == d and queries.shape[-2] >= 1):
            raise InvalidParameter(
                "query", tuple(queries.shape), f"have shape {(*x.shape[:-2], 'm', d)}"
            )
        n = queries.shape[-2]
        if n == 1:
            return x, y, queries
        # One prompt per query, as the paper has it.
        flat = queries.reshape(-1, 1, d)
        spread = [
            t.unsqueeze(-3).expand(*t.shape[:-2], n, *t.shape[-2:]).reshape(-1, *t.shape[-2:])
            for t in (x, y)
        ]
        return spread[0], spread[1], flat

    def prompt(self, X: Any, Y: Any, query: Any) -> tuple[Block, int, tuple[int, ...]]:
        """See LoopCodec."""
        x, y, queries = self.queries(*self.examples(X, Y), query)
        self.check(x, queries)
        p, batch = self.problem, tuple(x.shape[:-2])
        n = 2 * p.n_examples + 2
        codes = binary_codes(p.n_examples + 1).to(self.like).repeat_interleave(2, dim=0)
        inputs = self.like.new_zeros(*batch, n, p.n_features)
        inputs[..., 0 : n - 2 : 2, :], inputs[..., n - 2 : n - 1, :] = x, queries
        labels = self.like.new_zeros(*batch, n, p.n_outputs)
        labels[..., 1 : n - 1 : 2, :] = y
        marks = {name: self.like.new_zeros(n) for name in ("is_x", "is_y", "is_test", "is_answer")}
        marks["is_x"][0::2], marks["is_y"][1::2] = 1.0, 1.0
        marks["is_test"][-2], marks["is_answer"][-1] = 1.0, 1.0
        width = max(p.n_features, *(W.shape[0] for W, _ in p.representation), 0)
        inputs = torch.nn.functional.pad(inputs, (0, width - p.n_features))
        values: dict[str, Tensor | float] = {
            "h": inputs,
            "y": labels,
            "code": codes.expand(*batch, *codes.shape),
            **{name: mark.expand(*batch, n) for name, mark in marks.items()},
        }
        return make_block(values), n, batch

    def decode(self, live: Mapping[Address, Block]) -> Tensor:
        """A from the residuals: started at 0, it stays in the span of phi(x_i), where they determine it."""
        block, p = live[STATE], self.problem
        h, y, r = (block.value(name) for name in ("h", "y", "r"))
        assert isinstance(h, Tensor)
        assert isinstance(y, Tensor)
        assert isinstance(r, Tensor)
        check_not_overflown(r, "The looped regression")
        train = slice(0, 2 * p.n_examples, 2)
        labels = y[..., 1 : 2 * p.n_examples : 2, :]
        fitted = r[..., train, :] + labels
        phi = h[..., train, : p.n_representation]
        weights = torch.linalg.pinv(phi) @ fitted
        warn_if_unreadable(phi, labels, weights)
        return weights[..., 0] if p.n_outputs == 1 else weights.mT

    def output_of(self, block: Block) -> Tensor:
        """See Codec."""
        out = block.value("y")
        assert isinstance(out, Tensor)
        return out
