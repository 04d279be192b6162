"""Where heads are certified: spans of exponents, and how arguments are reduced to them.

A number q is decoded as q = +- 2^(b k) u, u in an interval of ratio 2^b: (1, 4] for reads and roots (b = 2),
(1, 2] for the reciprocal, (3/4, 3/2] for the logarithm (b = 1). Every interval is one literal head ("bucket").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter, OutOfRange
from icgd.transformer.gadgets.machine_heads.families import FAMILIES, LN2, PI, exactly

Mode = Literal["fixed", "float"]

SPANS = {torch.float64: (-256, 256), torch.float32: (-64, 24)}
POWERS = {torch.float64: (-1000, 1000), torch.float32: (-120, 120)}
TURNS = {torch.float64: 512, torch.float32: 128}
MANTISSA = {torch.float64: 52, torch.float32: 23}
WIDEST = {torch.float64: 944, torch.float32: 88}
"""A shut bucket's thermometer reaches 2^(mantissa + span): it must not overflow."""
SLACK = Decimal(2) ** -10
"""Edges of the cosine's buckets are shifted by it: no bucket ends at 0, where floats have no spacing."""


class OutOfDomain(OutOfRange):
    """A number that a function head was asked, beyond where it is certified.

    function  whose head it is
    """

    def __init__(self, function: str, value: float, limits: str, remedy: str) -> None:
        self.function = function
        what = f"The head of {function} met {value:.9g}"
        super().__init__(what, value, math.inf, "", remedy, limits)
        self.args = (f"{self.met}, and is certified for {limits} only. {remedy}",)

    def __reduce__(self) -> tuple[object, ...]:
        return OutOfDomain, (self.function, self.value, self.limits, self.remedy)

    def __str__(self) -> str:
        return str(self.args[0])

    def advising(self, remedy: str) -> OutOfDomain:
        """The same with another remedy."""
        return OutOfDomain(self.function, self.value, self.limits, remedy)


@dataclass(frozen=True)
class Domain:
    """Where a head may be asked: low <= q <= high, or low < q where `open_low`; |q| where `of_size`.

    zero_below  numbers up to this size are answered by 0, which the error bound knows
    """

    function: str
    low: float
    high: float
    open_low: bool = False
    of_size: bool = False
    zero_below: float = 0.0
    remedy: str = ""

    def contains(self, q: Tensor) -> Tensor:
        """Entry by entry; NaN is nowhere."""
        size = q.abs() if self.of_size else q
        above = size > self.low if self.open_low else size >= self.low
        return above & (size <= self.high) & q.isfinite()

    def check(self, q: Tensor) -> None:
        """Raise OutOfDomain for the first number outside."""
        inside = self.contains(q)
        if not bool(inside.all()):
            value = float(q.reshape(-1)[int((~inside).reshape(-1).int().argmax())])
            raise OutOfDomain(self.function, value, self.limits, self.remedy)

    @property
    def limits(self) -> str:
        """The interval in symbols."""
        size = "|q|" if self.of_size else "q"
        if self.low == -math.inf and self.high == math.inf:
            return "finite q"
        below = f"{self.low:.6g} {'<' if self.open_low else '<='} " if self.low > -math.inf else ""
        return f"{below}{size} <= {self.high:.6g}"


