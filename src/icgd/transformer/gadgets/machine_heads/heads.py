"""All heads of a machine: what a product reads and a function computes, with errors and literal form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, get_args

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.machine_heads.families import FAMILIES, TOKENS
from icgd.transformer.gadgets.machine_heads.fitting import Values, fit
from icgd.transformer.gadgets.machine_heads.head_table import HeadTable
from icgd.transformer.gadgets.machine_heads.native_forms import NativeForms
from icgd.transformer.gadgets.machine_heads.ranges import (
    POWERS,
    SPANS,
    TURNS,
    Domain,
    Mode,
    Ranges,
)
from icgd.transformer.gadgets.machine_heads.ratio import Ratio
from icgd.transformer.gadgets.machine_heads.tables import BUCKETS, fitted_table, native_table
from icgd.transformer.gadgets.machine_heads.torch_forms import TorchForms
from icgd.transformer.gadgets.native.kernels import kernels_available

Kernels = Literal["auto", "cpp", "torch"]
NATIVE = ("sigmoid", "tanh")
FUNCTIONS = (*(name for name in BUCKETS if name != "read"), *NATIVE)
"""Every function there is a head for."""


@dataclass(frozen=True)
class HeadError:
    """|computed - f(q)| <= relative |computed| + absolute.

    below        bound on f where the answer is exactly 0 because the number is below every bucket
    certificate  of the head on what range reduction leaves; its sup_error is absolute on that interval
    """

    relative: float
    absolute: float
    below: float
    certificate: Certificate


@cache
def fitted_ratio(
    name: str,
    dtype: torch.dtype,
    radius: float | None = None,
    values: Values | None = None,
    grid: Grid | None = None,
) -> Ratio:
    """The head of a family, fitted once per process; `radius` where it is free, `values` of an earlier fit."""
    family = FAMILIES[dtype][name]
    if radius is not None:
        family = replace(family, radius=radius)
    return Ratio.of(fit(family, grid or TOKENS[dtype][name], dtype, values))


def _forms(kernels: Kernels) -> type[TorchForms]:
    if kernels not in get_args(Kernels):
        raise InvalidParameter("kernels", kernels, "be 'auto', 'cpp' or 'torch'")
    if kernels == "torch" or (kernels == "auto" and not kernels_available()):
        return TorchForms
    return NativeForms


Grid = tuple[int, float, float]
"""Tokens of a grid, width of the kernel in spacings, margin in widths."""


def _family(name: str) -> str:
    """A cosine is a sine of a shifted angle."""
    return "sin" if name == "cos" else name


class Heads:
    """What the heads of a machine compute.

    mode       "fixed": products read |q| <= radius. "float": behind an exponent decoder, relative to q
    exponents  (lo, hi): numbers are decoded on (2^lo, 2^hi]
    powers     (lo, hi): exp gives results of about (2^lo, 2^hi)
    turns      sin and cos on |q| < turns pi
    margin     of the grid of the heads that multiply, in widths of the kernel; exact to rounding unless given
    fitted     values of tokens by function, as `values_of` gives them: of a program that was saved
    kernels    "cpp", "torch", or "auto": C++ where it can be built, and a warning where it cannot

    Outside of its domain a function head gives NaN; `check` says which number it was.

    Statement: [COT] Lemma A.5

    Differs from the paper: finite temperature, function values fitted, exponents decoded.

    >>> heads = Heads("float")
    >>> q = torch.tensor([3e-20, -7.0, 2e30], dtype=torch.float64)
    >>> bool(((heads.read(q) - q).abs() <= heads.read_error(q.abs())).all())
    True
    """

    def __init__(
        self,
        mode: Mode = "fixed",
        radius: float = 64.0,
        dtype: torch.dtype = torch.float64,
        *,
        exponents: tuple[int, int] | None = None,
        powers: tuple[int, int] | None = None,
        turns: int | None = None,
        kernels: Kernels = "auto",
        margin: float | None = None,
        fitted: Mapping[str, Values] | None = None,
    ) -> None:
        self._fitted, self._grid = dict(fitted or {}), None
        if margin is not None:
            n_grid, rho, enough = TOKENS[dtype]["read"]
            if not 1.0 <= margin <= enough:
                raise InvalidParameter("margin", margin, f"lie between 1 and {enough:g}")
            self._grid = (n_grid, rho, float(margin))
        if dtype not in SPANS:
            raise InvalidParameter("dtype", dtype, "be torch.float64 or torch.float32")
        self.ranges = Ranges(
            mode,
            float(radius),
            exponents or SPANS[dtype],
            powers or POWERS[dtype],
            TURNS[dtype] if turns is None else turns,
            dtype,
        )
        self.mode, self.radius, self.dtype = mode, float(radius), dtype
        self._u = torch.finfo(dtype).eps / 2
        self._ratios: dict[str, Ratio] = {}
        self._tables: dict[str, HeadTable] = {}
        self._forms = _forms(kernels)(self.ratio, self.ranges)
        self._errors: dict[str, HeadError] = {}

    def prepare(self, *names: str) -> None:
        """Fit these heads now and not when they are first asked; torch.compile wants all of a program's."""
        for name in names:
            one = torch.ones(1, dtype=self.dtype)
            _ = self.read(one) if name == "read" else self.function(name, one)

    # -- computing -------------------------------------------------------------------------------

    def read(self, q: Tensor) -> Tensor:
        """What a product head reads for the number q."""
        return self._forms.read(q)

    def read_watched(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """What is read, and the largest |q| of all (NaN if one is NaN)."""
        return self._forms.read_watched(q)

    def function(self, name: str, q: Tensor) -> Tensor:
        """The function's head for every entry of q; NaN outside of its domain."""
        return self._forms.function(name, q)

    def domain(self, name: str) -> Domain:
        """Where a head may be asked; "read" is a product's query."""
        return self.ranges.domain(name)

    def check(self, name: str, q: Tensor) -> None:
        """Raise OutOfDomain if a head is asked what it is not certified for."""
        self.domain(name).check(q)

    # -- promising -------------------------------------------------------------------------------

    def read_error(self, size: Tensor) -> Tensor:
        """Bound on |read(q) - q| for |q| <= size, entry by entry."""
        error = self.error("read")
        if self.mode == "fixed":
            return torch.where(size == 0, 0.0, error.relative * size + error.absolute)
        # Below the lowest bucket 0 is read, and that is off by the number itself.
        return torch.minimum(size, torch.clamp(error.relative * size, min=error.below))

    def function_error(self, name: str, q: Tensor, value: Tensor) -> Tensor:
        """Bound on |value - f(q)| for value = function(name, q), entry by entry."""
        error = self.error(name)
        bound = error.relative * value.abs() + error.absolute
        if error.below == 0.0:
            return bound
        return torch.where((value == 0) & (q != 0), error.below, bound)

    def certificate(self, name: str) -> Certificate:
        """Of a head on what range reduction leaves of its argument."""
        return self.error(name).certificate

    def error(self, name: str) -> HeadError:
        """The form of a head's error bound."""
        if name not in self._errors:
            self._errors[name] = self._error(name)
        return self._errors[name]

    def _error(self, name: str) -> HeadError:
        u = self._u
        if name in NATIVE:
            slope = 0.25 if name == "sigmoid" else 1.0
            tiny = torch.finfo(self.dtype).smallest_normal
            certificate = Certificate(f"native_head[{name}]", math.inf, 8 * u, slope, 4.0, 2)
            return HeadError(8 * u, tiny, 0.0, certificate)
        ratio = self.ratio(name)
        family = ratio.fit.family
        g = ratio.fit.sums.geometry
        weight = max(2 * g.beta * g.half_width, g.beta * g.half_width**2, ratio.fit.largest_value)
        certificate = Certificate(
            f"machine_head[{name}]", family.radius, ratio.error, family.slope, weight, g.n_grid
        )
        # The computed value stands for the exact one in relative bounds.
        relative = ratio.relative * 1.001 if family.relative else 0.0
        # Whether subnormal numbers are kept or flushed to zero, this covers what they lose.
        underflow = 4 * torch.finfo(self.dtype).smallest_normal * max(1.0, 1 / ratio.base)
        absolute, below, ranges = 0.0, 0.0, self.ranges
        if name == "read" and ranges.mode == "float":
            below = ranges.lowest
        elif name == "sqrt":
            below = math.sqrt(ranges.lowest)
        elif name == "log":  # k ln 2 and the sum: two roundings and one
            relative, absolute = 3.01 * u, ratio.error + 2 * u
        elif name == "exp":
            relative += u * (max(map(abs, ranges.powers)) * abs(ranges.ln2[1]) * 3 + 0.36)
            below = math.exp(ranges.exp_edges[0]) * 1.001
        elif name in ("sin", "cos"):
            relative += 1.01 * u
            absolute = u * ranges.turns * abs(ranges.pi[1]) * 3 + underflow
        elif name == "erf":
            absolute = math.erfc(ranges.erf_radius) * 1.001 + underflow
        elif name == "read":
            absolute = underflow
        return HeadError(relative, absolute, below, certificate)

    # -- in literal form -------------------------------------------------------------------------

    def ratio(self, name: str) -> Ratio:
        """The fitted head behind a name."""
        if name not in self._ratios:
            self._ratios[name] = self._ratio(name)
        return self._ratios[name]

    def _ratio(self, name: str) -> Ratio:
        if name == "read" and self.mode == "fixed":
            return fitted_ratio(name, self.dtype, self.radius, None, self._grid)
        family = _family(name)
        values = self._fitted.get(family)
        if name == "read" and self._grid is not None:
            return fitted_ratio(family, self.dtype, None, values, self._grid)
        return (
            fitted_ratio(family, self.dtype, values=values)
            if values
            else fitted_ratio(family, self.dtype)
        )

    def values_of(self, names: Iterable[str]) -> dict[str, Values]:
        """What the heads of these functions have been fitted to, for files."""
        fits = {_family(name): self.ratio(name).fit for name in names if name not in NATIVE}
        return {
            family: (fit.sums.even, fit.sums.odd)
            for family, fit in fits.items()
            if not fit.family.levels_are_values
        }

    def table(self, name: str) -> HeadTable:
        """The literal heads: what a dense layer is written from."""
        if name not in self._tables:
            if name in NATIVE:
                self._tables[name] = native_table(name, self.dtype)
            else:
                self._tables[name] = fitted_table(name, self.ratio(name).fit, self.ranges)
        return self._tables[name]
