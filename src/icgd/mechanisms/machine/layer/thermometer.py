"""What shuts the heads of all buckets but the one a number lies in."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from icgd.transformer.gadgets.gates.routed import RoutedPart, RoutedUnits, Wire
from icgd.transformer.gadgets.machine_heads.head_table import Bucket
from icgd.transformer.nn.feedforward import frozen
from icgd.transformer.nn.symbolic import Builder


class Thermometer(RoutedPart):
    """off of every bucket and number: 0 where the number lies in the bucket, at least 1 elsewhere.

    Statement: [COT] Lemma A.5

    Differs from the paper: new; buckets let one small grid read numbers of any size.
    """

    def __init__(
        self,
        wire: Wire,
        buckets: Sequence[Bucket],
        target: str,
        off: str,
        *,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(off, target, dtype)
        self.wire = wire
        each = [bucket.units(dtype) for bucket in buckets]
        self.bucket_of = tuple(k for k, units in enumerate(each) for _ in units)
        units = [unit for several in each for unit in several]
        table = torch.tensor(units, dtype=torch.float64).reshape(-1, 2)
        self.factor = frozen(table[:, 0], (len(units),), dtype)
        self.bias = frozen(table[:, 1], (len(units),), dtype)
        self.write = frozen(1.0, (), dtype)
        self.keep()

    def units(self) -> list[RoutedUnits]:
        """At most a few units per bucket and number."""
        n, flags = self.wire.size, {self.off[0]: self.shut.data}
        return [
            RoutedUnits(
                n,
                [(self.wire, self.factor.data[j])],
                flags,
                (self.target, bucket * n),
                self.write.data,
                self.bias.data[j],
            )
            for j, bucket in enumerate(self.bucket_of)
        ]

    def emit(self, b: Builder) -> None:
        """Nothing: the heads of a plan look at the bucket themselves."""
        self.is_open(b)
