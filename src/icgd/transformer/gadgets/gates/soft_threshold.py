"""Soft-thresholding by two ReLU units an entry: the proximal step of the lasso, exactly.

prox(w) = relu(w - cut) - relu(-w - cut). The cut is a bias: a feed-forward layer without one is
positively homogeneous and cannot do this (docs/errata.md).
"""

from __future__ import annotations

import torch

from icgd.transformer.certificate import Certificate
from icgd.transformer.nn.feedforward import UnitGadget, Units
from icgd.transformer.nn.symbolic import Builder, Reg


class SoftThreshold(UnitGadget):
    """target += sign(w) max(|w| - cut, 0), entry by entry.

    Statement: [COT] Theorem 3.3

    Differs from the paper: (11) has 4d units and no bias, which no weights can make a soft-threshold;
    2d units with a bias are enough.
    """

    def __init__(self, d: int, *, source: str, target: str, cut: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.source, self.target, self.cut = source, target, cut
        self.above = Units((d,), {source: 1.0}, {target: 1.0}, bias=-cut, dtype=dtype)
        self.below = Units((d,), {source: -1.0}, {target: -1.0}, bias=-cut, dtype=dtype)

    def certificate(self) -> Certificate:
        """One subtraction, rounded; non-expansive."""
        return Certificate("soft_threshold", float("inf"), 0.0, 1.0, max(1.0, self.cut))

    def units(self) -> list[Units]:
        """The two groups of units."""
        return [self.above, self.below]

    def emit_short(self, b: Builder) -> bool:
        """See UnitGadget: one operation."""
        value = b.read(self.source)
        if not isinstance(value, Reg):
            return False
        cut = self.cut if self.above.bias is None else -float(self.above.bias.reshape(-1)[0])
        b.write(self.target, b.compute(lambda w: torch.nn.functional.softshrink(w, cut), [value]))
        return True
