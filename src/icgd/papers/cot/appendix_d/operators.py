"""One-layer operators that learn to write the blocks of SGD: the plain block of [COT] Appendix D, and products.

Columns of a block are equal, so attention without positions gives all of them the same weight, whatever the
weights of its heads: it is affine, and every product has to come from the feed-forward part. Heads of linear
attention multiply: (q.k) v has all products that SGD needs. So does a softmax head over the spectral grid, with
keys L_j k and values L_j v.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from icgd.lab.plain_layer import PlainLayer
from icgd.lab.training.schedule import cosine
from icgd.papers.cot.appendix_d.blocks import backward_layout, forward_layout
from icgd.transformer.gadgets.heads.spectral_head import SpectralHead
from icgd.transformer.nn.attention import attention

Direction = Literal["forward", "backward"]
WARM = 50
"""Steps until the rate of learning is the full one."""


class PlainBlock(nn.Module):
    """Read-in, softmax attention over the columns, feed-forward part, read-out: a usual layer.

    positions  columns have learned positions, so that attention can tell them apart
    """

    def __init__(
        self, d: int, *, width: int, heads: int, hidden: int, normalised: bool, positions: bool
    ) -> None:
        super().__init__()
        n_in, n_out = 2 * forward_layout(d).width, forward_layout(d).width
        self.read_in = nn.Linear(n_in, width)
        self.positions = nn.Parameter(0.02 * torch.randn(d, width)) if positions else None
        self.layer = PlainLayer(width, heads=heads, hidden=hidden, normalised=normalised)
        self.read_out = nn.Linear(width, n_out)

    def forward(self, seen: Tensor) -> Tensor:
        """(B, 2R) -> (B, C, R), C columns: one if they are all equal, else d."""
        h = self.read_in(seen).unsqueeze(1)
        if self.positions is not None:
            h = h + self.positions
        written: Tensor = self.read_out(self.layer(h))
        return written


class ProductBlock(nn.Module):
    """Heads of linear attention, (q.k) v with q, k, v linear in what is seen, and a feed-forward part.

    keys    width of q and k
    hidden  of the feed-forward part; 0: none
    copies  rows that the exact operator carries over are copied; otherwise a skip has to be learned
    scale   of the change of weights, so that what has to be learned is of size 1: the step size, or 1
    radius  of q.k, for softmax heads over the spectral grid; 0: linear attention
    """

    def __init__(
        self,
        d: int,
        direction: Direction,
        *,
        heads: int,
        keys: int,
        hidden: int,
        copies: bool,
        scale: float,
        radius: float = 0.0,
    ) -> None:
        super().__init__()
        self.learned: Tensor
        self.carried: Tensor
        self.scale: Tensor
        n_in, self.n_out = 2 * forward_layout(d).width, forward_layout(d).width
        self.heads = heads
        carried, learned = _carried_rows(d, direction)
        if not copies:
            learned = torch.arange(self.n_out)
        self.register_buffer("learned", learned)
        self.register_buffer("carried", carried if copies else torch.zeros_like(carried))
        rows = torch.ones(self.n_out)
        if direction == "backward":
            rows[backward_layout(d).slice("weight")] = scale
        self.register_buffer("scale", rows[learned])
        self.grid = SpectralHead(radius, dtype=torch.float32) if radius else None
        self.qk = nn.Linear(n_in, 2 * heads * keys)
        self.v = nn.Linear(n_in, heads * len(learned))
        self.skip = nn.Linear(n_in, len(learned))
        self.up = nn.Linear(len(learned), hidden) if hidden else None
        self.down = nn.Linear(hidden, len(learned)) if hidden else None

    def forward(self, seen: Tensor) -> Tensor:
        """(B, 2R) -> (B, 1, R)."""
        q, k = (part.unflatten(-1, (self.heads, -1)) for part in self.qk(seen).chunk(2, -1))
        scores = (q * k).sum(-1)
        if self.grid is not None:
            # The mean of L_j under the softmax; values L_j v only multiply it by v.
            query = torch.stack([scores, torch.ones_like(scores)], -1).flatten(0, 1)
            mean = attention(query, self.grid.table, self.grid.levels.unsqueeze(-1))
            scores = mean.view_as(scores)
        hidden = torch.einsum("bh,bhr->br", scores, self.v(seen).unflatten(-1, (self.heads, -1)))
        hidden = hidden + self.skip(seen)
        if self.up is not None and self.down is not None:
            hidden = hidden + self.down(torch.relu(self.up(hidden)))
        out = seen @ self.carried.T
        return out.index_add(-1, self.learned, hidden * self.scale).unsqueeze(1)


def _carried_rows(d: int, direction: Direction) -> tuple[Tensor, Tensor]:
    """The matrix (R, 2R) of rows that are copied, and the rows that are not only that."""
    F, B = forward_layout(d), backward_layout(d)
    above, below = (F, B) if direction == "forward" else (B, F)
    copied = torch.zeros(F.width, above.width + below.width)
    if direction == "forward":
        copied[F.index("input").reshape(-1), F.index("output").reshape(-1)] = 1.0
        copied[F.index("one").reshape(-1), F.index("one").reshape(-1)] = 1.0
        copied[F.index("weight").reshape(-1), F.width + B.index("weight").reshape(-1)] = 1.0
        learned = [F.index(name).reshape(-1) for name in ("output", "slope")]
    else:
        copied[B.index("weight").reshape(-1), B.width + F.index("weight").reshape(-1)] = 1.0
        learned = [B.index(name).reshape(-1) for name in ("delta", "signal", "weight")]
    return copied, torch.cat(learned)


def block_errors(written: Tensor, exact: Tensor, d: int) -> Tensor:
    """(B, R): squared errors of every row, added over the d columns."""
    off = (written - exact.unsqueeze(1)).square()
    return off.sum(1) * (d / off.shape[1])


class OperatorFit:
    """Adam with a cosine schedule on the squared Frobenius error, an epoch at a time.

    weight_rows   rows of the weights, which count 1 / weight_scale^2 times in the loss that is minimised
    epochs        how many there will be
    losses        (train, validation) after every epoch: squared Frobenius distance of blocks of d columns, mean
    """

    def __init__(
        self,
        operator: nn.Module,
        held_out: tuple[Tensor, Tensor],
        *,
        d: int,
        weight_rows: Tensor,
        weight_scale: float,
        epochs: int,
        batch: int,
        rate: float,
        generator: torch.Generator,
    ) -> None:
        self.operator, self.held_out, self.d = operator, held_out, d
        self.epochs, self.batch, self.rate, self.generator = epochs, batch, rate, generator
        self.importance = torch.ones(held_out[1].shape[1])
        self.importance[weight_rows] = weight_scale**-2
        self.optimizer = torch.optim.Adam(operator.parameters(), lr=rate, fused=True)
        self.losses: list[tuple[float, float]] = []

    def epoch(self, seen: Tensor, exact: Tensor) -> None:
        """Go once through pairs of what is seen and what is to be written."""
        summed = 0.0
        batches = torch.randperm(len(seen), generator=self.generator).split(self.batch)
        for number, chosen in enumerate(batches):
            self._set_rate(len(self.losses) * len(batches) + number, self.epochs * len(batches))
            errors = block_errors(self.operator(seen[chosen]), exact[chosen], self.d).mean(0)
            self.optimizer.zero_grad()
            (errors @ self.importance).backward()
            nn.utils.clip_grad_norm_(self.operator.parameters(), 1.0)
            self.optimizer.step()
            summed += float(errors.detach().sum()) * len(chosen)
        validation = float(mean_errors(self.operator, self.held_out, self.d).sum())
        self.losses.append((summed / len(seen), validation))

    def _set_rate(self, step: int, steps: int) -> None:
        for group in self.optimizer.param_groups:
            warm = min(1.0, (step + 1) / WARM)
            group["lr"] = self.rate * warm * cosine(step, steps)


@torch.no_grad()
def mean_errors(operator: Any, held_out: tuple[Tensor, Tensor], d: int) -> Tensor:
    """(R,): the mean error of every row."""
    seen, exact = held_out
    return block_errors(operator(seen), exact, d).mean(0)
