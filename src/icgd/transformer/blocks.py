"""Blocks of the prompt as the structured executor keeps them: one value per named slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from icgd.transformer.layout import Layout

Tag = float | str
"""What is known of a slot beforehand: a number (a flag), "tensor", or "closed:<slope>"."""


@dataclass(slots=True)
class Block:
    """Slot values of one block; slots not mentioned are exactly zero.

    signature  the slots with their tags in alphabetical order, all that a plan may depend on
    hats       what the grid reads for a slot, where it has been computed already
    kind       a number for signature and hats together, given by the executor that met it first
    """

    slots: dict[str, Tensor]
    signature: tuple[tuple[str, Tag], ...]
    hats: dict[str, Tensor] = field(default_factory=dict)
    kind: int = -1

    @property
    def tags(self) -> dict[str, Tag]:
        """Tag of every slot that is not exactly zero."""
        return dict(self.signature)

    def value(self, slot: str) -> Tensor | float:
        """The number or tensor in a slot, written out."""
        tag = self.tags.get(slot, 0.0)
        if not isinstance(tag, str):
            return tag
        if tag.startswith("closed:"):
            return closed_from(self.slots[slot], float(tag.removeprefix("closed:")))
        return self.slots[slot]


def closed_from(activation: Tensor, slope: float) -> Tensor:
    """1 - relu(k a) + relu(k a - 1), as the literal units compute it."""
    scaled = slope * activation
    return 1.0 - scaled.relu() + (scaled - 1.0).relu()


def make_block(values: Mapping[str, Tensor | float]) -> Block:
    """A block from plain values; numbers are flags, tensors are data."""
    slots = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    tags: dict[str, Tag] = {
        name: "tensor" if isinstance(value, Tensor) else float(value)
        for name, value in values.items()
        if isinstance(value, Tensor) or value != 0.0
    }
    return Block(slots, tuple(sorted(tags.items())))


def pack_block(block: Block, layout: Layout, n_columns: int, like: Tensor) -> Tensor:
    """The literal tokens of a block: `n_columns` rows, equal but for the slots each has to itself."""
    values: dict[str, Tensor | float] = {}
    batch: tuple[int, ...] = ()
    for slot in layout:
        value = block.value(slot.name)
        if slot.ragged and isinstance(value, Tensor):
            value = in_a_row(value, like)
        if isinstance(value, Tensor):
            n_axes = len(slot.shape)
            batch = tuple(value.shape[: value.dim() - n_axes - slot.each])
            value = value if slot.each else value.unsqueeze(value.dim() - n_axes)
        values[slot.name] = value
    return layout.pack(values, dtype=like.dtype, device=like.device, batch=(*batch, n_columns))


def in_a_row(value: Tensor, like: Tensor) -> Tensor:
    """A tensor of any shape as the numbers of a block; a flag with its complement behind it."""
    flat = value.reshape(-1)
    if flat.dtype == torch.bool:
        flat = torch.cat([flat, ~flat])
    return flat.to(like)


def unpack_block(tokens: Tensor, layout: Layout) -> Block:
    """Read a literal block back: every slot becomes a tensor, from its first column if it is shared."""
    shared, each = layout.unpack(tokens[..., 0, :]), layout.unpack(tokens)
    slots = {slot.name: (each if slot.each else shared)[slot.name] for slot in layout}
    return Block(slots, tuple((name, "tensor") for name in slots))
