"""Numbers over seeds: median and range, and when an ordering is decided."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from icgd.lab.experiments.experiment import Row, Rows
from icgd.lab.experiments.record import DIGITS

ENOUGH = 3
"""Seeds an ordering needs: fewer decide nothing."""
R2_MARGIN = 0.01
"""What a difference of two R2 must exceed to count, in every seed."""
ERROR_MARGIN = 0.02
"""The same for errors, relative to the larger one."""


def select(rows: Rows, **values: Any) -> list[Row]:
    """The rows that have these values, in their order.

    >>> select([{"a": 1, "b": 2}, {"a": 3, "b": 2}], a=3)
    [{'a': 3, 'b': 2}]
    """
    return [row for row in rows if all(row.get(k) == v for k, v in values.items())]


def distinct(rows: Rows, key: str) -> list[Any]:
    """The values of a column in the order of their first row; rows without it are passed over."""
    return list(dict.fromkeys(row[key] for row in rows if key in row))


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Median and range of a number over seeds; how many are missing.

    >>> spread([0.5, 0.25, 1.0]), spread([2.0]), spread([]), spread([math.nan, 3.0])
    ('0.5 (0.25..1)', '2', 'none', '3, 1 of 2 not a number')
    >>> spread([0.5, math.inf, 1.0])
    '1 (0.5..overflow)'
    """
    there = [value for value in values if not math.isnan(value)]
    if not there:
        return "not a number" if values else "none"
    middle, low, high = (
        "overflow" if value == math.inf else f"{value:.{digits}g}"
        for value in (statistics.median(there), min(there), max(there))
    )
    shown = middle if low == high else f"{middle} ({low}..{high})"
    missing = len(values) - len(there)
    return f"{shown}, {missing} of {len(values)} not a number" if missing else shown


def spread_of_distances(values: Sequence[float]) -> str:
    """Distances of numbers that are kept with few digits: equal ones are apart by less than those tell.

    >>> spread_of_distances([0.0, 0.0]), spread_of_distances([0.0, 0.25])
    ('below 1e-05', '0.125 (0..0.25)')
    """
    return spread(values) if any(values) else f"below {10.0**-DIGITS:g}"


def all_agree(facts: Sequence[bool]) -> bool | None:
    """True or False if every seed says so and there are enough of them, else None.

    >>> all_agree([True, True, True]), all_agree([False] * 3), all_agree([True, False, True])
    (True, False, None)
    >>> all_agree([True]) is None
    True
    """
    if len(facts) < ENOUGH or len(set(facts)) != 1:
        return None
    return facts[0]


def smaller(first: Sequence[float], second: Sequence[float]) -> bool | None:
    """Whether an error is smaller than another, seed by seed; None unless all seeds agree by the margin.

    >>> smaller([1.0] * 3, [2.0] * 3), smaller([1.0] * 3, [1.001] * 3), smaller([math.nan] * 3, [2.0] * 3)
    (True, None, None)
    >>> smaller([1.0] * 3, [math.inf] * 3), smaller([math.inf] * 3, [math.inf] * 3)
    (True, None)
    """
    pairs = zip(first, second, strict=True)
    return positive([relative_gap(a, b) for a, b in pairs], ERROR_MARGIN)


def relative_gap(first: float, second: float) -> float:
    """How much larger the second is, in parts of the larger one: from -1 to 1 for errors."""
    if math.isinf(first) or math.isinf(second):
        return float(second > first) - float(second < first)
    return (second - first) / max(abs(first), abs(second), 1e-300)


def positive(values: Sequence[float], margin: float = R2_MARGIN) -> bool | None:
    """True if a number is above the margin for all seeds, False if below minus the margin, else None."""
    if all_agree([v > margin for v in values]):
        return True
    return False if all_agree([v < -margin for v in values]) else None


def below(values: Sequence[float], bound: float) -> bool | None:
    """Whether a number stays below a bound for all seeds; None if seeds disagree.

    >>> below([0.1, 0.2, 0.3], 0.5), below([0.6] * 3, 0.5), below([0.1, 0.1, 0.6], 0.5)
    (True, False, None)
    """
    return positive([(bound - value) / bound for value in values], 0.0)


def by_seed(
    rows: Rows, values: Callable[[Row], Sequence[float]], worst: Callable[[list[float]], float]
) -> list[float]:
    """One number for every seed, the worst of all its rows: many cases of one seed are not many seeds.

    >>> by_seed([{"seed": 0, "a": 1.0}, {"seed": 1, "a": 2.0}, {"seed": 0, "a": 3.0}], lambda r: [r["a"]], max)
    [3.0, 2.0]
    """
    seeds = [
        [value for row in select(rows, seed=seed) for value in values(row)]
        for seed in distinct(rows, "seed")
    ]
    return [worst(of_seed) for of_seed in seeds if of_seed]


def median_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """Position by position; NaN where no seed has a number."""
    return [_over(statistics.median, column) for column in zip(*curves, strict=True)]


def range_curve(curves: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Least and largest, position by position."""
    columns = list(zip(*curves, strict=True))
    return [_over(min, c) for c in columns], [_over(max, c) for c in columns]


def _over(function: Callable[[list[float]], float], values: Sequence[float]) -> float:
    finite = [v for v in values if v is not None and math.isfinite(v)]
    return function(finite) if finite else math.nan
