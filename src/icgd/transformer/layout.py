"""Named coordinates of a token: the only place where a name becomes an index."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from icgd.errors import LayoutError


@dataclass(frozen=True)
class Slot:
    """A named group of coordinates; matrices are stored row by row.

    each    whether every token of a block has a value of its own; otherwise all tokens hold the same
    ragged  whether it may hold a tensor of any shape with at most that many entries, written row by row
    """

    name: str
    shape: tuple[int, ...]
    meaning: str = ""
    each: bool = False
    ragged: bool = False

    @property
    def size(self) -> int:
        """How many coordinates the slot takes."""
        return math.prod(self.shape)


class Layout:
    """An ordered list of slots that together make a token.

    >>> layout = Layout([Slot("out", (2,)), Slot("weight", (2, 2)), Slot("flag", ())])
    >>> layout.width, layout.slice("weight")
    (7, slice(2, 6, None))
    >>> layout.pack({"out": torch.tensor([1.0, 2.0]), "flag": 1.0}).tolist()
    [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    """

    def __init__(self, slots: list[Slot] | tuple[Slot, ...]) -> None:
        self.slots = tuple(slots)
        self._by_name = {slot.name: slot for slot in self.slots}
        if len(self._by_name) != len(self.slots):
            raise LayoutError(f"A layout needs distinct slot names. Got {self.names}.")
        self._start: dict[str, int] = {}
        start = 0
        for slot in self.slots:
            self._start[slot.name] = start
            start += slot.size
        self.width = start

    @property
    def names(self) -> tuple[str, ...]:
        """The slot names in order."""
        return tuple(slot.name for slot in self.slots)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Slot]:
        return iter(self.slots)

    def __getitem__(self, name: str) -> Slot:
        try:
            return self._by_name[name]
        except KeyError:
            raise LayoutError(
                f"No slot `{name}`. This token has: {', '.join(self.names)}."
            ) from None

    def slice(self, name: str) -> builtins.slice:
        """The coordinates of a slot."""
        slot = self[name]
        start = self._start[name]
        return slice(start, start + slot.size)

    def index(self, name: str) -> Tensor:
        """The coordinates of a slot as an integer tensor of the slot's own shape."""
        where = self.slice(name)
        return torch.arange(where.start, where.stop).reshape(self[name].shape)

    @staticmethod
    def stack(**parts: Layout) -> Layout:
        """Put layouts one after the other; the slots of part `top` become `top/...`."""
        return Layout(
            [
                replace(slot, name=f"{part}/{slot.name}")
                for part, layout in parts.items()
                for slot in layout
            ]
        )

    def pack(
        self,
        values: Mapping[str, Tensor | float],
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
        batch: tuple[int, ...] = (),
    ) -> Tensor:
        """Write values into a token; a value smaller than its slot is padded with zeros."""
        token = torch.zeros((*batch, self.width), dtype=dtype, device=device)
        for name, value in values.items():
            slot = self[name]
            room = torch.zeros((*batch, *slot.shape), dtype=dtype, device=device)
            if isinstance(value, Tensor) and slot.shape:
                corner = value.shape[value.dim() - len(slot.shape) :]
                if len(corner) < len(slot.shape) or any(
                    have > fit for have, fit in zip(corner, slot.shape, strict=True)
                ):
                    raise LayoutError(
                        f"A value of shape {tuple(corner)} does not fit slot `{name}` "
                        f"of shape {slot.shape}."
                    )
                region: tuple[Any, ...] = (..., *(slice(0, n) for n in corner))
                room[region] = value
            else:
                room[...] = value
            token[..., self.slice(name)] = room.reshape((*batch, slot.size))
        return token

    def unpack(self, token: Tensor) -> dict[str, Tensor]:
        """Read every slot of a token, in the slot's shape."""
        if token.shape[-1] != self.width:
            raise LayoutError(
                f"A token of this layout has {self.width} entries. Got {token.shape[-1]}."
            )
        return {
            slot.name: token[..., self.slice(slot.name)].reshape((*token.shape[:-1], *slot.shape))
            for slot in self.slots
        }

    def to_json(self) -> list[dict[str, Any]]:
        """A plain description, saved with the weights so that they explain themselves."""
        return [
            {
                "name": s.name,
                "shape": list(s.shape),
                "start": self._start[s.name],
                "meaning": s.meaning,
                **({"each": True} if s.each else {}),
                **({"ragged": True} if s.ragged else {}),
            }
            for s in self.slots
        ]
