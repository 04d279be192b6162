"""Prompts of the decoder: data to tokens, and the weights of every prefix back."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.loops.common.codec import STATE, LoopCodec, checked_pairs
from icgd.mechanisms.loops.common.parts import binary_codes
from icgd.mechanisms.loops.decoder.layers import DecoderSizes, positional
from icgd.mechanisms.step_size import check_not_overflown
from icgd.problems.regression import LinearRegression
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.program.session import Session

SLACK = 1e-6
"""Norms may pass their bound by so much: what is bounded is rounded, too."""


class DecoderCodec(LoopCodec):
    """BOS x_1 y_1 .. x_n y_n."""

    def __init__(
        self,
        problem: LinearRegression,
        options: DecoderSizes,
        like: Sequence[Tensor],
        step: Stack,
    ) -> None:
        super().__init__(like, step)
        self.problem, self.options = problem, options

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
        one = self.problem.n_outputs == 1
        return replace(
            session,
            answers=self.problem.n_examples,
            shaped=(lambda answers: answers[..., 0]) if one else None,
        )

    def prompt(self, X: Any, Y: Any, query: Any) -> tuple[Block, int, tuple[int, ...]]:
        """See LoopCodec."""
        if query is not None:
            raise InvalidParameter(
                "query",
                type(query).__name__,
                "be left out: a decoder answers every x_i of its prompt",
                remedy="Put the new example last, with any target, and read run.prediction[-1].",
            )
        x, y = checked_pairs(self.problem, X, Y, self.like)
        self.check(x, y)
        return self.tokens(x, y)

    def tokens(self, x: Tensor, y: Tensor) -> tuple[Block, int, tuple[int, ...]]:
        """The prompt of checked data."""
        p, batch = self.problem, tuple(x.shape[:-2])
        n = 2 * p.n_examples + 1
        codes = binary_codes(p.n_examples).to(self.like).repeat_interleave(2, dim=0)
        codes = torch.cat([torch.zeros_like(codes[:1]), codes])
        inputs = self.like.new_zeros(*batch, n, p.n_features)
        labels = self.like.new_zeros(*batch, n, p.n_outputs)
        inputs[..., 1::2, :], labels[..., 2::2, :] = x, y
        spectral = self.options.spectral
        names = ("is_x", "is_y", "is_bos", "log_others" if spectral else "log_count")
        marks = {name: self.like.new_zeros(n) for name in names}
        marks["is_x"][1::2], marks["is_y"][2::2], marks["is_bos"][0] = 1.0, 1.0, 1.0
        marks[names[-1]][1::2] = self.like.new_tensor(positional(p.n_examples, spectral))
        values: dict[str, Tensor | float] = {
            "x": inputs,
            "y": labels,
            "code": codes.expand(*batch, *codes.shape),
            **{name: mark.expand(*batch, n) for name, mark in marks.items()},
        }
        return make_block(values), n, batch

    def check(self, x: Tensor, y: Tensor) -> None:
        """Ranges, and a step size that suits every prefix."""
        o = self.options
        size, target = float(x.norm(dim=-1).max()), float(y.abs().max())
        if size > (1 + SLACK) * o.radius:
            raise AssumptionViolated(
                f"|x| reaches {size:.6g}, and the program was compiled for |x| <= {o.radius:.6g}. Compile with "
                f"icgd.LinearRegression(..., x_radius={1.01 * size:.3g}), or scale the data down."
            )
        if target > o.reach:
            raise AssumptionViolated(
                f"|y| reaches {target:.6g}, and residuals are read up to {o.reach:.6g}. Divide y by "
                f"{target / o.reach:.3g} or more (weights and predictions are linear in y), or compile with "
                "a larger x_radius."
            )
        # Prefix i has the mean of the first i - 1 outer products; y_n is never learnt from.
        curvature = prefix_curvature(x)
        if curvature.numel() and not o.lr * float(curvature.max()) < 2:
            steep = int(curvature.reshape(-1, curvature.shape[-1]).amax(dim=0).argmax()) + 2
            warnings.warn(
                f"lr * lambda_max = {o.lr * float(curvature.max()):.3g} >= 2 for the examples before x_{steep} "
                f"(lr = {o.lr:g}): gradient descent on them does not converge, here or anywhere else. Use lr < "
                f"{2 / float(curvature.max()):.3g}; few examples are steeper than many.",
                UserWarning,
                stacklevel=6,
            )

    def decode(self, live: Mapping[Address, Block]) -> Tensor:
        """w^i of every prefix, (..., n, d), or (..., n, k, d) for k outputs."""
        outputs = [
            _slot(live[STATE], f"w{a}")[..., 1::2, :] for a in range(1, self.problem.n_outputs + 1)
        ]
        weights = outputs[0] if len(outputs) == 1 else torch.stack(outputs, dim=-2)
        check_not_overflown(weights, "The decoder's state")
        return weights

    def output_of(self, block: Block) -> Tensor:
        """See Codec: predictions at x tokens, (..., n, k)."""
        outputs = range(1, self.problem.n_outputs + 1)
        return torch.stack([_slot(block, f"o{a}")[..., 1::2] for a in outputs], dim=-1)


def prefix_curvature(x: Tensor) -> Tensor:
    """The largest eigenvalue of 1/i sum_{j<=i} x_j x_j^T for i = 1 .. n - 1, (..., n - 1).

    >>> prefix_curvature(torch.tensor([[2.0], [0.0], [1.0]])).tolist()
    [4.0, 2.0]
    """
    x = x.double()
    sums = torch.cumsum(x.unsqueeze(-1) * x.unsqueeze(-2), dim=-3)[..., :-1, :, :]
    count = torch.arange(1, x.shape[-2], dtype=x.dtype, device=x.device).reshape(-1, 1, 1)
    return torch.linalg.eigvalsh(sums / count)[..., -1]


def _slot(block: Block, name: str) -> Tensor:
    value = block.value(name)
    assert isinstance(value, Tensor)
    return value