@dataclass(frozen=True)
class Ranges:
    """Mode and limits of all heads of a machine.

    radius     products read |q| <= radius (mode "fixed")
    exponents  numbers are decoded on (2^lo, 2^hi] (mode "float", roots, reciprocal, log)
    powers     exp is computed on results of about (2^lo, 2^hi)
    turns      sin and cos on |q| < turns pi
    """

    mode: Mode
    radius: float
    exponents: tuple[int, int]
    powers: tuple[int, int]
    turns: int
    dtype: torch.dtype

    def __post_init__(self) -> None:
        if self.mode not in ("fixed", "float"):
            raise InvalidParameter("heads", self.mode, "be 'fixed' or 'float'")
        if self.dtype not in SPANS:
            raise InvalidParameter("dtype", self.dtype, "be torch.float64 or torch.float32")
        if not (math.isfinite(self.radius) and 1e-30 <= self.radius <= 1e30):
            raise InvalidParameter("radius", self.radius, "lie between 1e-30 and 1e30")
        low, high = self.exponents
        if low % 2 or high % 2 or not low < 0 < high or high - low > WIDEST[self.dtype]:
            raise InvalidParameter(
                "exponents",
                self.exponents,
                f"be even, low < 0 < high, at most {WIDEST[self.dtype]} apart in {self.dtype}",
            )
        most = POWERS[self.dtype][1]
        if max(-low, high) > most or not -most <= self.powers[0] < 0 < self.powers[1] <= most:
            raise AssumptionViolated(
                f"`exponents` and `powers` must stay within +-{most} in {self.dtype}. Got {self.exponents} and "
                f"{self.powers}."
            )
        if not 1 <= self.turns <= TURNS[self.dtype]:
            raise InvalidParameter("turns", self.turns, f"lie between 1 and {TURNS[self.dtype]}")

    def rounded(self, value: Decimal | float) -> float:
        """A number this precision has."""
        return float(torch.tensor(float(value), dtype=self.dtype))

    @property
    def lowest(self) -> float:
        """Numbers up to this size are not decoded."""
        return 2.0 ** self.exponents[0]

    @property
    def highest(self) -> float:
        """The largest number decoded."""
        return 2.0 ** self.exponents[1]

    @cached_property
    def exp_edges(self) -> tuple[float, float]:
        """exp is 0 up to the first and certified up to the second."""
        low, high = self.powers
        half = Decimal("0.5")
        with exactly():
            return self.rounded((low + half) * LN2), self.rounded((high - half) * LN2)

    @property
    def reach(self) -> float:
        """sin and cos are certified up to this size."""
        return float(math.floor((self.turns - 0.5) * math.pi))

    @property
    def erf_radius(self) -> float:
        """erf is a head up to here, and +-1 beyond."""
        return FAMILIES[self.dtype]["erf"].radius

    def parts(self, constant: Decimal, largest: int) -> tuple[float, float]:
        """The constant as hi + lo, where n hi is exact for every half-integer |n| <= largest."""
        spare = MANTISSA[self.dtype] + 1 - (2 * largest).bit_length()
        with exactly():
            unit = Decimal(2) ** (math.frexp(float(constant))[1] - spare)
            high = (constant / unit).to_integral_value(ROUND_FLOOR) * unit
            return float(high), self.rounded(constant - high)

    @cached_property
    def ln2(self) -> tuple[float, float]:
        """ln 2 in two parts."""
        return self.parts(LN2, max(-self.powers[0], self.powers[1]))

    @cached_property
    def pi(self) -> tuple[float, float]:
        """pi in two parts."""
        return self.parts(PI, self.turns + 1)

    def domain(self, name: str) -> Domain:
        """Where the head of `name` may be asked; "read" is the query of a product."""
        return self._domains[name]

    @cached_property
    def _domains(self) -> dict[str, Domain]:
        wider = "Compile with a wider span of exponents, or scale the data."
        positive = f"It needs numbers above 0. {wider}"
        low, high = self.lowest, self.highest
        if self.mode == "fixed":
            radius = "Compile with a larger radius, or with heads='float'."
            read = Domain("a product", -self.radius, self.radius, remedy=radius)
        else:
            read = Domain("a product", 0.0, high, of_size=True, zero_below=low, remedy=wider)
        zero, top = self.exp_edges
        angle = "Compile with more turns, or reduce the angle first."
        domains = {
            "read": read,
            "sqrt": Domain("sqrt", 0.0, high, zero_below=low, remedy=positive),
            "rsqrt": Domain("rsqrt", low, high, open_low=True, remedy=positive),
            "log": Domain("log", low, high, open_low=True, remedy=positive),
            "reciprocal": Domain("reciprocal", low, high, True, True, 0.0, wider),
            "exp": Domain(
                "exp", -math.inf, top, zero_below=zero, remedy="Subtract the maximum first."
            ),
            "sin": Domain("sin", 0.0, self.reach, of_size=True, remedy=angle),
            "cos": Domain("cos", 0.0, self.reach, of_size=True, remedy=angle),
        }
        for name in ("erf", "sigmoid", "tanh"):
            domains[name] = Domain(name, -math.inf, math.inf, remedy="Look for a NaN before it.")
        return domains
