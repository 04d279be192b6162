"""BRIDGE, Theorems 3 and 4: what depth buys, and what a transformer pays for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from icgd.lab.experiments.claim import Case, combined, gated_claim
from icgd.lab.experiments.experiment import Claim, Experiment, ResultTable, Rows, Scale, Size
from icgd.lab.experiments.learned import Reference, best_of, shortfalls
from icgd.lab.experiments.over_seeds import (
    ERROR_MARGIN,
    below,
    distinct,
    positive,
    select,
    smaller,
    spread,
)
from icgd.lab.sweeps.cells import Cell
from icgd.papers.bridge.experiment.depth import AS_EXACT, FOLDED, SHALLOW
from icgd.papers.bridge.experiment.tables import (
    CONSTRUCTIONS,
    DEEP_LAYERS,
    NAIVE,
    NAMES,
    OWN,
    SHALLOW_LAYERS,
    SQUARE,
    TRAINED,
    WRITTEN,
    depth_figure,
    depth_tables,
    matrices,
    trained_errors,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLACK = 0.01
"""Errors at random points that differ by less are those of networks equally exact."""


@dataclass(frozen=True, kw_only=True)
class DepthSize(Size):
    """Settings of Theorems 3 and 4.

    units       hidden units of trained networks, in layers of one width
    layers      hidden layers
    steps       of Adam
    dimensions  of the balls that are written down
    deltas      squared errors that they are written for
    folds       of the sawtooth for x^2
    test_points for x^2
    """

    units: tuple[int, ...]
    layers: tuple[int, ...]
    steps: int
    dimensions: tuple[int, ...]
    deltas: tuple[float, ...]
    folds: tuple[int, ...]
    test_points: int


SMOKE = DepthSize(
    seeds=1,
    units=(6, 12),
    layers=(1, 2, 3),
    steps=5,
    dimensions=(3,),
    deltas=(0.3, 0.03),
    folds=(1, 6),
    test_points=200,
)
LAPTOP = DepthSize(
    seeds=3,
    units=(6, 12, 24, 48, 96, 192),
    layers=(1, 2, 3),
    steps=4000,
    dimensions=(10, 20),
    deltas=(0.03, 0.01, 0.003, 0.001),
    folds=(1, 2, 4, 6, 8, 10, 12, 14, 16),
    test_points=2000,
)
OVERNIGHT = DepthSize(
    seeds=5,
    units=(6, 12, 24, 48, 96, 192, 384, 768),
    layers=(1, 2, 3),
    steps=30_000,
    dimensions=(10, 20, 40),
    deltas=(0.03, 0.01, 0.003, 0.001),
    folds=(1, 2, 4, 6, 8, 10, 12, 14, 16),
    test_points=2000,
)
PAPER = replace(OVERNIGHT, units=(*OVERNIGHT.units, 1536), steps=100_000)


class BridgeResources(Experiment):
    """Errors of shallow and deep networks beside the matrices a transformer needs to train them in context."""

    name: ClassVar = "bridge-resources"
    paper: ClassVar = "BRIDGE"
    where: ClassVar = "Section 4, Theorems 3 and 4"
    question: ClassVar = (
        "Are deep networks cheaper than shallow ones for a transformer that trains them in context?"
    )
    title: ClassVar = "what depth buys, and what a transformer pays for it"
    differs: ClassVar = (
        "The paper runs nothing: it combines bounds of others on networks with its count of matrices. "
        "Functions, dimensions and trainings are ours, even at the scale `paper`.",
        "Counts are those of the constructions as corrected (errata B3, B6 to B9), with ReLU heads for ReLU "
        "networks with biases: 3 matrices a head, 2 a feed-forward layer. BRIDGE's own n layers a step "
        "(forward_mode), DEEP's stack of 2n + 4, COT's one layer.",
        "Theorems 3 and 4 say that some transformer exists, and Theorem 3 is about errors that go to "
        "0. Trained networks are compared at the accuracy of the best one with a single hidden layer, "
        'which is not small (the claims give it). "Not reproduced" is said of the counts of these '
        "constructions at that accuracy, not of a theorem.",
        "Lower bounds hold for all networks of a size; trained ones only show what Adam found. The measure of "
        "Lemma 1 is not sampled: |x| is even on [0, 2] in 6 dimensions.",
        "The smooth function is sin(pi x1) sin(pi x2) exp(-x3^2 - x4^2) on [-1, 1]^4; for x^2 both networks "
        "are written down, folded m times (error 4^-(m+1)) and one hidden layer of u even pieces (u units "
        "allow u + 1 at most).",
    )
    seeds_differ: ClassVar = (
        "Every seed has points of its own; networks for x^2 are the same for all."
    )
    only_cpu: ClassVar = True
    sizes: ClassVar = {"smoke": SMOKE, "laptop": LAPTOP, "overnight": OVERNIGHT, "paper": PAPER}

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per target, layers, units and seed; what is written down once per seed."""
        size: DepthSize = self.size(scale)
        work = "icgd.papers.bridge.experiment.depth"
        cells = []
        for seed in range(size.seeds):
            for target in DEEP_LAYERS:
                for layers in size.layers:
                    for units in size.units:
                        its = {"target": target, "layers": layers, "units": units, "seed": seed}
                        cells.append(
                            Cell(
                                {"what": TRAINED, **its},
                                f"{work}:trained",
                                {**its, "steps": size.steps},
                                effort=("steps",),
                            )
                        )
            written: dict[str, Any] = {
                "dimensions": list(size.dimensions),
                "deltas": list(size.deltas),
            }
            square = {"folds": list(size.folds), "test_points": size.test_points}
            for what, function, options in (
                (WRITTEN, "written_balls", written),
                (SQUARE, "squares", square),
            ):
                key = {"what": what, "seed": seed}
                cells.append(Cell(key, f"{work}:{function}", {**options, "seed": seed}))
        for seed in range(size.seeds):
            naive = {"targets": list(DEEP_LAYERS), "seed": seed}
            cells.append(Cell({"what": NAIVE, "seed": seed}, f"{work}:naive_errors", naive))
        return cells

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Errors beside counts."""
        return depth_tables(rows)

    def claims(self, rows: Rows) -> list[Claim]:
        """Depth is more accurate; whether it is cheaper, by construction."""
        largest = max(distinct(rows, "units"))
        claims = []
        for target, layers in DEEP_LAYERS.items():
            deep, flat = (
                trained_errors(rows, target, n, largest) for n in (layers, SHALLOW_LAYERS)
            )
            short = _short(
                rows, target, {f"{layers} hidden layers": deep, "one hidden layer": flat}
            )
            claims.append(
                gated_claim(
                    f"depth follows {NAMES[target]} better with as many units, {largest} of them",
                    f"{NAMES[target]}: deeper networks need fewer units (here: {layers} hidden layers "
                    f"against one, {largest} units)",
                    f"squared error {spread(deep)} against {spread(flat)}",
                    [Case(smaller(deep, flat), short)],
                )
            )
        balls = select(rows, what=WRITTEN)
        deltas = balls[0]["deltas"]
        worst = {
            delta: [max(errors[i] for errors in row["error"].values()) for row in balls]
            for i, delta in enumerate(deltas)
        }
        claims.append(
            Claim(
                "three layers that are written down come as near to a ball as one likes",
                "Lemma 2: three layers are within any delta (here: squared errors below "
                f"{', '.join(map(str, deltas))}, each by a network written for it, at fresh points)",
                "; ".join(f"for {delta}: {spread(errors)}" for delta, errors in worst.items())
                + f", the worst of {len(balls[0]['error'])} dimensions",
                combined([below(errors, delta) for delta, errors in worst.items()]),
            )
        )
        squares = select(rows, what=SQUARE)
        folded, flat = ([row["error"][name][-1] for row in squares] for name in (FOLDED, SHALLOW))
        claims.append(
            Claim(
                "depth follows x^2 better with as many units",
                f"Lemmas 3 and 4: x^2 (here: folded {squares[0]['folds'][-1]} times against one hidden layer, "
                f"{squares[0]['units_of'][FOLDED][-1]} units each)",
                f"largest error {spread(folded)} against {spread(flat)}",
                smaller(folded, flat),
            )
        )
        claims += [_cheaper(rows, target, OWN) for target in DEEP_LAYERS]
        claims.append(_cheaper_square(squares))
        rivals = [method for method in CONSTRUCTIONS if method != OWN]
        return claims + [_cheaper(rows, target, m) for m in rivals for target in DEEP_LAYERS]

    def draw(self, rows: Rows) -> Figure:
        """Errors against units above, against matrices below."""
        return depth_figure(rows)


def log_saving(flat: Sequence[tuple[float, float]], deep: Sequence[tuple[float, float]]) -> float:
    """How much cheaper depth is at the accuracy of the best shallow network: log(its price / the deep one's).

    flat, deep  (error, price) of networks; -inf if no deep one is as accurate, NaN if errors are missing or if
                the cheapest deep one that there is still costs more: a smaller one might do

    >>> log_saving([(0.5, 8.0), (0.1, 20.0)], [(0.2, 1.0), (0.1, 20.0)]), log_saving([(0.5, 8.0)], [(0.6, 1.0)])
    (0.0, -inf)
    """
    if any(math.isnan(error) for error, _ in (*flat, *deep)):
        return math.nan
    error, price = min(flat)
    prices = [cost for reached, cost in deep if reached <= (1 + SLACK) * error]
    if prices and price < min(prices) == min(cost for _, cost in deep) and len(deep) > 1:
        return math.nan
    return math.log(price / min(prices)) if prices else -math.inf


def _priced(rows: Rows, target: str, layers: int, method: str) -> list[tuple[float, float]]:
    trained = select(rows, what=TRAINED, target=target, layers=layers)
    return [(row["error"][target][0], float(matrices(row, method))) for row in trained]


def _cheaper(rows: Rows, target: str, method: str) -> Claim:
    """Whether a transformer that trains the deep network has fewer matrices, at the shallow one's accuracy."""
    layers = DEEP_LAYERS[target]
    priced = [
        [_priced(select(rows, seed=seed), target, n, method) for n in (SHALLOW_LAYERS, layers)]
        for seed in distinct(rows, "seed")
    ]
    savings = [log_saving(flat, deep) for flat, deep in priced]
    best = [[min(price)[0] for price in seeds] for seeds in zip(*priced, strict=True)]
    models = {"best of one hidden layer": best[0], f"best of {layers}": best[1]}
    paper, own = CONSTRUCTIONS[method], method == OWN
    cheaper = (
        "the deep network costs a transformer less" if own else "does the deep network cost less"
    )
    return gated_claim(
        f"{paper}'s transformer is smaller for depth on {NAMES[target]}",
        f"{NAMES[target]}, {paper}'s construction: {cheaper} (here: the cheapest network of {layers} hidden "
        "layers that is as accurate as the best of one)" + ("" if own else "?"),
        f"at a squared error of {spread(best[0])}, matrices of the shallow one over the deep one's: "
        f"{_shown_ratios(savings)}",
        [Case(positive(savings, ERROR_MARGIN), _short(rows, target, models))],
        ours=not own,
    )


def _short(rows: Rows, target: str, models: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Networks that are worse than a constant or a linear function."""
    naive = [row["naive"][target] for row in select(rows, what=NAIVE)]
    references = [Reference(name, [guess[name] for guess in naive]) for name in naive[0]]
    return shortfalls(models, best_of(references))


def _cheaper_square(rows: Rows) -> Claim:
    savings = [
        log_saving(
            *(
                [(row["error"][name][-1], row["matrices_of"][name][-1])]
                for name in (AS_EXACT, FOLDED)
            )
        )
        for row in rows
    ]
    folds = rows[0]["folds"]
    cheaper = [
        m
        for m, flat, deep in zip(
            folds, rows[0]["matrices_of"][AS_EXACT], rows[0]["matrices_of"][FOLDED], strict=True
        )
        if deep < flat
    ]
    since = f"cheaper from m = {cheaper[0]} on" if cheaper else "at no m that was counted"
    return Claim(
        "BRIDGE's transformer is smaller for depth on x^2, for a small error",
        f"Theorem 4: x^2 within 4^-(m+1), BRIDGE's construction (here: m = {folds[-1]}, against one hidden "
        "layer that is no more exact)",
        f"at an error of {spread([row['error'][FOLDED][-1] for row in rows])}, matrices of the shallow "
        f"one over the deep one's: {_shown_ratios(savings)}; {since}",
        positive(savings, ERROR_MARGIN),
    )


def _shown_ratios(savings: Sequence[float]) -> str:
    """exp(savings) over seeds; deep networks that were never accurate enough are counted apart."""
    lost = sum(value == -math.inf for value in savings)
    there = [math.exp(value) for value in savings if value != -math.inf]
    words = [spread(there)] if there else []
    if lost:
        words.append(f"no deep network is accurate enough in {lost} of {len(savings)} seeds")
    return "; ".join(words)
