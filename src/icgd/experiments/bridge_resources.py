"""BRIDGE, Theorems 3 and 4: what depth buys, and what a transformer pays for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from icgd.experiments.cells import Cell
from icgd.experiments.depth import AS_EXACT, BALL, FOLDED, SHALLOW, SMOOTH
from icgd.experiments.drawing import curve, panels, title
from icgd.experiments.experiment import Claim, Experiment, ResultTable, Row, Rows, Scale, Size
from icgd.experiments.over_seeds import (
    ERROR_MARGIN,
    below,
    combined,
    distinct,
    positive,
    select,
    smaller,
    told,
)  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAINED, WRITTEN, SQUARE = "trained", "written ball", "square"
SHALLOW_LAYERS = 1
DEEP_LAYERS = {BALL: 2, SMOOTH: 3}
"""Hidden layers of the networks that are called deep: Theorem 3 is about three layers."""
NAMES = {BALL: "the ball", SMOOTH: "a smooth function"}
CONSTRUCTIONS = {"forward_mode": "BRIDGE", "stack": "DEEP", "cot": "COT"}
OWN = "forward_mode"
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
    seeds=1, units=(6, 12), layers=(1, 2, 3), steps=5, dimensions=(3,), deltas=(0.3, 0.03),
    folds=(1, 6), test_points=200,
)  # fmt: skip
LAPTOP = DepthSize(
    seeds=3, units=(6, 12, 24, 48, 96, 192), layers=(1, 2, 3), steps=4000, dimensions=(10, 20),
    deltas=(0.03, 0.01, 0.003, 0.001), folds=(1, 2, 4, 6, 8, 10, 12, 14, 16), test_points=2000,
)  # fmt: skip
OVERNIGHT = DepthSize(
    seeds=5, units=(6, 12, 24, 48, 96, 192, 384, 768), layers=(1, 2, 3), steps=30_000, dimensions=(10, 20, 40),
    deltas=(0.03, 0.01, 0.003, 0.001), folds=(1, 2, 4, 6, 8, 10, 12, 14, 16), test_points=2000,
)  # fmt: skip
PAPER = replace(OVERNIGHT, units=(*OVERNIGHT.units, 1536), steps=100_000)


class BridgeResources(Experiment):
    """Errors of shallow and deep networks beside the matrices a transformer needs to train them in context."""

    name: ClassVar = "bridge-resources"
    paper: ClassVar = "BRIDGE"
    where: ClassVar = "Section 4, Theorems 3 and 4"
    title: ClassVar = "what depth buys, and what a transformer pays for it"
    differs: ClassVar = (
        "The paper runs nothing: it combines bounds of others on networks with its count of matrices. "
        "Functions, dimensions and trainings are ours, also at the scale `paper`.",
        "Counts are those of the constructions as corrected (errata B3, B6 to B9), with ReLU heads for ReLU "
        "networks with biases: 3 matrices a head, 2 a feed-forward layer. BRIDGE's own n layers a step "
        "(forward_mode), DEEP's stack of 2n + 4, COT's one layer.",
        "Lower bounds hold for all networks of a size; trained ones only show what Adam found. The measure of "
        "Lemma 1 is not sampled: |x| is even on [0, 2] in 6 dimensions.",
        "The smooth function is sin(pi x1) sin(pi x2) exp(-x3^2 - x4^2) on [-1, 1]^4; for x^2 both networks "
        "are written down, folded m times (error 4^-(m+1)) and one hidden layer of u even pieces (u units "
        "allow u + 1 at most).",
    )  # fmt: skip
    seeds_differ: ClassVar = (
        "Every seed has points of its own; networks for x^2 are the same for all."
    )
    only_cpu: ClassVar = True
    sizes: ClassVar = {"smoke": SMOKE, "laptop": LAPTOP, "overnight": OVERNIGHT, "paper": PAPER}

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per target, layers, units and seed; what is written down once per seed."""
        size: DepthSize = self.size(scale)
        work = "icgd.experiments.depth"
        made = []
        for seed in range(size.seeds):
            for target in DEEP_LAYERS:
                for layers in size.layers:
                    for units in size.units:
                        its = {"target": target, "layers": layers, "units": units, "seed": seed}
                        made.append(
                            Cell(
                                {"what": TRAINED, **its}, f"{work}:trained", {**its, "steps": size.steps},
                                effort=("steps",),
                            )
                        )  # fmt: skip
            written: dict[str, Any] = {
                "dimensions": list(size.dimensions),
                "deltas": list(size.deltas),
            }
            square = {"folds": list(size.folds), "test_points": size.test_points}
            for what, function, options in (
                (WRITTEN, "written_balls", written), (SQUARE, "squares", square),
            ):  # fmt: skip
                key = {"what": what, "seed": seed}
                made.append(Cell(key, f"{work}:{function}", {**options, "seed": seed}))
        return made

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Errors beside counts."""
        return [
            *(_trained_table(rows, target) for target in DEEP_LAYERS),
            _balls(rows),
            _squares(rows),
        ]

    def claims(self, rows: Rows) -> list[Claim]:
        """Depth is more accurate; whether it is cheaper, by construction."""
        largest = max(distinct(rows, "units"))
        made = []
        for target, layers in DEEP_LAYERS.items():
            deep, flat = (_errors(rows, target, n, largest) for n in (layers, SHALLOW_LAYERS))
            made.append(
                Claim(
                    f"depth follows {NAMES[target]} better with as many units, {largest} of them",
                    f"{NAMES[target]}: deeper networks need fewer units (here: {layers} hidden layers "
                    f"against one, {largest} units)",
                    f"squared error {told(deep)} against {told(flat)}",
                    smaller(deep, flat),
                )
            )
        balls = select(rows, what=WRITTEN)
        deltas = balls[0]["deltas"]
        worst = {
            delta: [max(errors[i] for errors in row["error"].values()) for row in balls]
            for i, delta in enumerate(deltas)
        }
        made.append(
            Claim(
                "three layers that are written down come as near to a ball as one likes",
                "Lemma 2: three layers are within any delta (here: squared errors below "
                f"{', '.join(map(str, deltas))}, each by a network written for it, at fresh points)",
                "; ".join(f"for {delta}: {told(errors)}" for delta, errors in worst.items())
                + f", the worst of {len(balls[0]['error'])} dimensions",
                combined([below(errors, delta) for delta, errors in worst.items()]),
            )
        )
        squares = select(rows, what=SQUARE)
        folded, flat = ([row["error"][name][-1] for row in squares] for name in (FOLDED, SHALLOW))
        made.append(
            Claim(
                "depth follows x^2 better with as many units",
                f"Lemmas 3 and 4: x^2 (here: folded {squares[0]['folds'][-1]} times against one hidden layer, "
                f"{squares[0]['units_of'][FOLDED][-1]} units each)",
                f"largest error {told(folded)} against {told(flat)}",
                smaller(folded, flat),
            )
        )
        made += [_cheaper(rows, target, OWN) for target in DEEP_LAYERS]
        made.append(_cheaper_square(squares))
        rivals = [method for method in CONSTRUCTIONS if method != OWN]
        return made + [_cheaper(rows, target, m) for m in rivals for target in DEEP_LAYERS]

    def draw(self, rows: Rows) -> Figure:
        """Errors against units above, against matrices below."""
        figure, axes = panels(2, 3, width=3.0, sharey=False)
        for row, against in zip(axes, ("units", "matrices"), strict=True):
            for axis, target in zip(row, DEEP_LAYERS, strict=False):
                _draw_trained(axis, rows, target, against)
            _draw_square(row[-1], select(rows, what=SQUARE), against)
        return figure


def _trained(rows: Rows, target: str, layers: int, units: int) -> list[Row]:
    return select(rows, what=TRAINED, target=target, layers=layers, units=units)


def _errors(rows: Rows, target: str, layers: int, units: int) -> list[float]:
    """Squared errors, one for each seed."""
    return [row["error"][target][0] for row in _trained(rows, target, layers, units)]


def _matrices(row: Row, method: str) -> int:
    return int(row["resources"][method]["matrices"])


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
    found = select(rows, what=TRAINED, target=target, layers=layers)
    return [(row["error"][target][0], float(_matrices(row, method))) for row in found]


def _cheaper(rows: Rows, target: str, method: str) -> Claim:
    """Whether a transformer that trains the deep network has fewer matrices, at the shallow one's accuracy."""
    layers = DEEP_LAYERS[target]
    savings = [
        log_saving(
            *(_priced(select(rows, seed=seed), target, n, method) for n in (SHALLOW_LAYERS, layers))
        )
        for seed in distinct(rows, "seed")
    ]
    paper = CONSTRUCTIONS[method]
    own = method == OWN
    said = "the deep network costs a transformer less" if own else "does the deep network cost less"
    return Claim(
        f"{paper}'s transformer is smaller for depth on {NAMES[target]}",
        f"{NAMES[target]}, {paper}'s construction: {said} (here: the cheapest network of {layers} hidden "
        "layers that is as accurate as the best of one)" + ("" if own else "?"),
        f"matrices of the shallow one over the deep one's: {_told_ratios(savings)}",
        positive(savings, ERROR_MARGIN),
        ours=not own,
    )  # fmt: skip


