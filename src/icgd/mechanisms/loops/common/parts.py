"""Parts that looped constructions share: feed-forward layers on named slots, and codes of positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from icgd.transformer.layout import Layout
from icgd.transformer.nn.stack.softmax_sublayer import Rows, SoftmaxHead, linear_rows, stacked
from icgd.transformer.nn.stack.stack import MlpSublayer, UnitGroup

SHARP = 800.0
"""Score gap at which a softmax weight is exactly 0 in float64 and float32."""
GATE_BOUND = 2.0**20
"""What closes a gate: larger than any number that passes one."""


class MlpBuilder:
    """Builds an MLP sublayer of units that write linear or leaky functions of slots, exact in floating point.

    gate_bound  B: a gated number z passes as relu(z - B off) - relu(-z - B off), exactly z where `off` is
                0 and exactly 0 where it is at least 1, as long as |z| <= B
    """

    def __init__(self, layout: Layout, dtype: torch.dtype, gate_bound: float = GATE_BOUND) -> None:
        self.layout, self.dtype, self.gate_bound = layout, dtype, gate_bound
        self._groups: dict[str, UnitGroup] = {}

    def write(
        self,
        target: str,
        rows: Rows,
        *,
        scale: float = 1.0,
        below: float = 1.0,
        off: Rows = (),
    ) -> MlpBuilder:
        """target += scale * (relu(z) - below * relu(-z)), z the given map of slots.

        below  1 for a linear function, the slope of a leaky ReLU, 1/slope for its inverse
        off    indicators whose sum must be 0 for z to pass
        """
        matrix = linear_rows(self.layout, rows)
        shut = torch.zeros(1, self.layout.width, dtype=torch.float64)
        if off:
            shut = self.gate_bound * linear_rows(self.layout, off)
        read, w_in = _compact(torch.cat([matrix - shut, -matrix - shut]))
        where = self.layout.index(target).reshape(-1)[: matrix.shape[0]]
        outer = torch.full((len(where),), scale, dtype=torch.float64)
        self._groups[f"{target}_{len(self._groups)}"] = UnitGroup(
            read,
            w_in,
            torch.cat([where, where]),
            torch.cat([outer, -below * outer]),
            dtype=self.dtype,
        )
        return self

    def erase(self, slot: str) -> MlpBuilder:
        """Set a slot to exactly 0."""
        return self.write(slot, [(slot, 1.0)], scale=-1.0)

    def layer(self) -> MlpSublayer:
        """The layer of all units collected."""
        return MlpSublayer(self._groups)


def _compact(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Rows as (indices, weights) of their non-zero entries, padded with weight 0."""
    most = max(1, int((matrix != 0).sum(dim=1).max()))
    order = (matrix != 0).to(torch.int64).sort(dim=1, descending=True, stable=True).indices
    read = order[:, :most]
    return read, matrix.gather(1, read)


def binary_codes(n: int) -> Tensor:
    """Codes of n positions, (n, m) of +-1, m = ceil(log2 n): p_i.p_i - p_i.p_j >= 2 for i != j.

    Statement: [ALGO] Lemma A.1

    Differs from the paper: it shows that random vectors will do; these need no luck and fewer entries.

    >>> codes = binary_codes(5)
    >>> bool((codes @ codes.T - 3 * torch.eye(5) <= 1.0).all())
    True
    """
    m = max(1, math.ceil(math.log2(max(2, n))))
    bits = (torch.arange(n).unsqueeze(1) >> torch.arange(m)) & 1
    return 2.0 * bits.to(torch.float64) - 1.0


def rotary_codes(n: int, m: int, seed: int = 0, tries: int = 50) -> tuple[Tensor, Tensor, float]:
    """Codes p_t = [cos w t; sin w t] of n positions, (n, 2m), their frequencies, and the normalised gap.

    A shift of the position is a rotation of the code: `rotation` is its matrix. Of several random sets of
    frequencies the one is taken whose codes are furthest apart.
    """
    generator = torch.Generator().manual_seed(seed)
    best: tuple[Tensor, Tensor, float] | None = None
    t = torch.arange(n, dtype=torch.float64)
    for _ in range(tries):
        w = torch.rand(m, generator=generator, dtype=torch.float64) * math.pi
        apart = torch.cos(torch.arange(1, max(2, n), dtype=torch.float64).unsqueeze(1) * w)
        gap = 1.0 - float(apart.mean(dim=1).max())
        if best is None or gap > best[2]:
            angle = t.unsqueeze(1) * w
            best = torch.cat([angle.cos(), angle.sin()], dim=1), w, gap
    assert best is not None
    return best


def rotation(frequencies: Tensor, shift: int) -> Tensor:
    """The matrix R with R p_t = p_{t + shift}, (2m, 2m)."""
    angle = shift * frequencies
    c, s = torch.diag(angle.cos()), torch.diag(angle.sin())
    return torch.cat([torch.cat([c, -s], dim=1), torch.cat([s, c], dim=1)])


def hard_head(
    layout: Layout,
    query: Sequence[Rows],
    key: Sequence[Rows],
    value: Rows,
    target: str,
    dtype: torch.dtype,
) -> SoftmaxHead:
    """A head so sharp that it attends to the best match alone (or to equal ones in equal parts)."""
    return SoftmaxHead(
        stacked(layout, query),
        stacked(layout, key),
        linear_rows(layout, value),
        layout.index(target).reshape(-1),
        dtype=dtype,
    )
