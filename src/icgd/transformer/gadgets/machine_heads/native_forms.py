"""The heads of a machine as C++ operations; numbers elsewhere than on the CPU go to the torch form."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from icgd.transformer.gadgets.machine_heads.families import LN2
from icgd.transformer.gadgets.machine_heads.ranges import MANTISSA, Ranges
from icgd.transformer.gadgets.machine_heads.ratio import Ratio
from icgd.transformer.gadgets.machine_heads.torch_forms import EDGES, TorchForms
from icgd.transformer.gadgets.native.kernels import KINDS, require_kernels

STEPS = {"read": 2, "sqrt": 2, "rsqrt": 2, "reciprocal": 1, "log": 1}
"""How many binary digits the exponent is decoded by."""


def sinh_series(largest: float, bits: int) -> list[float]:
    """Coefficients of sinh(y) / y in y^2, highest power first: enough of them for |y| <= largest.

    >>> sinh_series(0.1, 23)
    [0.008333333333333333, 0.16666666666666666, 1.0]
    """
    series, term, j = [1.0], 1.0, 0
    while True:
        j += 1
        term *= largest * largest / (2 * j * (2 * j + 1))
        if term < 2.0 ** -(bits + 6):
            return series[::-1]
        series.append(1 / math.factorial(2 * j + 1))


class NativeForms(TorchForms):
    """The same functions as TorchForms, evaluated in blocks by compiled loops."""

    def __init__(self, ratio: Callable[[str], Ratio], ranges: Ranges) -> None:
        super().__init__(ratio, ranges)
        require_kernels()
        self._read = torch.ops.icgd_heads.read.default
        self._function = torch.ops.icgd_heads.function.default
        self._decoder = ranges.mode == "float"
        self._constants: dict[str, tuple[Tensor, Tensor, int]] = {}

    def read(self, q: Tensor) -> Tensor:
        """What a product head reads for q."""
        return self.read_watched(q)[0]

    def read_watched(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """What is read, and the largest |q| (NaN if one is), in one pass."""
        if not q.is_cpu:
            return super().read_watched(q)
        table, limits, _ = self._constants.get("read") or self._prepared("read")
        return self._read(q, table, limits, self._decoder)

    def function(self, name: str, q: Tensor) -> Tensor:
        """The head of `name` for every entry."""
        prepared = self._constants.get(name)
        if prepared is None:
            if name not in KINDS:
                return super().function(name, q)
            prepared = self._prepared(name)
        if not q.is_cpu:
            return super().function(name, q)
        return self._function(q, *prepared)

    def _prepared(self, name: str) -> tuple[Tensor, Tensor, int]:
        """Rows of coefficients with the series of sinh below, the limits, and the number of the head."""
        ratio = self.ratio(name)
        series = sinh_series(ratio.base * ratio.fit.family.radius, MANTISSA[self.ranges.dtype])
        n = ratio.table.shape[1]
        last = torch.tensor([0.0] * (n - len(series)) + series, dtype=torch.float64)
        table = torch.cat([ratio.table.double(), last.unsqueeze(0)])
        limits = self._limits(name, ratio, len(series))
        kind = KINDS.index(name) if name in KINDS else -1
        self._constants[name] = table, torch.tensor(limits, dtype=torch.float64), kind
        return self._constants[name]

    def _limits(self, name: str, ratio: Ratio, terms: int) -> list[float]:
        """In the order of `Limits` in the source."""
        ranges = self.ranges
        lowest, highest, first, second = ranges.lowest, ranges.highest, 0.0, 0.0
        step = STEPS.get(name, 1)
        low, high = (edge // step for edge in ranges.exponents)
        if name == "log":
            first = float(LN2)
        elif name == "exp":
            (lowest, highest), (first, second) = ranges.exp_edges, ranges.ln2
            low, high = ranges.powers[0] + 1, ranges.powers[1] - 1
        elif name == "erf":
            highest = ranges.erf_radius
        elif name in ("sin", "cos"):
            highest, (first, second) = ranges.reach, ranges.pi
        shift, edge = ratio.fit.family.shift, EDGES.get(name, 1.0)
        rest = (first, second, low, high, edge, terms)
        return [float(x) for x in (ratio.base, shift, lowest, highest, *rest)]
