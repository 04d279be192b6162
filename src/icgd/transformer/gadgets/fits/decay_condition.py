"""Which activations are general enough: some combination of shifted units must die out and not be zero.

The units of an attention layer can fit what the papers ask of them if nu(t) = sum_i b_i sigma(t + s_i)
falls faster than 1/|t|. Repeated differences are tried: one difference of a sigmoid is a bump, two of a
ReLU are a hat. Differences of a polynomial end in zero and those of an exponential are exponentials.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.transformer.gadgets.fits.feature_fit import UNITS

MAX_DIFFERENCES = 4
REACH = 64.0
"""How far out is looked; e^64 and its differences are still numbers."""
POWER = 2.0
# One difference of tanh is sinh(1) / (cosh(t + 1/2) cosh(t - 1/2)) <= 4 sinh(1) e^{-2|t|}; sigmoid is tanh at
# half the argument; the hat is (1 - |t|)+, and (1 + t)^2 (1 - t) is largest at 1/3.
PROVEN = {"tanh": 4 * math.sinh(1.0), "sigmoid": 8 * math.sinh(0.5) / math.e, "relu": 32 / 27}
"""sup (1 + |t|)^2 |nu(t)| is at most this, on the whole line."""


@dataclass(frozen=True)
class Decay:
    """A combination that dies out: |nu^(k)(t)| <= constants[k] (1 + |t|)^-power, k = 0, 1.

    weights, shifts  nu(t) = sum_i weights_i sigma(t + shifts_i)
    constants        measured on |t| <= reach
    proven           a bound on constants[0] over the whole line, None where no formula is known
    """

    name: str
    weights: tuple[float, ...]
    shifts: tuple[float, ...]
    power: float
    constants: tuple[float, float]
    reach: float
    proven: float | None

    @property
    def n_units(self) -> int:
        """The number n_0 of units in nu."""
        return len(self.weights)


def decay_condition(sigma: Callable[[Tensor], Tensor] | str) -> Decay:
    """Look for a combination of units that decays like |t|^-2 and is not zero.

    Statement: [BRIDGE] Definition 3

    sigma  "tanh", "sigmoid", "relu", "exp", "linear", or a function of tensors

    On a finite range only decay can be seen, not proven, and an activation is refused when no difference of
    up to four decays: another combination might. For tanh, sigmoid and ReLU the bound is also a formula.

    Differs from the paper: nu must not be zero. As printed sigma must not be, and nu = 0 always serves.

    >>> decay_condition("relu").weights
    (1.0, -2.0, 1.0)
    """
    name, f = _named(sigma)
    for n in range(MAX_DIFFERENCES + 1):
        weights = tuple((-1.0) ** (n - i) * math.comb(n, i) for i in range(n + 1))
        shifts = tuple(i - n / 2 for i in range(n + 1))
        constants = _dies_out(f, weights, shifts)
        if constants is not None:
            return Decay(name, weights, shifts, POWER, constants, REACH, PROVEN.get(name))
    raise AssumptionViolated(
        f"`{name}` lacks the general decay condition ([BRIDGE] Definition 3): none of its first "
        f"{MAX_DIFFERENCES} differences is non-zero and falls like |t|^-{POWER:g} up to |t| = {REACH:g}. "
        "Use tanh, sigmoid or relu units."
    )


def combination(sigma: Callable[[Tensor], Tensor] | str, decay: Decay, t: Tensor) -> Tensor:
    """nu(t)."""
    return _combine(_named(sigma)[1], decay.weights, decay.shifts, t)


def _named(sigma: Callable[[Tensor], Tensor] | str) -> tuple[str, Callable[[Tensor], Tensor]]:
    if not isinstance(sigma, str):
        return getattr(sigma, "__name__", "sigma"), sigma
    known = {**UNITS, "exp": torch.exp, "linear": lambda t: 1.0 * t}
    if sigma not in known:
        raise InvalidParameter("sigma", sigma, f"be one of {sorted(known)} or a function")
    return sigma, known[sigma]


def _combine(
    f: Callable[[Tensor], Tensor], weights: tuple[float, ...], shifts: tuple[float, ...], t: Tensor
) -> Tensor:
    total = torch.zeros_like(t)
    for weight, shift in zip(weights, shifts, strict=True):
        total = total + weight * f(t + shift)
    return total


def _dies_out(
    f: Callable[[Tensor], Tensor], weights: tuple[float, ...], shifts: tuple[float, ...]
) -> tuple[float, float] | None:
    """sup (1 + |t|)^2 |nu| and the same of nu', or None if one of them does not fall or nu is zero."""
    t = torch.linspace(-REACH, REACH, 2**14 + 1, dtype=torch.float64).requires_grad_(True)
    with torch.enable_grad():
        value = _combine(f, weights, shifts, t)
        (slope,) = torch.autograd.grad(value.sum(), t) if value.requires_grad else (0 * t,)
    at = t.detach().abs()
    # Differences of large numbers leave rounding behind, which does not fall.
    size = f(t.detach()).abs().max()
    noise = 2.0**-48 * float(size) * sum(abs(w) for w in weights)
    if float(value.detach().abs().max()) <= noise:
        return None
    constants = []
    for k, part in enumerate((value.detach().abs(), slope.detach().abs())):
        floor = noise if k == 0 else 2.0**-48 * max(1.0, float(part.max()))
        shells = [
            float(part[(at > low) & (at <= 2 * low)].max())
            for low in (REACH / 8, REACH / 4, REACH / 2)
        ]
        # A fall by 2^-p from one shell to the next, p between 1 and what (1 + |t|)^-2 does there.
        if any(b > floor and b > a * 2.0**-1.8 for a, b in pairwise(shells)):
            return None
        if not all(math.isfinite(shell) for shell in shells):
            return None
        constants.append(float((torch.where(part > floor, part, 0.0) * (1 + at) ** POWER).max()))
    return constants[0], constants[1]
