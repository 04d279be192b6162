"""Distances, copies and batches of a network's weights, as every comparison with the oracle needs them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from icgd.problems import Weights


def worst(values: Iterable[float]) -> float:
    """The maximum, with NaN counted as the worst of all; 0 if there are none.

    >>> worst([1.0, math.nan, 2.0]), worst([])
    (nan, 0.0)
    """
    listed = [float(v) for v in values]
    return math.nan if any(math.isnan(v) for v in listed) else max(listed, default=0.0)


def relative(apart: float, way: float) -> float:
    """A distance as a fraction of another, which may be 0.

    >>> relative(1.0, 4.0), relative(0.0, 0.0), relative(1.0, 0.0)
    (0.25, 0.0, inf)
    """
    if way > 0:
        return apart / way
    return 0.0 if apart == 0 else math.inf


def parts(*many: Weights) -> Iterator[tuple[Tensor, ...]]:
    """Weight matrices and biases that belong together, in double precision."""
    for pairs in zip(*many, strict=True):
        yield tuple(W.double() for W, _ in pairs)
        if pairs[0][1] is not None:
            yield tuple(b.double() for _, b in pairs if b is not None)


def largest(weights: Weights) -> float:
    """The largest entry of all layers.

    >>> largest([(torch.tensor([[1.0, -3.0]]), torch.tensor([2.0]))])
    3.0
    """
    return worst(float(p.abs().max()) for (p,) in parts(weights))


def distance(a: Weights, b: Weights) -> float:
    """The largest difference of two entries."""
    return worst(float((p - q).abs().max()) for p, q in parts(a, b))


def euclidean(a: Weights, b: Weights) -> float:
    """|a - b|, all entries as one vector."""
    return math.sqrt(sum(float((p - q).square().sum()) for p, q in parts(a, b)))


def all_within(a: Weights, b: Weights, bound: Weights) -> bool:
    """Whether |a - b| <= bound, entry by entry; never where something is NaN."""
    return all(bool(((p - q).abs() <= e).all()) for p, q, e in parts(a, b, bound))


def clone(weights: Weights) -> Weights:
    """A copy that later steps do not change."""
    return [(W.clone(), None if b is None else b.clone()) for W, b in weights]


def of_problem(weights: Weights, i: int) -> Weights:
    """A copy of problem i of a batch."""
    return clone([(W[i], None if b is None else b[i]) for W, b in weights])


def together(many: list[Weights]) -> Weights:
    """The weights of several problems as one batch."""
    return [
        (
            torch.stack([weights[j][0] for weights in many]),
            None
            if many[0][j][1] is None
            else torch.stack([b for weights in many if (b := weights[j][1]) is not None]),
        )
        for j in range(len(many[0]))
    ]
