"""The router: step kinds as data, each a set of routes that are open on its own blocks only.

A kind names the flags that are zero exactly when the stacked input is of this kind; its routes copy
slots of the input to slots of the working token through gates shut by those flags. Adding a kind
adds gates and touches no other kind, because a shut gate is exactly zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from icgd.transformer.gadgets.gates.gate import Gate
from icgd.transformer.layout import Layout
from icgd.transformer.nn.feedforward import FeedForwardPart, Units


@dataclass(frozen=True)
class Route:
    """target += sum coef * source on this kind of step; `closed` shuts single entries."""

    source: Mapping[str, float]
    target: str
    closed: str | None = None


@dataclass(frozen=True)
class StepKind:
    """A kind of step: where its operands come from and which flags the block it writes carries.

    off     flags of the stacked input, all 0 on this kind and at least one >= 1 on every other
    carries flags of the input that are passed on: target <- source
    raises  scalar slots of the working token that are 1 on this kind
    marks   scalar slots raised unless the named flag slot is 1
    """

    name: str
    off: tuple[str, ...]
    routes: Sequence[Route]
    carries: Mapping[str, str] = field(default_factory=dict)
    raises: tuple[str, ...] = ()
    marks: Mapping[str, str] = field(default_factory=dict)


def router(
    kinds: Sequence[StepKind], target: Layout, *, capacity: float, dtype: torch.dtype
) -> dict[str, FeedForwardPart]:
    """The gates and flag units of all kinds, named for what they do.

    Statement: [COT] Proposition 4.3

    Differs from the paper: operands are gated, not outputs, with offsets that are sums of flags. The
    printed gate leaves -M/2 behind and its tag identities do not separate the four types.
    """
    parts: dict[str, FeedForwardPart] = {}
    for kind in kinds:
        for route in kind.routes:
            off = kind.off if route.closed is None else (route.closed, *kind.off)
            parts[f"{kind.name}:{'-'.join(route.source)}>{route.target}"] = Gate(
                target[route.target].shape,
                route.source,
                route.target,
                off,
                capacity=capacity,
                dtype=dtype,
            )
        shut = dict.fromkeys(kind.off, -1.0)
        for slot, flag in kind.carries.items():
            # A flag is 0 or 1, so one unit carries it: relu(flag - off).
            parts[f"{kind.name}:{flag}>{slot}"] = Units(
                (), {**shut, flag: 1.0}, {slot: 1.0}, dtype=dtype
            )
        if kind.raises:
            parts[f"{kind.name}:raise"] = Units(
                (), shut, dict.fromkeys(kind.raises, 1.0), bias=1.0, dtype=dtype
            )
        for slot, unless in kind.marks.items():
            parts[f"{kind.name}:mark-{slot}"] = Units(
                (), {**shut, unless: -1.0}, {slot: 1.0}, bias=1.0, dtype=dtype
            )
    return parts
