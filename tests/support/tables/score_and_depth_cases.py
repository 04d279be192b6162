"""Claims of deep-h and bridge-resources, and edits of what was measured after which each holds and fails.

Tuples (experiment, claim, better, worse) for test_claims.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from icgd.lab.experiments.over_seeds import select
from icgd.papers.bridge.experiment.depth import AS_EXACT, FOLDED, SHALLOW
from icgd.papers.bridge.experiment.experiment import (
    CONSTRUCTIONS,
    DEEP_LAYERS,
    NAMES,
    SQUARE,
    TRAINED,
    WRITTEN,
)
from icgd.papers.deep.appendix_h.diffusion import SCORE
from icgd.papers.deep.appendix_h.experiment import LEARNERS
from icgd.papers.deep.appendix_h.learning import DIRECT, EXACT, IN_CONTEXT, TRUTH

Edit = Callable[[list[dict[str, Any]]], None]
Told = tuple[str, str, Edit, Edit]


# -- deep-h ----------------------------------------------------------------------------------------------


def scores_reach(how: str, activation: str, target: str, ours: float, theirs: float) -> Edit:
    """R2 of a score in context and directly."""

    def edit(rows) -> None:
        for row in select(rows, how=how, activation=activation, target=target):
            for by, value in ((IN_CONTEXT, ours), (DIRECT, theirs)):
                row["r2"][by] = [value] * len(row["r2"][by])

    return edit


def samples_are_off(how: str, activation: str, target: str, ours: float) -> Edit:
    """Energy distances; the exact score's samples have 0.01."""

    def edit(rows) -> None:
        for row in select(rows, how=EXACT):
            row["error"] = {EXACT: [0.01], TRUTH: [1e-4]}
        for row in select(rows, how=how, activation=activation, target=target):
            row["error"] = {IN_CONTEXT: [ours], DIRECT: [ours]}

    return edit


def score_cases() -> list[Told]:
    made: list[Told] = []
    for how, activation, target in LEARNERS:
        shown = "" if target == SCORE else ", from noise alone"
        same, other = (scores_reach(how, activation, target, v, 0.9) for v in (0.9009, 0.9011))
        short = (
            f"the {how} learns the score with a {activation} network as direct training does{shown}"
        )
        made.append(("deep-h", short, same, other))
        near, far = (samples_are_off(how, activation, target, v) for v in (0.019, 0.021))
        by = f"samples by the {how}'s score ({activation}{shown})"
        short = f"{by} are at most 2 times as far as the exact score's"
        made.append(("deep-h", short, near, far))
    return made


# -- bridge-resources ------------------------------------------------------------------------------------


def trained_errors(target: str, deep: float, flat: float) -> Edit:
    def edit(rows) -> None:
        for row in select(rows, what=TRAINED, target=target):
            is_deep = row["layers"] == DEEP_LAYERS[target]
            row["error"] = {target: [deep if is_deep else flat]}

    return edit


def trained_prices(target: str, method: str, deep: int) -> Edit:
    """Matrices at equal accuracy; shallow networks have 1000. The least deep one is cheap and not accurate."""

    def edit(rows) -> None:
        trained_errors(target, 0.1, 0.1)(rows)
        trained = select(rows, what=TRAINED, target=target)
        least = min(row["units"] for row in trained)
        for row in trained:
            is_deep = row["layers"] == DEEP_LAYERS[target]
            row["resources"][method]["matrices"] = deep if is_deep else 1000
            if is_deep and row["units"] == least:
                row["resources"][method]["matrices"], row["error"] = 1, {target: [1.0]}

    return edit


def written_errors(times: float) -> Edit:
    """In parts of what a ball was written for; one of several, in one dimension, has these."""

    def edit(rows) -> None:
        for row in select(rows, what=WRITTEN):
            for errors in row["error"].values():
                errors[:] = [0.5 * delta for delta in row["deltas"]]
            errors[-1] = times * row["deltas"][-1]

    return edit


def square_errors(folded: float) -> Edit:
    def edit(rows) -> None:
        for row in select(rows, what=SQUARE):
            row["error"][FOLDED][-1], row["error"][SHALLOW][-1] = folded, 0.1

    return edit


def square_prices(folded: int) -> Edit:
    def edit(rows) -> None:
        for row in select(rows, what=SQUARE):
            row["error"][FOLDED][-1] = row["error"][AS_EXACT][-1] = 0.1
            row["matrices_of"][FOLDED][-1], row["matrices_of"][AS_EXACT][-1] = folded, 1000

    return edit


def depth_cases() -> list[Told]:
    written = "three layers that are written down come as near to a ball as one likes"
    square = "depth follows x^2 better with as many units"
    small = "BRIDGE's transformer is smaller for depth on x^2, for a small error"
    made: list[Told] = [
        ("bridge-resources", written, written_errors(0.9), written_errors(1.1)),
        ("bridge-resources", square, square_errors(0.09), square_errors(0.11)),
        ("bridge-resources", small, square_prices(900), square_prices(1100)),
    ]
    for target, name in NAMES.items():
        good, bad = (trained_errors(target, e, 0.1) for e in (0.09, 0.11))
        short = f"depth follows {name} better with as many units, 12 of them"
        made.append(("bridge-resources", short, good, bad))
        for method, paper in CONSTRUCTIONS.items():
            good, bad = (trained_prices(target, method, n) for n in (900, 1100))
            short = f"{paper}'s transformer is smaller for depth on {name}"
            made.append(("bridge-resources", short, good, bad))
    return made
