"""Functions to more digits than float64 has, for judging heads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special

WIDE = np.longdouble
HAS_WIDE = np.finfo(WIDE).eps < 1e-18
needs_wide = pytest.mark.skipif(not HAS_WIDE, reason="no float wider than float64 here")

FUNCTIONS = {
    "read": lambda x: x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "log": np.log,
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def wide(q):
    """As numbers of the widest float."""
    return q.detach().double().numpy().astype(WIDE)


def exact(name, q):
    """f(q), and how far that may be off itself."""
    if name == "erf":  # to one or two units of float64
        value = special.erf(q.double().numpy())
        return value.astype(WIDE), 4e-16 * np.abs(value)
    with np.errstate(over="ignore"):
        value = FUNCTIONS[name](wide(q))
    return value, 1e-18 * np.abs(value)


def sizes(n, low, high, generator, dtype):
    """Numbers whose logarithm is uniform."""
    exponent = low + (high - low) * torch.rand(n, generator=generator, dtype=torch.float64)
    return torch.exp2(exponent).to(dtype)


def neighbours(q, steps=3):
    """The numbers themselves and the next floats on both sides."""
    rows = [q]
    for end in (torch.inf, -torch.inf):
        x = q
        for _ in range(steps):
            x = torch.nextafter(x, torch.full_like(x, end))
            rows.append(x)
    return torch.cat(rows)
