"""What the compilers of stacks may be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class _FittedRanges:
    """What both stacks fit, and where; None: chosen by the compiler."""

    n_relu: int | None = None
    radius: float | None = None
    signal_radius: float | None = None
    target_radius: float | None = None
    n_examples: int | None = None


@dataclass(frozen=True, kw_only=True)
class BackwardStackOptions(_FittedRanges):
    """Options of method="stack"; None: chosen by the compiler.

    n_relu         units of every fitted function (256); exact functions (ReLU, squares) need one or two
    radius         range of pre-activations in which fits are certified: 32 with adaptive knots and a loss that
                   is exact or logistic, which standardised data keep to; else 8
    signal_radius  range of signals, where those are fitted
    target_radius  range of targets, where the loss is fitted
    n_examples     the prompt's rows beside one token that asks (`run(..., query=x)`), as the papers have it;
                   unless given any number of rows, and none that asks
    knots          "adaptive" (denser where the function bends) or "uniform"
    products       "exact" (multiplication layers) or "attention" (3N+4 plain layers)
    ramp           width of the ramp that stands for a ReLU's step, a power of two (2^-20); narrower is rarer to
                   meet, and rounds more where tokens are summed literally
    """

    knots: Literal["uniform", "adaptive"] | None = None
    products: Literal["exact", "attention"] | None = None
    ramp: float | None = None


@dataclass(frozen=True, kw_only=True)
class ForwardModeOptions(_FittedRanges):
    """Options of method="forward_mode"; None: chosen by the compiler.

    n_relu         units of every fitted function (200)
    radius         range of pre-activations in which fits are certified (8)
    signal_radius  range of derivatives, where those are fitted
    target_radius  range of targets, where the loss is fitted
    n_examples     the prompt's rows beside one token that asks; unless given any number of rows
    attention      heads: "relu" (for ReLU networks), "tanh" or "sigmoid"
    """

    attention: Literal["relu", "tanh", "sigmoid"] | None = None
