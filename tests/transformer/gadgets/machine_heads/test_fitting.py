"""Fits are proven at points they were not made at, and refused where they would cost digits."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
import torch

from icgd.errors import AssumptionViolated
from icgd.transformer.gadgets.machine_heads.families import FAMILIES, TOKENS, exactly
from icgd.transformer.gadgets.machine_heads.fitting import fit
from icgd.transformer.gadgets.machine_heads.heads import fitted_ratio

F64, F32 = torch.float64, torch.float32


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", FAMILIES[F64])
def test_the_proof_covers_points_in_between(name, dtype):
    """In exact arithmetic, on points that are neither nodes of the fit nor of the proof."""
    fitted = fitted_ratio(name, dtype).fit
    family = fitted.family
    points = [family.radius * (2 * i / 97 - 1) for i in range(98)]
    with exactly():
        for s in map(Decimal, points):
            f = family.exact(s)
            error = abs(fitted.sums(s) - f)
            assert float(error) <= fitted.error
            assert float(error) <= fitted.relative * float(abs(f)) or not family.relative
    assert fitted.error <= 8 * torch.finfo(dtype).eps * max(1.0, family.radius)


def test_a_grid_that_would_need_huge_values_is_refused():
    family = FAMILIES[F64]["rsqrt"]
    with pytest.raises(AssumptionViolated, match=r"values up to .* Give it more tokens"):
        fit(family, (32, 1.4, 8.25), F64)


def test_a_function_with_a_singularity_at_its_range_is_refused():
    family = replace(FAMILIES[F64]["rsqrt"], radius=2.4999, largest=lambda R, b: float("inf"))
    with pytest.raises(AssumptionViolated, match="singular too close"):
        fit(replace(family, levels_are_values=True), TOKENS[F64]["rsqrt"], F64)
