"""The sheet a recording is written on: blocks and steps as entries of a trace, numbers in pools."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from icgd.transformer.blocks import Block
from icgd.transformer.layout import Layout
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.views import HeadView, Interest, StageView
from icgd.transformer.trace.arrays import ArrayStore, PoolName

SMALL = 2.0**-29
"""Share of a value up to which a difference in 32 bits loses less than the value's own rounding."""


class Sheet:
    """Entries of a trace in the making, and how large they are.

    layout    named slots of a block
    interest  how much of a step is kept
    """

    def __init__(self, layout: Layout, interest: Interest) -> None:
        self.layout, self.interest = layout, interest
        self.blocks: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.store = ArrayStore()
        self._each = {slot.name for slot in layout if slot.each}
        self._text, self.ratio = 0, 4 / 3  # of base64, until what is held was compressed once

    @property
    def size(self) -> float:
        """Characters of the file so far, about."""
        return self.store.raw_size * self.ratio + self._text

    def measure(self) -> float:
        """See how well the numbers compress, with a little room for those to come; by what size changed."""
        before = self.size
        encoded = sum(len(pool["data"]) for pool in self.store.pools().values())
        self.ratio = 1.05 * encoded / max(1, self.store.raw_size)
        return self.size / before

    def put_block(
        self, block: Block, address: Address, round_: int, origin: str, exact: Mapping[str, Tensor]
    ) -> int:
        """Write a block down; its index."""
        slots, away, tokens = {}, {}, 1
        for slot in self.layout:
            value = block.value(slot.name)
            if isinstance(value, Tensor):
                value = value[(0,) * (value.dim() - len(slot.shape) - slot.each)]
                if slot.each:
                    tokens = max(tokens, value.shape[0])
                if not bool(value.any()) and slot.name not in exact:
                    continue
            elif slot.name in exact:
                # The layer wrote nothing here, or a constant: it is as far from exact as it is.
                value = torch.full(exact[slot.name].shape, value, dtype=torch.float64)
            elif value == 0.0:
                continue
            slots[slot.name] = self._value(value, each=slot.each)
            if slot.name in exact and isinstance(value, Tensor):
                difference = value.double() - _fitted(exact[slot.name], value, each=slot.each)
                pool = _pool_for(difference, value)
                away[slot.name] = self._value(difference, each=slot.each, pool=pool)
        self.blocks.append(
            {
                "kind": address[0],
                "layer": address[1],
                "round": round_,
                "origin": origin,
                "slots": slots,
                "away": away,
                "tokens": tokens,
                "shown": min(tokens, self.interest.tokens),
            }
        )
        self._text += _length(self.blocks[-1])
        return len(self.blocks) - 1

    def put_step(
        self,
        round_: int,
        place: int,
        reads: Sequence[int],
        writes: int,
        stages: Sequence[StageView],
    ) -> None:
        """Write a step down."""
        last = len(stages) - 1
        self.steps.append(
            {
                "round": round_,
                "place": place,
                "reads": list(reads),
                "writes": writes,
                "stages": [self._stage(view, last=i == last) for i, view in enumerate(stages)],
            }
        )
        self._text += _length(self.steps[-1])

    def _stage(self, view: StageView, *, last: bool) -> dict[str, Any]:
        slots: dict[str, Any] = {}
        # What the last stage of a layer gives back is the block that is written.
        if not (last and view.open):
            for name, value in view.slots.items():
                if not isinstance(value, Tensor) or bool(value.any()):
                    slots[name] = self._value(value, each=name in self._each)
                elif not view.open:  # a stage of a stack tells what it changed, also to zero
                    slots[name] = 0.0
        return {
            "open": "".join("1" if gate else "0" for gate in view.open),
            "slots": slots,
            "heads": [self._heads(head) for head in view.heads],
        }

    def _heads(self, head: HeadView) -> dict[str, Any]:
        use = float(head.asked.abs().max()) / head.radius if head.asked.numel() else 0.0
        # Heads on a grid multiply to the last bit, which is worth seeing; others show a picture.
        pool: PoolName = "f8" if head.over == "grid" else "f4"
        return {
            "bank": head.bank,
            "slot": head.slot,
            "over": head.over,
            "heads": list(head.heads),
            "asked": self._ref(head.asked, pool),
            "read": None if head.read is None else self._ref(head.read, pool),
            "weights": None if head.weights is None else self._ref(head.weights, "f4"),
            "use": use if math.isfinite(head.radius) and math.isfinite(use) else None,
        }

    def _value(self, value: Tensor | float, *, each: bool, pool: PoolName = "f8") -> Any:
        if not isinstance(value, Tensor):
            return value if math.isfinite(value) else self.store.put(value)
        if each and value.dim():
            value = value[: self.interest.tokens]
        return self._ref(value, pool)

    def _ref(self, value: Tensor, pool: PoolName) -> list[Any]:
        return self.store.put(value.detach().cpu().to(torch.float64).numpy(), pool)


def _length(entry: Any) -> int:
    """Characters of an entry in the file, about."""
    return len(json.dumps(entry, separators=(",", ":")))


def _pool_for(difference: Tensor, value: Tensor) -> PoolName:
    """32 bits hold a difference if what they lose of it is below the last bit of the value."""
    size = float(value.abs().max()) if value.numel() else 0.0
    apart = difference[~difference.isnan()].abs()
    return "f4" if not apart.numel() or float(apart.max()) <= SMALL * size else "f8"


def _fitted(exact: Tensor, like: Tensor, *, each: bool) -> Tensor:
    """An exact value in the shape of a slot padded with zeros; NaN for tokens it says nothing of."""
    exact = exact.double()
    padded = torch.zeros(like.shape, dtype=torch.float64)
    padded[tuple(slice(0, n) for n in exact.shape)] = exact
    if each:
        padded[exact.shape[0] :] = torch.nan
    return padded
