"""Tables of tokens that heads attend over: grids that read a number, tables of functions, places of a row."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from icgd.mechanisms.machine.layer.banks import BankForm
from icgd.transformer.gadgets.machine_heads.head_table import HeadTable
from icgd.transformer.gadgets.machine_heads.heads import Heads
from icgd.transformer.layout import Slot
from icgd.transformer.nn.feedforward import frozen
from icgd.transformer.nn.symbolic import once_fixed
from icgd.transformer.nn.views import Grid


class _Frozen(nn.Module):
    """Weights that know what they were compiled to."""

    def keep(self) -> None:
        """Remember the weights of the compiler, and where they stand."""
        self._compiled = {name: p.detach().clone() for name, p in self.named_parameters()}
        self._placed = self._places()

    def _places(self) -> dict[str, object]:
        kinds = (str, int, tuple)
        own = {name: value for name, value in vars(self).items() if isinstance(value, kinds)}
        return {name: value for name, value in own.items() if name != "training"}

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight, and its place, is the one that was compiled."""
        same = all(torch.equal(p, self._compiled[name]) for name, p in self.named_parameters())
        return same and self._places() == self._placed


class GridTable(_Frozen):
    """Tokens with rates, offsets and values, and the buckets of the heads that look at them.

    Where heads have buckets, one more token takes the weight of a head that is shut.
    """

    def __init__(self, name: str, table: HeadTable, dtype: torch.dtype) -> None:
        super().__init__()
        self.name, self.buckets = name, tuple(table.buckets)
        rates, offsets, values = table.rates, table.offsets, table.values
        shut = torch.zeros_like(rates)
        self.has_sink = any(bucket.units(dtype) for bucket in self.buckets)
        if self.has_sink:
            threshold, strength = table.sink
            rates, values = (torch.cat([t, t.new_zeros(1)]) for t in (rates, values))
            offsets = torch.cat([offsets, offsets.new_tensor([-threshold])])
            shut = torch.cat([shut, shut.new_tensor([strength])])
        self.rates, self.offsets, self.values, self.shut = (
            frozen(t, t.shape, dtype) for t in (rates, offsets, values, shut)
        )
        each = [(b.scale, b.gain, b.plus, b.shift + b.low_shift) for b in self.buckets]
        self.per_bucket = frozen(torch.tensor(each, dtype=torch.float64), (len(each), 4), dtype)
        self.keep()

    @property
    def n_tokens(self) -> int:
        """Tokens, the sink included."""
        return self.rates.numel()

    @property
    def slots(self) -> list[Slot]:
        """What stands on its tokens besides what is multiplied."""
        names = ("rate", "offset", "shut", "value", "inside")
        return [Slot(name, ()) for name in names]

    def position(self) -> dict[str, torch.Tensor]:
        """The fixed entries of its tokens."""
        inside = torch.ones_like(self.values.data)
        if self.has_sink:
            inside[-1] = 0.0
        return {
            "rate": self.rates.data,
            "offset": self.offsets.data,
            "shut": self.shut.data,
            "value": self.values.data,
            "inside": inside,
        }

    def grid(self) -> Grid:
        """For people: where its tokens stand."""
        return Grid(self.values.data, self.rates.data, self.offsets.data, self.values.data)


class RowTable(_Frozen):
    """The places of a row: token k answers to entry k of the query, and to nothing else."""

    def __init__(self, name: str, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.name, self.width = name, width
        self.hot = frozen(torch.eye(width, dtype=torch.float64), (width, width), dtype)
        self.keep()

    @property
    def n_tokens(self) -> int:
        """One token per place."""
        return self.width

    @property
    def slots(self) -> list[Slot]:
        """What stands on its tokens."""
        return [Slot("hot", (self.width,)), Slot("offset", ())]

    def position(self) -> dict[str, torch.Tensor]:
        """The fixed entries of its tokens."""
        return {"hot": self.hot.data, "offset": self.hot.data.new_zeros(self.width)}


Table = GridTable | RowTable


def tables_for(forms: Iterable[BankForm], heads: Heads, dtype: torch.dtype) -> dict[str, Table]:
    """The tables that these banks look at."""
    tables: dict[str, Table] = {}
    for form in forms:
        name = form.table
        if name in tables:
            continue
        if name.startswith("rows"):
            tables[name] = RowTable(name, form.shapes[0][-1], dtype)
        else:
            tables[name] = GridTable(name, heads.table(name), dtype)
    return tables
