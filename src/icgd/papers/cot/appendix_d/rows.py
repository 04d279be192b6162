"""Reading the rows of cot-d: losses beside naive guesses, and how far chains end from the true weights.

Rows keep squares, |W - W_true|^2 over all layers. What is shown and judged are distances: the root of the mean
square over students, divided by that of the distance which the true weights move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from icgd.lab.experiments.experiment import Row, Rows
from icgd.lab.experiments.learned import Reference, best_of, shortfalls
from icgd.lab.experiments.over_seeds import select, spread

NAIVE_GUESSES = {
    "forward": ("forward, copies and means", "forward, least squares"),
    "backward": ("backward, copies and zeros", "backward, least squares"),
    "weights": ("weights, copies",),
}
"""Guesses that need no operator, by loss. The first of each copies rows."""


def groups(rows: Rows) -> list[list[Row]]:
    """Rows of one block, width and depth: one for every seed."""
    keys = dict.fromkeys((r["case"], r["d"], r["layers"]) for r in rows)
    return [select(rows, case=case, d=d, layers=layers) for case, d, layers in keys]


def _root_ratio(off: float, moved: float) -> float:
    # Networks all of whose units are closed do not move at all.
    return math.sqrt(off / moved) if moved else math.nan


def off(row: Row, layers: str = "") -> float:
    """How far weights end from the true ones, as a part of how far those move; without exploding students."""
    chain = row["chains"][layers or str(row["layers"])]
    return _root_ratio(chain["off_mean"][-1], chain["moved_mean"][-1])


def offs(rows: Rows, layers: str = "") -> list[float]:
    """The same for every seed."""
    return [off(row, layers) for row in rows]


def median_offs(rows: Rows, layers: str) -> list[float]:
    """The median distance over the median movement: that of a typical student."""
    at = [row["chains"][layers] for row in rows]
    return [_root_ratio(c["off_median"][-1], c["moved_median"][-1]) for c in at]


def offs_of_all(rows: Rows) -> list[float]:
    """With the students on which SGD itself explodes."""
    at = [row["chains"][str(row["layers"])] for row in rows]
    return [_root_ratio(c["off_all"][-1], c["moved_all"][-1]) for c in at]


def offs_with_exact(rows: Rows, way: str) -> list[float]:
    """With one of the two operators exact."""
    return [
        _root_ratio(row[f"exact_{way}"], row["chains"][str(row["layers"])]["moved_mean"][-1])
        for row in rows
    ]


def exploding(rows: Rows) -> list[float]:
    """The share of students on which SGD itself explodes, for every seed."""
    return [row["chains"][str(row["layers"])]["wild"][0] for row in rows]


def other_depths(row: Row) -> list[str]:
    """Depths of students that operators were not trained on."""
    return [n for n in row["chains"] if n != str(row["layers"])]


def over_copying(row: Row, loss: str) -> float:
    """A loss as a fraction of that of the guess that copies."""
    return float(row["loss"][loss] / row["baselines"][NAIVE_GUESSES[loss][0]])


def fall(row: Row, way: str, part: int) -> float:
    """The last loss over the first, of training (0) or validation (1)."""
    return float(row["curves"][way][-1][part] / row["curves"][way][0][part])


def short_of_naive(rows: Rows, losses: Sequence[str] = tuple(NAIVE_GUESSES)) -> tuple[str, ...]:
    """Losses of operators that are above the best naive guess."""
    first = rows[0]
    return tuple(
        text
        for loss in losses
        for text in shortfalls(
            {
                f"{first['case']}, N = {first['layers']}, loss of {loss}": [
                    r["loss"][loss] for r in rows
                ]
            },
            _guess(rows, loss),
        )
    )


def _guess(rows: Rows, loss: str) -> Reference:
    return best_of(
        [Reference(name, [r["baselines"][name] for r in rows]) for name in NAIVE_GUESSES[loss]]
    )


def followed(rows: Rows) -> str:
    """How far chains end, without and with the students on which SGD explodes."""
    parts = [f"off by {spread(offs(rows))} of the distance that the true weights move"]
    wild = exploding(rows)
    if any(wild):
        parts.append(
            f"with the students on which SGD itself explodes ({spread(wild)} of them) "
            f"{spread(offs_of_all(rows))}"
        )
    return "; ".join(parts)


def at_other_depth(rows: Rows, layers: str) -> str:
    """Distances for students of another depth."""
    chains = [row["chains"][layers] for row in rows]
    far, moved = (
        spread([math.sqrt(c[f"{name}_median"][-1]) for c in chains]) for name in ("off", "moved")
    )
    return (
        f"N = {layers}: {spread(offs(rows, layers))}; medians {far} where weights move by {moved}, "
        f"{spread(median_offs(rows, layers))} of it"
    )
