"""Every tape is run once, with heads that make no error, and held against the graph it was selected from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.mechanisms.machine.tape.semantics import ExactHeads, run_tape
from icgd.mechanisms.machine.tape.tape import Tape

ROUNDINGS = {torch.float64: 1e-11, torch.float32: 1e-3}
"""How far results may be apart, relative to the largest entry: both sum in orders of their own."""


def check_tape(
    tape: Tape, inputs: Mapping[str, Tensor], wanted: Mapping[str, Tensor], dtype: torch.dtype
) -> None:
    """Refuse a tape that does not compute what was captured: instructions were selected or fused wrongly."""
    results = run_tape(tape, inputs, ExactHeads(), dtype)
    for name, value in results.items():
        error, size = _distance(value, wanted[name])
        if not error <= ROUNDINGS[dtype] * max(1.0, size):
            raise AssumptionViolated(
                f"The tape gives {name} with an error of {error:.3g}, where its largest entry is {size:.3g}: a "
                "pass of the compiler is wrong. Please report the model; nothing was compiled."
            )


def _distance(value: Tensor, wanted: Tensor) -> tuple[float, float]:
    if tuple(value.shape) != tuple(wanted.shape):
        return float("nan"), 0.0
    if not value.numel():
        return 0.0, 0.0
    a, b = value.to(torch.float64), wanted.to(torch.float64)
    both_infinite = (a == b) | (a.isnan() & b.isnan())
    error = torch.where(both_infinite, 0.0, (a - b).abs())
    return float(error.max()), float(b.abs().max())
