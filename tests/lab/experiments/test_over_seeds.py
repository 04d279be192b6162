"""Numbers over seeds: what is told of them, and that nothing is decided that seeds do not decide."""

from __future__ import annotations

import itertools
import math

import pytest

from icgd.lab.experiments.claim import combined
from icgd.lab.experiments.over_seeds import (
    ENOUGH,
    ERROR_MARGIN,
    R2_MARGIN,
    all_agree,
    distinct,
    median_curve,
    positive,
    range_curve,
    select,
    smaller,
    spread,
)

nan, inf = math.nan, math.inf


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "none"),
        ([0.12345], "0.123"),
        ([3.0, 1.0, 2.0], "2 (1..3)"),
        ([1.0, 2.0], "1.5 (1..2)"),
        ([-0.5, -0.25, 0.0], "-0.25 (-0.5..0)"),
        ([1e-9, 2e-9, 3e-9], "2e-09 (1e-09..3e-09)"),
    ],
)
def test_median_and_range(values, text):
    assert spread(values) == text


def test_digits_can_be_chosen():
    assert spread([1.23456, 2.34567, 3.45678], 5) == "2.3457 (1.2346..3.4568)"


@pytest.mark.parametrize("order", list(itertools.permutations([0.1, 0.2, 0.4])))
def test_the_order_of_seeds_is_of_no_interest(order):
    assert spread(order) == "0.2 (0.1..0.4)"


def test_seeds_decide_only_together_and_only_if_there_are_enough():
    for n in range(7):
        for facts in itertools.product([True, False], repeat=n):
            agreed = n >= ENOUGH and len(set(facts)) == 1
            assert all_agree(facts) is (facts[0] if agreed else None)


def test_enough_is_more_than_two():
    assert ENOUGH >= 3


def test_smaller_means_smaller_in_every_seed():
    assert smaller([1, 2, 3], [2, 3, 4]) is True
    assert smaller([2, 3, 4], [1, 2, 3]) is False
    assert smaller([1, 2, 3], [2, 3, 1]) is None
    # Seed by seed: not every number of one side has to be below every number of the other.
    assert smaller([1, 10, 100], [2, 20, 200]) is True


def test_a_tie_decides_nothing():
    assert smaller([1, 1, 1], [1, 1, 1]) is None
    assert smaller([1, 0, 0], [1, 1, 1]) is None


def test_differences_must_exceed_the_margin():
    inside, outside = 1 - ERROR_MARGIN / 2, 1 - 2 * ERROR_MARGIN
    assert smaller([inside] * 3, [1] * 3) is None
    assert smaller([1] * 3, [inside] * 3) is None
    assert smaller([outside] * 3, [1] * 3) is True
    assert smaller([1] * 3, [outside] * 3) is False
    assert positive([2 * R2_MARGIN] * 3) is True
    assert positive([R2_MARGIN / 2] * 3) is None
    assert positive([-2 * R2_MARGIN] * 3) is False


def test_numbers_that_are_missing_decide_nothing():
    assert smaller([nan] * 3, [1] * 3) is None
    assert positive([1.0, 1.0, nan]) is None
    assert spread([nan, 1, 2]) == spread([1, 2, nan]) == "1.5 (1..2), 1 of 3 not a number"


def test_two_seeds_order_nothing():
    assert smaller([1], [2]) is None
    assert smaller([1, 1], [2, 2]) is None


def test_seeds_of_unequal_number_are_an_error():
    with pytest.raises(ValueError, match="shorter"):
        smaller([1, 2, 3], [1, 2])


def test_one_case_refutes_a_claim_and_all_must_confirm_it():
    for n in range(1, 5):
        for facts in itertools.product([True, False, None], repeat=n):
            refuted, open_ = False in facts, None in facts
            assert combined(facts) is (False if refuted else None if open_ else True)
    assert combined([]) is None


def test_curves_have_the_median_of_every_position():
    curves = [[1.0, 5.0], [2.0, 4.0], [9.0, 0.0]]
    assert median_curve(curves) == [2.0, 4.0]
    assert range_curve(curves) == ([1.0, 0.0], [9.0, 5.0])


def test_one_seed_is_its_own_median_and_range():
    assert median_curve([[3.0, 1.0]]) == [3.0, 1.0]
    assert range_curve([[3.0, 1.0]]) == ([3.0, 1.0], [3.0, 1.0])


@pytest.mark.parametrize("hole", [None, nan, inf, -inf])
def test_a_seed_without_a_number_is_passed_over_at_that_position_alone(hole):
    curves = [[1.0, hole, hole], [3.0, 4.0, hole], [2.0, 6.0, hole]]
    assert median_curve(curves)[:2] == [2.0, 5.0]
    low, high = range_curve(curves)
    assert (low[:2], high[:2]) == ([1.0, 4.0], [3.0, 6.0])
    assert all(math.isnan(c[2]) for c in (median_curve(curves), low, high))


def test_curves_of_unequal_length_are_an_error():
    with pytest.raises(ValueError, match="longer"):
        median_curve([[1.0], [1.0, 2.0]])


def test_rows_are_selected_by_all_values_and_in_their_order():
    rows = [{"a": 1, "b": 1}, {"a": 2}, {"a": 1, "b": 2}, {"b": 1}]
    assert select(rows, a=1) == [rows[0], rows[2]]
    assert select(rows, a=1, b=2) == [rows[2]]
    assert select(rows) == rows
    assert select(rows, c=1) == []
    assert distinct(rows, "a") == [1, 2]
    assert distinct(rows, "b") == [1, 2]
    assert distinct(rows, "c") == []