def _cheaper_square(rows: Rows) -> Claim:
    savings = [
        log_saving(
            *([(row["error"][name][-1], row["matrices_of"][name][-1])] for name in (AS_EXACT, FOLDED))
        )
        for row in rows
    ]  # fmt: skip
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
        f"matrices of the shallow one over the deep one's: {_told_ratios(savings)}; {since}",
        positive(savings, ERROR_MARGIN),
    )  # fmt: skip


def _told_ratios(savings: Sequence[float]) -> str:
    """exp(savings) over seeds; deep networks that were never accurate enough are said to be so."""
    lost = sum(value == -math.inf for value in savings)
    there = [math.exp(value) for value in savings if value != -math.inf]
    words = [told(there)] if there else []
    if lost:
        words.append(f"no deep network is accurate enough in {lost} of {len(savings)} seeds")
    return "; ".join(words)


# -- tables ----------------------------------------------------------------------------------------------


def _trained_table(rows: Rows, target: str) -> ResultTable:
    lines = []
    its = select(rows, what=TRAINED, target=target)
    for units in distinct(its, "units"):
        for layers in distinct(its, "layers"):
            found = _trained(rows, target, layers, units)
            counts = found[0]["resources"]
            lines.append(
                (
                    f"{units}", "-".join(map(str, found[0]["widths"])),
                    told(_errors(rows, target, layers, units)),
                    *(
                        f"{counts[m]['layers']}, {counts[m]['heads']:,}, {counts[m]['matrices']:,}"
                        for m in CONSTRUCTIONS
                    ),
                )
            )  # fmt: skip
    return ResultTable(
        f"Trained on {NAMES[target]}: squared error, and layers, heads, matrices of a step in context",
        ("Units", "Network", "Squared error", *(f"{p}'s" for p in CONSTRUCTIONS.values())), tuple(lines),
    )  # fmt: skip


