"""Layers that looped regressions share once every token holds h, k and r."""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.loops.common.parts import GATE_BOUND, SHARP, hard_head
from icgd.mechanisms.loops.regression.layers import LoopOptions
from icgd.problems import GD, LinearRegression
from icgd.transformer.gadgets.heads.bilinear import Bilinear, bilinear_layer
from icgd.transformer.layout import Layout
from icgd.transformer.nn.stack.softmax_sublayer import Rows, SoftmaxSublayer
from icgd.transformer.nn.stack.stack import Sublayer


def descent_layer(layout: Layout, options: LoopOptions, features: str, one: Rows) -> Sublayer:
    """r_i <- r_i - lr sum_s r_s <k_s, h_i>: one step of gradient descent on A, seen at every token.

    Statement: [ALGO] Lemma A.2

    features  the slot that holds h, as wide as k or wider

    Differs from the paper: weight -lr/c where it adds +c times the gradient; the token that asks is masked.
    """
    pick = torch.eye(layout["k"].size, layout[features].size, dtype=torch.float64)
    # k is 0 where the question stands, but r is not: in the linear range its weight must vanish too, or
    # rounding adds a part of the answer to itself at every step.
    mask: tuple[Rows, Rows] = (one, [("is_last", -2 * SHARP)])
    product = Bilinear(
        [[(features, pick)]],
        [[("k", 1.0)]],
        [("r", 1.0)],
        "r",
        -options.lr,
        options.bound,
        one=one,
        sink="is_answer",
        fixed=[mask],
    )
    return bilinear_layer(layout, product, options.scaled)


def answer_layer(layout: Layout, one: Rows, dtype: torch.dtype) -> SoftmaxSublayer:
    """ANS attends to the last token before it and adds its r to `out`; others attend to ANS, where r = 0."""
    head = hard_head(
        layout,
        [[("is_answer", 2 * SHARP)], [(slot, SHARP * float(f)) for slot, f in one]],
        [[("is_last", 1.0)], [("is_answer", 1.0)]],
        [("r", 1.0)],
        "out",
        dtype,
    )
    return SoftmaxSublayer({"answer": head})


def check_linear(problem: object) -> None:
    """Decoders, Newton's method and linear attention know no representation."""
    if not isinstance(problem, LinearRegression):
        raise InvalidParameter(
            "problem",
            type(problem).__name__,
            "be an icgd.LinearRegression for causal=True, attention='linear', icgd.Newton or "
            "icgd.PreconditionedGD",
        )


def step_size(optimizer: object, radius: float, what: str) -> float:
    """lr of plain gradient descent; "auto" is 1 / radius^2, which no data within the radius makes diverge."""
    if not isinstance(optimizer, GD) or optimizer.box is not None:
        raise InvalidParameter(
            "optimizer", repr(optimizer), f"be icgd.GD(lr) without a box for {what}"
        )
    return 1 / radius**2 if optimizer.lr == "auto" else float(optimizer.lr)


def check_gates(name: str, *gated: Tensor) -> None:
    """Numbers that pass a gate must be smaller than what closes it."""
    largest = max(float(part.abs().max()) for part in gated)
    if not largest <= GATE_BOUND:  # also true for NaN
        raise AssumptionViolated(
            f"{name} reaches {largest:.3g}, and gates are exact up to {GATE_BOUND:g}. Scale the data down; a "
            "series with an unstable A explodes."
        )
