"""What [DEEP] says of costs: the printed form by two ways to evaluate a stack, and the corrected one."""

from __future__ import annotations

import pytest

from icgd.costs import tables
from icgd.costs.formulas import deep_flops_order, exponent
from icgd.papers.deep.statements.cases import gap, make_case, matrices
from icgd.papers.deep.statements.costs import (
    cost_of_a_stack,
    counted_equals_closed,
    leading_terms,
    power_of_examples,
    units_for,
)


def test_a_stack_is_quadratic_in_the_examples():
    row = cost_of_a_stack()
    assert row.passed
    assert row.printed_verdict == "reading"
    printed = exponent(lambda n: deep_flops_order(n, 1, 3, 4, 0.1), 20_000, 40_000)
    assert printed == pytest.approx(1.0)
    assert tables.exponents_in_examples()[-1] > 1.9
    assert leading_terms() < 0.03
    assert counted_equals_closed()


@pytest.mark.parametrize("n", [200, 20_000])
def test_a_stack_is_linear_in_the_examples_if_sums_are_collapsed(n):
    """All keys of the forward heads are equal, so their sum over tokens can be made once: O(n), as printed."""
    assert power_of_examples("structured", n) == pytest.approx(1, abs=0.01)
    assert power_of_examples("dense", 20_000) > 1.9
    # And the two ways to evaluate are one program.
    its = make_case((2, 3, 2), n=6)
    program = its.program(n_relu=17)
    made = [
        program.run(its.X, its.Y, init=its.init, steps=2, executor=e).weights
        for e in ("structured", "dense")
    ]
    assert gap(*(matrices(weights) for weights in made)) < 1e-12


def test_units_grow_with_the_root_of_the_error():
    few, many = units_for(1e-3), units_for(1e-5)
    assert 8 < many / few < 12
    assert many < 1e5  # (1e-3 / 1e-5)^2 times as many by the printed law
