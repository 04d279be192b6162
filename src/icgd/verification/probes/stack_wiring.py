"""Whether a stack's heads and units read and write the coordinates they were compiled for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from icgd.transformer.nn.stack.stack import Stack


@dataclass(frozen=True)
class FitCheck:
    """One part of a stack: how far it is from its function at worst, and what it may be."""

    name: str
    error: float
    bound: float

    @property
    def passed(self) -> bool:
        """NaN fails, and so does a bound that promises nothing."""
        return self.error <= self.bound < math.inf


def check_wiring(name: str, stack: Stack, built: Stack) -> FitCheck:
    """Which coordinates are read and written, in which order: no number of them may differ."""

    def wires(s: Stack) -> dict[str, object]:
        kinds = {n: (type(m), getattr(m, "activation", "")) for n, m in s.named_modules()}
        return {**kinds, **dict(s.named_buffers())}

    ours, theirs = wires(stack), wires(built)
    if list(ours) != list(theirs):
        return FitCheck(f"{name}, wiring", math.inf, 0.0)
    wrong = 0
    for a, b in zip(ours.values(), theirs.values(), strict=True):
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            same = a.shape == b.shape
            wrong += int((a.cpu() != b).sum()) if same else max(a.numel(), b.numel())
        else:
            wrong += a != b
    return FitCheck(f"{name}, wiring", float(wrong), 0.0)
