"""How far off a layer's sums may be: what the range watch asks before it calls a unit open or shut."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from icgd.transformer.blocks import Block
from icgd.transformer.mask_rules import Address


class Rounding:
    """A layer whose sums decide nothing that rounding could change.

    reads_pairs  whether the structured executor reads numbers with a relative error
    """

    reads_pairs = False

    def noise(self, live: Mapping[Address, Block], largest: float, *, literal: bool) -> float:
        """Bound on the error of a pre-activation, given the live blocks and the largest query met."""
        return 0.0

    def exact_zero(self, *, literal: bool) -> bool:
        """Whether a head that is asked 0 answers exactly 0, here or with literal matrices."""
        return True


class RelativeRounding(Rounding):
    """A few roundings of the largest number that was read."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._unit = 4 * torch.finfo(dtype).eps

    def noise(self, live: Mapping[Address, Block], largest: float, *, literal: bool) -> float:
        """See Rounding."""
        return self._unit * largest
