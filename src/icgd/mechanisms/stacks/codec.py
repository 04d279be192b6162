"""Data and weights to the tokens of a stack, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import InvalidParameter
from icgd.mechanisms.checked_data import (
    check_rows,
    checked_examples,
    checked_weights,
    matching_weights,
    split_problems,
)
from icgd.problems import NetworkSpec, Weights
from icgd.problems.targets import check_targets
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.program.session import Session
from icgd.transformer.runtime.executors.chain import StructuredExecutor

STATE: Address = ("H", 0)
PREDICTED: Address = ("P", 0)


class StackCodec:
    """One token per example, each holding the example and all weights; the state is one block.

    Statement: [DEEP] Problem 2
    Statement: [DEEP] Problem 1

    n_examples  rows the program was compiled for, beside one token that asks; None: any number
    output      slot that holds the network's output after the read-out layers
    stacks      (step, readout), to count their operations

    Differs from the paper: the initial weights are given, because w = 0 does not train (docs/errata).
    """

    def __init__(
        self,
        spec: NetworkSpec,
        like: Sequence[Tensor],
        *,
        gate: float,
        target_radius: float,
        box: float | None,
        n_examples: int | None,
        output: str,
        stacks: tuple[Stack, Stack],
    ) -> None:
        self.spec, self._like = spec, like
        self.gate, self.target_radius, self.box = gate, target_radius, box
        self.n_examples, self.output = n_examples, output
        self._step, self._readout = stacks

    @property
    def like(self) -> Tensor:
        """A tensor with the program's dtype and device."""
        return self._like[0]

    def session(
        self,
        X: Any,
        Y: Any,
        *,
        init: Any,
        epochs: int | None = None,
        steps: int | None = None,
        padded: bool,
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
        (x, y), weights = self._checked(X, Y), init
        weights = checked_weights(self.spec, "init", weights, x.shape[:-2], self.like)
        self._check_box(weights)
        train = torch.ones_like(x[..., 0])
        if self.n_examples is not None:
            x, y, train = self._with_query(x, y, train, query)
        elif query is not None:
            raise InvalidParameter(
                "query",
                type(query).__name__,
                "be left out: this program's prompt has no room for one",
                remedy="Compile with n_examples=<rows>, or predict with run.predict(X_new).",
            )
        prompt = {STATE: self._block(x, y, weights, train)}
        answers = 0 if self.n_examples is None or query is None else 1
        return self._session(prompt, x, n_rounds, self._step, answers)

    def prediction(self, X: Any, weights: Any, *, padded: bool) -> tuple[Session, Address]:
        """See Codec."""
        x = checked_examples("X", X, self.spec.widths[0], self.like, self.gate)
        x, checked = matching_weights(self.spec, x, weights, self.like)
        block = self._block(x, None, checked, torch.zeros_like(x[..., 0]))
        return self._session({STATE: block}, x, 1, self._readout, 0), PREDICTED

    def output_of(self, block: Block) -> Tensor:
        """See Codec."""
        out = block.value(self.output)
        assert isinstance(out, Tensor)
        return out

    def join(self, outputs: list[Tensor], session: Session) -> Tensor:
        """See Codec: one round answers all rows."""
        return outputs[0]

    def is_plain(self) -> bool:
        """See Codec."""
        return True

    def problems(self, X: Any, Y: Any, init: Any) -> list[tuple[Tensor, Tensor, Weights]]:
        """See Codec."""
        x, y = self._checked(X, Y)
        weights = checked_weights(self.spec, "init", init, x.shape[:-2], self.like)
        return split_problems(x, y, weights)

    # -- checks -----------------------------------------------------------------------------------

    def _checked(self, X: Any, Y: Any) -> tuple[Tensor, Tensor]:
        x = checked_examples("X", X, self.spec.widths[0], self.like, self.gate)
        width = self.spec.widths[-1]
        y = checked_examples("Y", Y, width, self.like, self.target_radius, "target_radius")
        check_rows(x, y)
        check_targets(self.spec.loss, y, "Y")
        n = self.n_examples
        if n is not None and x.shape[-2] != n:
            raise InvalidParameter(
                "X",
                tuple(x.shape),
                f"have the {n} rows the program was compiled for",
                remedy="Compile with n_examples=None for any number of rows.",
            )
        return x, y

    def _check_box(self, weights: Weights) -> None:
        if self.box is None:
            return
        for i, pair in enumerate(weights):
            for part in pair:
                # The projection of a weight far outside may end a rounding outside; a run must go on.
                room = self.box * (1 + 4096 * torch.finfo(self.like.dtype).eps)
                if part is not None and float(part.abs().max()) > room:
                    raise InvalidParameter(
                        f"init[{i}]",
                        float(part.abs().max()),
                        f"lie in the box [-{self.box:g}, {self.box:g}]",
                        remedy="Scale the initial weights, or use GD(lr, box=...) with a larger box.",
                    )

    def _with_query(
        self, x: Tensor, y: Tensor, train: Tensor, query: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The prompt with the token that asks behind the examples: y = 0, t = 0."""
        question = torch.zeros_like(x[..., :1, :])
        if query is not None:
            question = checked_examples("query", query, self.spec.widths[0], self.like, self.gate)
            if question.shape != (*x.shape[:-2], 1, x.shape[-1]):
                raise InvalidParameter(
                    "query",
                    tuple(question.shape),
                    f"be one row, shape {(*x.shape[:-2], 1, x.shape[-1])}",
                    remedy="Predict more rows with run.predict(X_new).",
                )
        nothing = torch.zeros_like(y[..., :1, :])
        return (
            torch.cat([x, question], dim=-2),
            torch.cat([y, nothing], dim=-2),
            torch.cat([train, torch.zeros_like(train[..., :1])], dim=-1),
        )

    # -- blocks -----------------------------------------------------------------------------------

    def _block(self, x: Tensor, y: Tensor | None, weights: Weights, train: Tensor) -> Block:
        values: dict[str, Tensor | float] = {"x": x, "one": 1.0, "train": train}
        if y is not None:
            values["y"] = y
        for j, (W, b) in enumerate(weights, 1):
            values[f"weight{j}"] = W
            if b is not None:
                values[f"bias{j}"] = b
        return make_block(values)

    def _session(
        self, prompt: dict[Address, Block], x: Tensor, n_rounds: int, stack: Stack, answers: int
    ) -> Session:
        def arrivals(executor: StructuredExecutor | None) -> Iterator[Mapping[Address, Block]]:
            for _ in range(n_rounds):
                yield {}

        n = x.shape[-2]
        return Session(
            prompt=prompt,
            arrivals=arrivals,
            n_rounds=n_rounds,
            batched=x.dim() == 3,
            n_problems=x.shape[0] if x.dim() == 3 else 1,
            structured_flops_per_round=sum(c.sparse_flops(n) for c in stack.counts()),
            wanted={},
            decode=self._decode,
            n_columns=n,
            answers=answers,
        )

    def _decode(self, live: Mapping[Address, Block]) -> Weights:
        block, weights = live[STATE], Weights()
        for j in range(1, self.spec.n_layers + 1):
            W, b = block.value(f"weight{j}"), None
            if self.spec.bias:
                b = block.value(f"bias{j}")
            assert isinstance(W, Tensor)
            assert not isinstance(b, float)
            weights.append((W, b))
        return weights
