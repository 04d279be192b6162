"""A softmax block that looks the answer up: quantise, write a context id, read a table by that id.

    FF1        every coordinate -> its level 1/D, 2/D, ..., 1, by ramps of width delta
    attention  one head of rank 1 writes a Boltzmann average of the tokens into a spare coordinate
    FF2        id = a fixed generic projection of the token; a piecewise linear function of the id returns
               the label that was stored for (cell of the sequence, token)
A toy: the table has n D^F entries for F free numbers, so that D <= 7 is all that runs for a prompt of two
examples. It is here because Appendix F of [DEEP] rests on it, and to show what it can and cannot do:
within 0.6/D in the mean square, wrong by O(1) on ramps, lost when iterated. `mean_gradient` makes the
same step with the same four layers, without a table. Tokens live in the cube [0, 1]^d.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.papers.deep.appendix_f.bounds import n_sequences
from icgd.transformer.nn.attention import attention

F64 = torch.float64
RAMP = 2.0**-17
MAX_SEQUENCES = 150_000
ROUNDING = 64 * 2.0**-52
"""Ids nearer than this, relative to the largest, are one id: sums over tokens in another order."""


class Flag(Enum):
    """A coordinate that says what a token is, and never changes; put in the middle of a cell."""

    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True)
class Wiring:
    """Which free number, or flag, every coordinate of every token holds.

    slots   names of the coordinates of a token
    tokens  one row per token: the name of a free number, or a Flag
    """

    slots: tuple[str, ...]
    tokens: tuple[tuple[str | Flag, ...], ...]

    def __post_init__(self) -> None:
        if not self.tokens or any(len(row) != len(self.slots) for row in self.tokens):
            raise InvalidParameter("tokens", self.tokens, "be rows with one entry per slot")

    @property
    def free(self) -> tuple[str, ...]:
        """The free numbers in the order of their first use."""
        named = [entry for row in self.tokens for entry in row if isinstance(entry, str)]
        return tuple(dict.fromkeys(named))

    def column(self, slot: str) -> int:
        """Which coordinate of a token a slot is."""
        if slot not in self.slots:
            raise InvalidParameter("slot", slot, f"be one of {self.slots}")
        return self.slots.index(slot)

    def fill(self, numbers: Tensor, n_levels: int) -> Tensor:
        """Sequences (batch, token, slot) from free numbers (batch, F)."""
        names = self.free
        if numbers.shape[-1] != len(names):
            must = f"have {len(names)} columns, one for each of {names}"
            raise InvalidParameter("numbers", tuple(numbers.shape), must)
        flags = {Flag.LOW: 0.5 / n_levels, Flag.HIGH: 1 - 0.5 / n_levels}
        rows = [
            torch.stack(
                [
                    numbers[:, names.index(entry)]
                    if isinstance(entry, str)
                    else numbers.new_full((len(numbers),), flags[entry])
                    for entry in row
                ],
                dim=-1,
            )
            for row in self.tokens
        ]
        return torch.stack(rows, dim=-2)


def prompt_wiring(n_examples: int) -> Wiring:
    """Examples (x_i, y_i) and a test input, every token with the weight w and a flag t.

    >>> prompt_wiring(2).free
    ('x1', 'y1', 'w', 'x2', 'y2', 'x_test')
    """
    if n_examples < 1:
        raise InvalidParameter("n_examples", n_examples, "be an integer >= 1")
    shown = [(f"x{i}", f"y{i}", "w", Flag.HIGH) for i in range(1, n_examples + 1)]
    return Wiring(("x", "y", "w", "t"), (*shown, ("x_test", Flag.LOW, "w", Flag.LOW)))


def plain_wiring(n_tokens: int, d: int = 1) -> Wiring:
    """Every coordinate free.

    >>> len(plain_wiring(2, 3).free)
    6
    """
    slots = tuple(f"z{c}" for c in range(d))
    return Wiring(slots, tuple(tuple(f"{s}[{k}]" for s in slots) for k in range(n_tokens)))


def tanh_step(lr: float = 0.5, *, radius: float = 1.0) -> Callable[[Tensor], Tensor]:
    """w -> Proj(w - lr grad), for the loss 1/(2n) sum_i (tanh(w x_i) - y_i)^2, on tokens of `prompt_wiring`.

    Statement: [DEEP] Theorem 6

    Numbers of [-radius, radius] are kept as numbers of [0, 1]; the projection is onto that box.

    Differs from the paper: mean with 1/2 and the affine change to [0, 1], which Lemma 16 needs and
    Theorem 6 leaves out.
    """
    if not (math.isfinite(lr) and lr > 0 and math.isfinite(radius) and radius > 0):
        raise InvalidParameter("lr, radius", (lr, radius), "be finite numbers > 0")
    place = prompt_wiring(1)

    def step(tokens: Tensor) -> Tensor:
        x, y, w = (radius * (2 * tokens[..., place.column(s)] - 1) for s in ("x", "y", "w"))
        shown = (tokens[..., place.column("t")] > 0.5).to(tokens)
        guess = torch.tanh(w * x)
        slope = shown * (guess - y) * x * (1 - guess.square())
        gradient = slope.sum(-1, keepdim=True) / shown.sum(-1, keepdim=True)
        after = tokens.clone()
        after[..., place.column("w")] = ((w - lr * gradient) / radius).clamp(-1, 1) / 2 + 0.5
        return after

    return step


def quantise(z: Tensor, n_levels: int, ramp: float = RAMP) -> Tensor:
    """sum_t (relu(z/delta - t/(delta D)) - relu(z/delta - t/(delta D) - 1)) / D, entry by entry.

    Statement: [DEEP] Lemma 18

    The two ReLUs of a step are subtracted before steps are added: off the ramps the level is then exact.

    Differs from the paper: B = 1. Its (F.6) gives the middle of a ramp as z/(delta D), not as
    (z - t B/D)/(delta D).

    >>> quantise(torch.tensor([0.1, 0.3, 0.9], dtype=F64), 4).tolist()
    [0.25, 0.5, 1.0]
    """
    _check_levels(n_levels, ramp)
    above = z.unsqueeze(-1) / ramp - torch.arange(n_levels).to(z) / (n_levels * ramp)
    return (above.relu() - (above - 1).relu()).sum(-1) / n_levels


def on_ramp(z: Tensor, n_levels: int, ramp: float = RAMP) -> Tensor:
    """Which entries lie inside a ramp."""
    past = z - (z * n_levels).floor() / n_levels
    return (past < ramp) & (z < 1)


def _check_levels(n_levels: int, ramp: float) -> None:
    if not (isinstance(n_levels, int) and n_levels >= 1):
        raise InvalidParameter("n_levels", n_levels, "be an integer >= 1")
    if not 0 < ramp < 1 / n_levels:
        must = f"lie between 0 and 1/n_levels = {1 / n_levels:g}"
        raise InvalidParameter("ramp", ramp, must, remedy="Wider ramps overlap: no cell is flat.")


@dataclass(frozen=True)
class ContextHead:
    """A head of rank 1 and the projection that makes one number of a token and its average.

    query, key, value  (d,)     weight  share of the average in the id     project  (d,)
    """

    query: Tensor
    key: Tensor
    value: Tensor
    project: Tensor
    weight: float = 1.0

    @classmethod
    def generic(cls, d: int, seed: int = 0) -> ContextHead:
        """Normal numbers: no equation with simple coefficients holds between them."""
        generator = torch.Generator().manual_seed(seed)
        query, key, value, project = torch.randn(4, d, generator=generator, dtype=F64).unbind(0)
        return cls(query, key, value, project)

    def average(self, levels: Tensor) -> Tensor:
        """sum_l softmax_l((query . z_k)(key . z_l)) (value . z_l) for every token k."""
        q, k, v = ((levels @ side).unsqueeze(-1) for side in (self.query, self.key, self.value))
        return attention(q, k, v).squeeze(-1)

    def ids(self, levels: Tensor) -> Tensor:
        """project . z_k + weight * average_k."""
        return levels @ self.project + self.weight * self.average(levels)


@dataclass(frozen=True)
class Separation:
    """Ids of a table in order, and how well they tell labels apart."""

    order: Tensor
    collisions: int
    gap: float


def separation(ids: Tensor, labels: Tensor) -> Separation:
    """Neighbouring ids that are one id up to rounding although their labels differ, and the least gap.

    Statement: [DEEP] Definition 13

    Differs from the paper: asks only that tokens with different labels get different ids, which is what the
    table needs; permuted sequences share theirs.
    """
    order = ids.argsort()
    apart = ids[order].diff()
    other = (labels[order].diff(dim=0).abs() > ROUNDING).any(-1)
    near = ROUNDING * float(ids.abs().max())
    between = apart[other]
    gap = float(between.min()) if len(between) else math.inf
    return Separation(order, int((between <= near).sum()), gap)


class ContextLookup:
    """The block FF2 o Attn o FF1 that approximates a map of sequences by its values at cell centres.

    Statement: [DEEP] Lemma 16
    Statement: [DEEP] Definition 11

    wiring    which coordinates are free          f     sequences -> sequences, (batch, token, slot)
    n_levels  D                                   ramp  delta, below 1/D

    FF2 has two ReLUs per id: constant for a quarter of the gap on both sides of an id, linear in between. It
    is *evaluated* by sorting and interpolating, not as a sum of ReLUs; `LiteralContextLookup` builds the
    ReLUs of small tables.

    Differs from the paper: the average goes to a spare coordinate instead of being added to the token; labels
    belong to centres of cells and not to corners; the head is generic instead of the one of Lemma 17, whose
    separation no float holds; no penalty outside the cube, where the statement says nothing.

    >>> block = ContextLookup(prompt_wiring(2), 2, tanh_step())
    >>> block.n_sequences, block.n_entries
    (64, 192)
    """

    def __init__(
        self,
        wiring: Wiring,
        n_levels: int,
        f: Callable[[Tensor], Tensor],
        *,
        ramp: float = RAMP,
        seed: int = 0,
        max_sequences: int = MAX_SEQUENCES,
    ) -> None:
        _check_levels(n_levels, ramp)
        self.wiring, self.n_levels, self.ramp = wiring, n_levels, ramp
        self.n_sequences = n_sequences(n_levels, len(wiring.free))
        if self.n_sequences > max_sequences:
            raise InvalidParameter(
                "n_levels",
                n_levels,
                f"give at most {max_sequences} sequences",
                remedy=f"{n_levels}^{len(wiring.free)} = {self.n_sequences} cells each need an entry per "
                "token: take fewer levels or fewer examples, or `mean_gradient`, which needs no table.",
            )
        self.head = ContextHead.generic(len(wiring.slots), seed)
        centres = self.centres()
        labels, ids = f(centres), self.head.ids(self.quantise(centres))
        if labels.shape != centres.shape:
            must = f"return sequences of shape {tuple(centres.shape)}"
            raise InvalidParameter("f", tuple(labels.shape), must)
        self._store(ids.reshape(-1), labels.reshape(-1, labels.shape[-1]))

    def _store(self, ids: Tensor, labels: Tensor) -> None:
        """Sort the entries and lay the knots: two per id, a quarter of the gap to either side."""
        apart = separation(ids, labels)
        if apart.collisions:
            raise AssumptionViolated(
                f"The context ids of {apart.collisions} pairs of entries with different labels are equal in "
                f"float64 (least gap {apart.gap:.1e}). The table cannot hold both: take fewer levels or "
                "another seed."
            )
        self.gap, self.n_entries = apart.gap, len(ids)
        ids, labels = ids[apart.order], labels[apart.order]
        new = torch.ones(len(ids), dtype=torch.bool)
        new[1:] = ids.diff() > ROUNDING * float(ids.abs().max())
        first = new.nonzero().squeeze(-1)
        last = torch.cat([first[1:] - 1, first.new_tensor([len(ids) - 1])])
        quarter = (ids[first[1:]] - ids[last[:-1]]) / 4
        ends = quarter.new_zeros(1)
        left = ids[first] - torch.cat([ends, quarter])
        right = ids[last] + torch.cat([quarter, ends])
        self.knots = torch.stack([left, right], dim=1).reshape(-1)
        self.values = labels[first].repeat_interleave(2, dim=0)

    def centres(self) -> Tensor:
        """Every sequence of cell centres."""
        levels = (torch.arange(self.n_levels, dtype=F64) + 0.5) / self.n_levels
        grid = torch.cartesian_prod(*[levels] * len(self.wiring.free))
        return self.wiring.fill(grid.reshape(self.n_sequences, -1), self.n_levels)

    def quantise(self, tokens: Tensor) -> Tensor:
        """FF1."""
        return quantise(tokens, self.n_levels, self.ramp)

    def look_up(self, ids: Tensor) -> Tensor:
        """FF2: the piecewise linear function through the knots, by bisection."""
        at = ids.reshape(-1).contiguous()
        right = torch.searchsorted(self.knots, at, right=True).clamp(1, len(self.knots) - 1)
        low, high = self.knots[right - 1], self.knots[right]
        share = ((at - low) / (high - low)).clamp(0, 1).unsqueeze(-1)
        # The end knots of one plateau may coincide: then both sides hold the same label.
        share = torch.where((high > low).unsqueeze(-1), share, torch.zeros_like(share))
        values = self.values[right - 1].lerp(self.values[right], share)
        return values.reshape(*ids.shape, -1)

    def __call__(self, tokens: Tensor) -> Tensor:
        """One pass of the block."""
        if tokens.shape[-1] != len(self.wiring.slots):
            must = f"have {len(self.wiring.slots)} slots {self.wiring.slots}"
            raise InvalidParameter("tokens", tuple(tokens.shape), must)
        if not bool(((tokens >= 0) & (tokens <= 1)).all()):
            low, high = float(tokens.min()), float(tokens.max())
            raise AssumptionViolated(
                f"Tokens must lie in [0, 1]. Got entries from {low:g} to {high:g}. Map their range to "
                "[0, 1] first; beyond it the quantiser has no cells."
            )
        return self.look_up(self.head.ids(self.quantise(tokens)))

    def run(self, tokens: Tensor, steps: int) -> list[Tensor]:
        """The sequences after 1, 2, ..., `steps` passes."""
        path = []
        for _ in range(steps):
            tokens = self(tokens)
            path.append(tokens)
        return path

    @property
    def steepest(self) -> float:
        """The largest slope of FF2 as a function of the id."""
        wide = self.knots.diff()
        rise = self.values.diff(dim=0).abs().amax(-1)
        return float((rise[wide > 0] / wide[wide > 0]).max())
