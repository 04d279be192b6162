"""What [DEEP] says of costs: the printed form is run and fails, the corrected one holds."""

from __future__ import annotations

import pytest

from icgd.costs import tables
from icgd.theory.costs import deep_flops_order, exponent
from icgd.verification.deep_costs import (
    cost_of_a_stack,
    counted_equals_closed,
    leading_terms,
    units_for,
)


def test_a_stack_is_quadratic_in_the_examples():
    row = cost_of_a_stack()
    assert row.passed
    assert row.printed_verdict == "fails"
    printed = exponent(lambda n: deep_flops_order(n, 1, 3, 4, 0.1), 20_000, 40_000)
    assert printed == pytest.approx(1.0)
    assert tables.exponents_in_examples()[-1] > 1.9
    assert leading_terms() < 0.03
    assert counted_equals_closed()


def test_units_grow_with_the_root_of_the_error():
    few, many = units_for(1e-3), units_for(1e-5)
    assert 8 < many / few < 12
    assert many < 1e5  # (1e-3 / 1e-5)^2 times as many by the printed law
