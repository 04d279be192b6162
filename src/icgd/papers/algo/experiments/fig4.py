"""ALGO, Figure 4: layers and heads of an AlgoFormer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, ClassVar

from icgd.lab.experiments.claim import Case, gated_claim
from icgd.lab.experiments.drawing import curve, panels, title
from icgd.lab.experiments.experiment import Claim, Experiment, ResultTable, Rows, Scale
from icgd.lab.experiments.learned import best_reference, shortfalls
from icgd.lab.experiments.over_seeds import distinct, select, smaller, spread
from icgd.lab.sweeps.cells import Cell
from icgd.papers.algo.experiments.algoformers import (
    DIFFERS,
    LAST_POSITIONS,
    REGRESSION,
    AlgoSize,
    curve_of,
    end_errors,
    model_cell,
    naive_lines,
    naive_predictors,
    resized,
)
from icgd.papers.algo.experiments.fig2 import LAPTOP as FIG2_LAPTOP
from icgd.papers.algo.experiments.fig2 import OVERNIGHT as FIG2_OVERNIGHT
from icgd.papers.algo.experiments.fig2 import PAPER as FIG2_PAPER
from icgd.papers.algo.experiments.fig2 import SMOKE as FIG2_SMOKE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXCEPTIONS = {"layers": 4, "heads": 16}
"""From here on the paper itself found more to be worse."""
STACKS = 3
"""Stacks of an AlgoFormer: before, in and after the loop."""


@dataclass(frozen=True, kw_only=True)
class ShapeSize(AlgoSize):
    """Settings of Figure 4.

    layers  of each stack, with `n_head` heads
    heads   of each block, with `n_layer` layers
    """

    layers: tuple[int, ...]
    heads: tuple[int, ...]


class AlgoFig4(Experiment):
    """Errors of AlgoFormers by layers and by heads, and of standard models with as many layers."""

    name: ClassVar = "algo-fig4"
    paper: ClassVar = "ALGO"
    where: ClassVar = "Section 5.3, Figure 4"
    question: ClassVar = (
        "Do more layers and heads help an AlgoFormer, and does it beat a standard model?"
    )
    title: ClassVar = "layers and heads of an AlgoFormer"
    differs: ClassVar = (
        *DIFFERS,
        "The text does not name all numbers of layers and heads of the figure; those of the table are ours.",
    )
    sizes: ClassVar = {
        "smoke": resized(ShapeSize, FIG2_SMOKE, layers=(1, 2), heads=(1, 2)),
        "laptop": resized(
            ShapeSize, FIG2_LAPTOP, layers=(1, 2, 3), heads=(1, 2, 4), steps=500, loops=6, window=3
        ),
        "overnight": resized(
            ShapeSize, FIG2_OVERNIGHT, layers=(1, 2, 3), heads=(1, 2, 4), steps=10_000
        ),
        "paper": resized(ShapeSize, FIG2_PAPER, layers=(1, 2, 3, 4), heads=(1, 4, 8, 16)),
    }

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per shape and seed."""
        size: ShapeSize = self.size(scale)
        task = {"name": REGRESSION}
        shapes = [(n, size.n_head) for n in size.layers] + [(size.n_layer, h) for h in size.heads]
        cells = []
        for seed in range(size.seeds):
            for n, h in dict.fromkeys(shapes):
                key = {"model": "algoformer", "layers": n, "heads": h}
                model = size.model("algoformer", n_layer=n, n_head=h)
                cells.append(model_cell(size, model, task, seed, key))
            for n in size.layers:
                key = {"model": "standard", "layers": STACKS * n, "heads": size.n_head}
                model = size.model("standard", n_layer=STACKS * n)
                cells.append(model_cell(size, model, task, seed, key))
        cells += [naive_predictors(size, task, seed, {}) for seed in range(size.seeds)]
        return cells

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Errors at the end of the prompts."""
        lines = []
        for model in distinct(rows, "model"):
            for n, h in _shapes(rows, model):
                shape = select(rows, model=model, layers=n, heads=h)
                size = f"{shape[0]['parameters']:,}"
                lines.append((model, f"{n}", f"{h}", size, spread(end_errors(shape))))
        naive = naive_lines(rows, "error")
        lines += [(name, "-", "-", "-", error) for name, error in naive]
        heading = (
            f"Mean squared error over the last {LAST_POSITIONS} positions. Layers are those of each of "
            "the three stacks of an AlgoFormer, and of the whole standard model. Predictors without "
            "layers need no training"
        )
        columns = ("Predictor", "Layers", "Heads", "Parameters", "Squared error")
        return [ResultTable(heading, columns, tuple(lines))]

    def claims(self, rows: Rows) -> list[Claim]:
        """More layers, more heads, and the comparison at equal layers."""
        return [*(_more(rows, what) for what in EXCEPTIONS), _equal_layers(rows)]

    def draw(self, rows: Rows) -> Figure:
        """By layers and by heads."""
        figure, (axes,) = panels(1, 2, width=4.2, height=3.2)
        for axis, what in zip(axes, ("layers", "heads"), strict=True):
            for i, (n, shape) in enumerate(_ladder(rows, what).items()):
                seeds = [curve_of(row) for row in select(rows, model="algoformer", **shape)]
                curve(axis, range(len(seeds[0])), seeds, f"{n} {what}", i)
                if what == "layers":
                    seeds = [curve_of(r) for r in select(rows, model="standard", layers=STACKS * n)]
                    curve(axis, range(len(seeds[0])), seeds, f"standard, {STACKS * n} layers", i, 1)
            naive = best_reference(rows, "error")
            axis.axhline(median(naive.values), color="0.4", linewidth=0.8, label=naive.name)
            axis.set_yscale("log")
            title(axis, what, "examples", "squared error" if what == "layers" else "")
            axis.legend(fontsize=7, frameon=False)
        return figure


def _more(rows: Rows, what: str) -> Claim:
    """More layers, or more heads, have a smaller error."""
    ladder = _ladder(rows, what)
    errors = {n: end_errors(rows, model="algoformer", **shape) for n, shape in ladder.items()}
    judged = [n for n in errors if n < EXCEPTIONS[what]]
    first, last = min(judged), max(judged)
    models = {f"{n} {what}": errors[n] for n in (first, last)}
    return gated_claim(
        f"more {what} have a smaller error",
        f"more {what}, smaller error (the paper excepts {EXCEPTIONS[what]} {what}, which may train "
        f"worse; here: {last} against {first})",
        ", ".join(f"{n}: {spread(e)}" for n, e in errors.items()),
        [Case(smaller(errors[last], errors[first]), _short(rows, models))],
    )


def _equal_layers(rows: Rows) -> Claim:
    cases, numbers = [], []
    for n, shape in _ladder(rows, "layers").items():
        layers = STACKS * n
        ours = end_errors(rows, model="algoformer", **shape)
        theirs = end_errors(rows, model="standard", layers=layers)
        models = {f"AlgoFormer, {layers} layers": ours, f"standard, {layers} layers": theirs}
        cases.append(Case(smaller(ours, theirs), _short(rows, models)))
        numbers.append(f"{layers} layers: {spread(ours)} against {spread(theirs)}")
    return gated_claim(
        "AlgoFormer better than a standard transformer with as many layers",
        "with as many layers the AlgoFormer has a smaller error than the standard transformer",
        "; ".join(numbers),
        cases,
    )


def _short(rows: Rows, models: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Models that have not learned what the best naive predictor has."""
    return shortfalls(models, best_reference(rows, "error"))


def _shapes(rows: Rows, model: str) -> list[tuple[int, int]]:
    return list(dict.fromkeys((r["layers"], r["heads"]) for r in select(rows, model=model)))


def _ladder(rows: Rows, what: str) -> dict[int, dict[str, int]]:
    """The AlgoFormers that differ in layers alone (the heads most of them have), or in heads alone."""
    shapes = _shapes(rows, "algoformer")
    other = 1 if what == "layers" else 0
    common = max({s[other] for s in shapes}, key=lambda v: sum(s[other] == v for s in shapes))
    return {
        shape[1 - other]: {"layers": shape[0], "heads": shape[1]}
        for shape in sorted(shapes)
        if shape[other] == common
    }
