"""The learnability gate: have models learned what the best naive predictor of their task has?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from icgd.errors import InvalidFile
from icgd.lab.experiments.experiment import Rows
from icgd.lab.experiments.naive import NAIVE
from icgd.lab.experiments.over_seeds import ERROR_MARGIN, R2_MARGIN, relative_gap, select, spread

Measure = Literal["error", "relative", "r2"]


@dataclass(frozen=True)
class Reference:
    """A naive predictor and what it has, seed by seed.

    is_r2      values are R2, of which more is better; else errors
    to_be_beaten  to be as good is not enough: models must be better by the margin
    """

    name: str
    values: Sequence[float]
    is_r2: bool = False
    to_be_beaten: bool = False

    def __str__(self) -> str:
        return f"{spread(self.values)} of {self.name}"


def best_reference(rows: Rows, measure: Measure, **key: Any) -> Reference:
    """The naive predictor that was best on the prompts it was chosen on, where models are judged."""
    naive = select(rows, predictor=NAIVE, **key)
    if not naive:
        raise InvalidFile(
            f"These rows have no naive predictors for {key}: models cannot be judged without. Run icgd "
            "reproduce again: trained models are kept."
        )
    names = list(naive[0]["selection"])
    name = min(names, key=lambda n: fmean(row["selection"][n] for row in naive))
    values = [fmean(row[measure][name][i] for i in row["judged"]) for row in naive]
    return Reference(name, values, is_r2=measure == "r2")


def best_of(references: Sequence[Reference]) -> Reference:
    """The naive predictor with the best mean over seeds, of those whose numbers a record has."""
    return min(references, key=lambda r: -fmean(r.values) if r.is_r2 else fmean(r.values))


def shortfalls(models: Mapping[str, Sequence[float]], reference: Reference) -> tuple[str, ...]:
    """Models that are worse than a naive predictor by more than the margin, in one seed or more.

    One seed is enough: a verdict needs all of them.

    >>> shortfalls({"a": [0.1, 0.1, 0.1], "b": [0.1, 0.1, 0.3]}, Reference("ridge", [0.2] * 3))
    ('b: 0.1 (0.1..0.3) against 0.2 of ridge',)
    """
    return tuple(
        f"{name}: {spread(values)} against {reference}"
        for name, values in models.items()
        if any(
            falls_short(value, naive, reference)
            for value, naive in zip(values, reference.values, strict=True)
        )
    )


def falls_short(value: float, naive: float, reference: Reference) -> bool:
    """Whether one model is worse than a naive predictor; a model without a number decides nothing.

    >>> error, r2 = Reference("ridge", []), Reference("ridge", [], is_r2=True)
    >>> falls_short(0.5, 0.4, error), falls_short(0.5, 0.4, r2), falls_short(math.nan, 0.4, error)
    (True, False, False)
    """
    if math.isnan(value) or math.isnan(naive):
        return False
    ahead = value - naive if reference.is_r2 else relative_gap(value, naive)
    margin = R2_MARGIN if reference.is_r2 else ERROR_MARGIN
    return ahead <= margin if reference.to_be_beaten else ahead < -margin
