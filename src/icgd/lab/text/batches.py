"""Pairs as batches of token rows: source, separator, target, each row padded behind its end.

A causal model never looks ahead, so padding at the end is seen by nothing that counts: what a pair is given
does not depend on the pairs beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from icgd.lab.text.vocabulary import END, PADDING, SEPARATOR, Encoded

_SORTED_TOGETHER = 32
"""Batches whose pairs are sorted by length before they are dealt out: little padding, much chance."""


@dataclass(frozen=True)
class Rows:
    """A batch of pairs.

    tokens     source SEPARATOR target, padded
    positions  counted from 0 in the source and anew, from `most_tokens`, at the separator
    asked      where the next token is one of the target, or its end
    wanted     those tokens, row by row
    """

    tokens: Int[Tensor, "batch n"]
    positions: Int[Tensor, "batch n"]
    asked: Bool[Tensor, "batch n"]
    wanted: Int[Tensor, " n_asked"]

    def to(self, device: str | torch.device) -> Rows:
        """On another device."""
        return Rows(*(t.to(device) for t in (self.tokens, self.positions, self.asked, self.wanted)))


def rows_of(pairs: Sequence[Encoded], most_tokens: int) -> Rows:
    """Pairs as rows.

    >>> rows = rows_of([((7, 8), (5,)), ((), (6,))], 10)
    >>> rows.tokens.tolist(), rows.positions.tolist()
    ([[7, 8, 0, 5], [0, 6, 2, 2]], [[0, 1, 10, 11], [10, 11, 0, 0]])
    >>> rows.asked.tolist(), rows.wanted.tolist()
    ([[False, False, True, True], [True, True, False, False]], [5, 1, 6, 1])
    """
    lengths = [(len(source), len(source) + 1 + len(target)) for source, target in pairs]
    n = max(end for _, end in lengths)
    counted = range(most_tokens, most_tokens + n)
    tokens = [
        [*source, SEPARATOR, *target, *[PADDING] * (n - end)]
        for (source, target), (_, end) in zip(pairs, lengths, strict=True)
    ]
    positions = [
        [*range(start), *counted[: end - start], *[0] * (n - end)] for start, end in lengths
    ]
    predicted = [[start <= k < end for k in range(n)] for start, end in lengths]
    wanted = [token for _, target in pairs for token in (*target, END)]
    return Rows(*(torch.tensor(part) for part in (tokens, positions, predicted, wanted)))


def endless_batches(pairs: Sequence[Encoded], size: int, seed: int) -> Iterator[list[Encoded]]:
    """Batches of pairs of similar length, every pair once an epoch, in an order that the seed decides."""
    generator = torch.Generator().manual_seed(seed)
    size = min(size, len(pairs))
    together = size * _SORTED_TOGETHER
    while True:
        order = torch.randperm(len(pairs), generator=generator).tolist()
        batches: list[list[int]] = []
        for start in range(0, len(order), together):
            near = sorted(order[start : start + together], key=lambda i: sum(map(len, pairs[i])))
            batches += (near[k : k + size] for k in range(0, len(near), size))
        for k in torch.randperm(len(batches), generator=generator).tolist():
            yield [pairs[i] for i in batches[k]]
