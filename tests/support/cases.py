"""The shared tables: networks of many shapes, the options they are compiled with, their data.

`exact_sgd` is the tests' own oracle: autograd and torch.optim.SGD, written without anything of the
package, so that neither the compilers nor `icgd.oracle` can share a mistake with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

import icgd
from icgd.transformer.blocks import Block, pack_block
from icgd.transformer.layout import Layout
from icgd.transformer.mask_rules import Step
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.runtime.executors.chain import DenseExecutor, StructuredExecutor
from icgd.transformer.runtime.watch import RangeWatch

Weights = list[tuple[Tensor, Tensor | None]]


@dataclass(frozen=True)
class NetworkCase:
    """A network to train; `seeds` are initialisations under which every layer learns."""

    name: str
    widths: tuple[int, ...]
    output: str = "linear"
    bias: bool = True
    lr: float = 0.05
    seeds: tuple[int, ...] = (0, 1, 2)

    @property
    def network(self) -> icgd.Network:
        return icgd.Network(self.widths, output=self.output, bias=self.bias)

    @property
    def n_layers(self) -> int:
        return len(self.widths) - 1


NETWORKS = [
    NetworkCase("scalar", (1, 1)),
    NetworkCase("one_layer", (6, 3)),
    NetworkCase("bottleneck", (3, 1, 7, 2)),
    NetworkCase("mixed", (4, 3, 5, 2)),
    NetworkCase("no_bias", (5, 5, 5), bias=False),
    NetworkCase("relu_output", (4, 6, 3), output="relu"),
    NetworkCase("relu_scalar", (1, 1), output="relu"),
    NetworkCase("deep", (3, 4, 4, 4, 4, 2)),
]
BY_NAME = {case.name: case for case in NETWORKS}


@dataclass(frozen=True)
class OptionsCase:
    """Compile options; `exact` says whether the program must follow SGD to 1e-12."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    exact: bool = True

    def __hash__(self) -> int:
        return hash(self.name)


DEFAULT = OptionsCase("default")
HARD = OptionsCase("hard", {"temperature": "hard", "n_grid": 16, "radius": 16.0}, exact=False)
BLURRED = OptionsCase("blurred", {"rho": 0.8, "radius": 16.0}, exact=False)
ODD_GRID = OptionsCase("odd_grid", {"n_grid": 41, "radius": 64.0})
OPTIONS = [DEFAULT, ODD_GRID, HARD, BLURRED]


def by_name(case: object) -> str:
    """The id of a case in test names."""
    return str(getattr(case, "name", case))


@cache
def compiled(case: NetworkCase, options: OptionsCase = DEFAULT) -> icgd.Program:
    """A program shared between tests, which must not alter it."""
    return icgd.compile(case.network, icgd.SGD(lr=case.lr), **options.options)


def data(
    case: NetworkCase, seed: int, n: int = 40, batch: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Examples of a noisy smooth teacher, the same numbers for the same seed."""
    generator = torch.Generator().manual_seed(1000 + seed)
    d_in, d_out = case.widths[0], case.widths[-1]
    X = torch.randn(*batch, n, d_in, generator=generator, dtype=torch.float64)
    mix = torch.randn(d_in, d_out, generator=generator, dtype=torch.float64)
    noise = torch.randn(*batch, n, d_out, generator=generator, dtype=torch.float64)
    return X, torch.tanh(X @ mix) + 0.5 + 0.1 * noise


def init(case: NetworkCase, seed: int, n_problems: int | None = None) -> Weights:
    """He initialisation with small random biases, so that no unit starts exactly at its kink."""
    generator = torch.Generator().manual_seed(2000 + seed)
    weights: Weights = []
    for W, b in case.network.init(seed, n_problems=n_problems):
        noise = torch.randn(W.shape[:-1], generator=generator, dtype=W.dtype)
        weights.append((W, None if b is None else b + 0.1 * noise))
    return weights


def forward(case: NetworkCase, weights: Weights, x: Tensor) -> Tensor:
    """The network itself, by torch.nn.functional."""
    for i, (W, b) in enumerate(weights, 1):
        x = torch.nn.functional.linear(x, W, b)
        if i < case.n_layers or case.output == "relu":
            x = torch.relu(x)
    return x


def exact_sgd(
    case: NetworkCase, start: Weights, X: Tensor, Y: Tensor, *, epochs: int = 1
) -> list[Weights]:
    """The weights after every round of torch.optim.SGD on 1/2 |o - y|^2, one example a round."""
    weights: Weights = [
        (W.clone().requires_grad_(), None if b is None else b.clone().requires_grad_())
        for W, b in start
    ]
    optimizer = torch.optim.SGD(tensors(weights), lr=case.lr)
    history = []
    for _ in range(epochs):
        for x, y in zip(X, Y, strict=True):
            optimizer.zero_grad()
            (0.5 * (forward(case, weights, x) - y).square().sum()).backward()
            optimizer.step()
            history.append(copied(weights))
    return history


def tensors(weights: Weights) -> list[Tensor]:
    """All W and b in order."""
    return [t for pair in weights for t in pair if t is not None]


def copied(weights: Weights) -> Weights:
    """Detached copies."""
    return [(W.detach().clone(), None if b is None else b.detach().clone()) for W, b in weights]


def distance(left: Weights, right: Weights) -> float:
    """Largest absolute difference over all entries; NaN counts as infinitely far."""
    pairs = list(zip(tensors(left), tensors(right), strict=True))
    assert all(a.shape == b.shape for a, b in pairs)
    gaps = torch.stack([(a - b).abs().max() for a, b in pairs])
    return float(torch.where(gaps.isnan(), torch.inf, gaps).max())


def identical(left: Weights, right: Weights) -> bool:
    """Equal to the last bit."""
    return all(torch.equal(a, b) for a, b in zip(tensors(left), tensors(right), strict=True))


# -- one step of a layer on both executors --------------------------------------------------------

ANY_STEP = Step("test", ("Z", 1), (("top", 0), ("bottom", 0)))


def unwatched() -> RangeWatch:
    """A range watch that is never alarmed."""
    return RangeWatch(math.inf, 2.0**30, lambda largest: 0.0)


def structured_step(
    layer: Layer,
    blocks: Sequence[Block],
    step: Step = ANY_STEP,
    *,
    batched: bool = False,
    keep_all: bool = False,
) -> Block:
    """The block the structured executor writes."""
    engine = StructuredExecutor(
        layer, ("top", "bottom"), unwatched(), batched=batched, keep_all=keep_all
    )
    with torch.no_grad():
        return engine.dump(engine.step([engine.load(b) for b in blocks], step, 1))


def dense_step(
    layer: Layer, layout: Layout, blocks: Sequence[Block], *, n_columns: int = 1
) -> Tensor:
    """The literal tokens the literal matrices write, (..., column, entry)."""
    engine = DenseExecutor(layer, layout, n_columns, unwatched())
    with torch.no_grad():
        return engine.step([engine.load(b) for b in blocks], ANY_STEP, 1)


def literal(block: Block, layout: Layout, n_columns: int = 1) -> Tensor:
    """A structured block written out as tokens, padded with zeros."""
    like = torch.zeros((), dtype=torch.float64)
    return pack_block(block, layout, n_columns, like)


def relative_gap(left: Tensor, right: Tensor) -> float:
    """Largest difference against the largest entry; NaN counts as infinitely far."""
    gap = float((left - right).abs().max() / left.abs().max().clamp(min=1.0))
    return math.inf if math.isnan(gap) else gap