def _balls(rows: Rows) -> ResultTable:
    found = select(rows, what=WRITTEN)
    lines = []
    for d, counts in found[0]["resources"].items():
        for i, count in enumerate(counts):
            errors = [row["error"][d][i] for row in found]
            network = "-".join(map(str, count["widths"]))
            lines.append(
                (
                    d, f"{found[0]['deltas'][i]}", network, told(errors), f"{count['heads']:,}",
                    f"{count['matrices']:,}",
                )
            )  # fmt: skip
    return ResultTable(
        "Three layers written down for the ball within delta (of the first seed), and heads and matrices of "
        "BRIDGE's construction",
        ("Dimension", "Delta", "Network", "Squared error", "Heads", "Matrices"), tuple(lines),
    )  # fmt: skip


def _squares(rows: Rows) -> ResultTable:
    found = select(rows, what=SQUARE)
    lines = []
    for i, m in enumerate(found[0]["folds"]):
        errors, units, matrices = (
            {name: [row[key][name][i] for row in found] for name in (FOLDED, SHALLOW, AS_EXACT)}
            for key in ("error", "units_of", "matrices_of")
        )
        lines.append(
            (
                f"{m}", f"{units[FOLDED][0]}", told(errors[FOLDED]), told(errors[SHALLOW]),
                f"{matrices[FOLDED][0]:,}", f"{units[AS_EXACT][0]:,}", f"{matrices[AS_EXACT][0]:,}",
            )
        )  # fmt: skip
    return ResultTable(
        "x^2: largest error, folded m times and by one hidden layer of as many units; matrices of BRIDGE's "
        "construction, and units and matrices of the hidden layer that is as exact",
        (
            "m", "Units", "Folded", "One hidden layer", "Matrices, folded", "Units, as exact",
            "Matrices, as exact",
        ), tuple(lines),
    )  # fmt: skip


# -- figure ----------------------------------------------------------------------------------------------


def _draw_trained(axis: Axes, rows: Rows, target: str, against: str) -> None:
    its = select(rows, what=TRAINED, target=target)
    units, seeds = distinct(its, "units"), distinct(its, "seed")
    methods = list(CONSTRUCTIONS) if against == "matrices" else [OWN]
    for style, method in enumerate(methods):
        for colour, layers in enumerate((SHALLOW_LAYERS, DEEP_LAYERS[target])):
            errors = [
                [
                    _trained(select(its, seed=s), target, layers, u)[0]["error"][target][0]
                    for u in units
                ]
                for s in seeds
            ]
            counts = [_matrices(_trained(its, target, layers, u)[0], method) for u in units]
            label = f"{layers} hidden" + (f", {CONSTRUCTIONS[method]}" if len(methods) > 1 else "")
            x = counts if against == "matrices" else units
            curve(axis, x, errors, label, colour, style, marker=".")
    _logarithmic(axis, units if against == "units" else ())
    title(axis, NAMES[target], against, "squared error")
    axis.legend(fontsize=6, frameon=False)


def _draw_square(axis: Axes, rows: Rows, against: str) -> None:
    x_of = "matrices_of" if against == "matrices" else "units_of"
    for colour, name in enumerate((AS_EXACT if against == "matrices" else SHALLOW, FOLDED)):
        errors = [row["error"][name] for row in rows]
        curve(axis, rows[0][x_of][name], errors, name, colour, marker=".")
    _logarithmic(axis, rows[0][x_of][FOLDED][::2] if against == "units" else ())
    title(axis, "x^2" + (", BRIDGE" if against == "matrices" else ""), against, "largest error")
    axis.legend(fontsize=6, frameon=False)


def _logarithmic(axis: Axes, at: Sequence[int]) -> None:
    """Both axes; the lower one with these ticks and no others, if there are any."""
    axis.set_xscale("log")
    axis.set_yscale("log")
    if at:
        axis.set_xticks(at, [str(value) for value in at])
        axis.set_xticks([], minor=True)
