"""The largest |e| on a box of one or two variables, from samples and from how e bends between them.

Between two samples w apart a function leaves the straight line by w^2/8 |e''|, and at a corner by at most half
of w times the larger change of slope beside it. For even samples the latter is four times the former: it
serves for both.
Where sample and allowance together are far above the largest sample, the cell is cut into smaller ones. Slopes
are measured: this is an upper bound for functions that bend no more inside a cell than at its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Values = Callable[[Tensor], Tensor]
"""Maps points (n, d) to numbers (n,)."""

TIGHT = 0.01
"""How far above the largest sample, as a fraction of it, the result may end up before cells are cut."""
PIECES = 4
"""Into how many pieces a cell is cut along each variable."""
AT_ONCE = 2048
"""Cells that are cut at a time, those that allow most first."""
ROUNDS = 8


def largest_between(e: Values, axes: Sequence[Tensor], slack: float = 0.0) -> float:
    """An upper bound on |e| over the box that the axes span.

    e      evaluated at points of the box only
    axes   sorted coordinates of the first samples, ends of the box included
    slack  what rounding adds to e: closer than that nothing is cut

    >>> t = torch.linspace(-1, 1, 12, dtype=torch.float64)
    >>> largest = largest_between(lambda p: torch.cos(p[:, 0]), [t])
    >>> float(torch.cos(t).max()) < 1 <= largest <= 1.01
    True
    """
    grid = _points([axis.unsqueeze(0) for axis in axes])
    values = e(grid[0]).reshape(1, *(len(axis) for axis in axes))
    seen, most = float(values.abs().max()), _allowed(values, [axis.unsqueeze(0) for axis in axes])
    low = _points([axis[:-1].unsqueeze(0) for axis in axes])[0]
    size = _points([axis.diff().unsqueeze(0) for axis in axes])[0]
    bound = most.reshape(-1)
    for _ in range(ROUNDS):
        enough = max((1 + TIGHT) * seen, seen + slack)
        _, worst = bound.topk(min(AT_ONCE, len(bound)))
        worst = worst[bound[worst] > enough]
        if not len(worst):
            break
        steps = torch.linspace(0, 1, PIECES + 1, dtype=low.dtype)
        cut = [
            low[worst, k, None] + size[worst, k, None] * steps for k in range(len(axes))
        ]  # per variable (cells, PIECES + 1)
        points = _points(cut)
        values = e(points.flatten(0, 1)).reshape(len(worst), *[PIECES + 1] * len(axes))
        seen = max(seen, float(values.abs().max()))
        inner = torch.minimum(_allowed(values, cut).flatten(1), bound[worst, None])
        kept = torch.ones_like(bound, dtype=torch.bool)
        kept[worst] = False
        bound = torch.cat([bound[kept], inner.reshape(-1)])
        low = torch.cat([low[kept], _points([c[:, :-1] for c in cut]).flatten(0, 1)])
        size = torch.cat([size[kept], _points([c.diff(dim=1) for c in cut]).flatten(0, 1)])
    return max(seen, float(bound.max()))


def _points(axes: Sequence[Tensor]) -> Tensor:
    """(patches, points, d) of tensor grids given by (patches, n_k) coordinates."""
    if len(axes) == 1:
        return axes[0].unsqueeze(-1)
    first, second = axes
    shape = (len(first), first.shape[1], second.shape[1])
    both = (first.unsqueeze(2).expand(shape), second.unsqueeze(1).expand(shape))
    return torch.stack(both, -1).flatten(1, 2)


def _allowed(values: Tensor, axes: Sequence[Tensor]) -> Tensor:
    """What |e| may reach in every cell of patches: the largest corner, and the bend along each variable."""
    most = values.abs()
    for k in range(1, values.dim()):
        most = _larger(most, k)
    for k, axis in enumerate(axes, 1):
        shape = [len(axis)] + [1] * len(axes)
        shape[k] = -1
        width = axis.diff(dim=1).reshape(shape)
        bend = (values.diff(dim=k) / width).diff(dim=k).abs()
        n = bend.shape[k]
        if n == 0:
            raise ValueError("An axis needs three samples, so that a bend can be seen.")
        # A cell at the end has one bend beside it, of a corner inside perhaps the smaller one: twice of it.
        inner = _larger(bend, k) / 2
        beside = torch.cat([bend.narrow(k, 0, 1), inner, bend.narrow(k, n - 1, 1)], dim=k) * width
        for other in range(1, values.dim()):
            beside = beside if other == k else _larger(beside, other)
        most = most + beside
    return most


def _larger(values: Tensor, k: int) -> Tensor:
    """The larger of neighbours along one dimension."""
    n = values.shape[k]
    return torch.maximum(values.narrow(k, 0, n - 1), values.narrow(k, 1, n - 1))
