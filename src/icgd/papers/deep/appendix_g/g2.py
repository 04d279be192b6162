"""DEEP, Appendix G.2: parameters of the networks shifted away from those of the training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from icgd.lab.experiments.claim import Case, gated_claim
from icgd.lab.experiments.drawing import curve, legend_below, panels, title
from icgd.lab.experiments.experiment import Claim, Experiment, ResultTable, Rows, Scale
from icgd.lab.experiments.over_seeds import positive, select, spread
from icgd.lab.sweeps.cells import Cell
from icgd.papers.deep.appendix_g.constant_networks import LIVING, WIDTHS
from icgd.papers.deep.appendix_g.g1 import DIFFERS, LAPTOP, OVERNIGHT, PAPER, SMOKE
from icgd.papers.deep.appendix_g.networks import (
    ATTENTIONS,
    BEST,
    LAST,
    LINEAR,
    MATCHES,
    NetworkSize,
    baseline_at,
    baseline_cell,
    baseline_curves,
    ends,
    gaps,
    is_a_rival,
    model_cell,
    model_curves,
    naive_predictors,
    naive_r2,
    short_of_naive,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_LAYERS = 4
SLOPE = 0.1
SHIFTS = {"N(0, I)": 0.0, "N(-0.5, I)": -0.5, "N(0.5, I)": 0.5}
TRAINED = "N(0, I)"
SHARE_DIMS = (5, 20)
"""Inputs of the networks whose shares are measured: of the laptop scale and of the paper."""


class DeepG2(Experiment):
    """R2 of transformers trained on networks with parameters N(0, I), on networks with other means."""

    name: ClassVar = "deep-g2"
    paper: ClassVar = "DEEP"
    where: ClassVar = "Appendix G.2, Figures 3 and 4"
    question: ClassVar = (
        "Do transformers still match networks trained on the prompt when parameters are shifted?"
    )
    title: ClassVar = "networks whose parameters have another mean than in training"
    differs: ClassVar = (
        f"Networks have a leaky ReLU with slope {SLOPE}, in training and tests. With ReLU, parameters "
        "N(-0.5, I) on inputs N(-2, I) shut every unit of the second layer of a wide network, which is "
        "then constant; narrow ones often survive (table of shares by width). The paper gives no "
        "width: the experiment cannot be run with ReLU only if its networks are wide. Networks trained "
        "on the prompt have ReLU.",
        "The leaky networks of N(-0.5, I) are nearly linear, as least squares shows.",
        *DIFFERS,
    )
    sizes: ClassVar = {"smoke": SMOKE, "laptop": LAPTOP, "overnight": OVERNIGHT, "paper": PAPER}

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per attention and seed; baselines per shift and seed."""
        size: NetworkSize = self.size(scale)
        task = size.network_task(N_LAYERS, slope=SLOPE)
        tests: dict[str, dict[str, Any]] = {
            name: {"weights": {"kind": "gaussian", "mean": mean}} for name, mean in SHIFTS.items()
        }
        cells = []
        for seed in range(size.seeds):
            cells += [
                model_cell(size, attention, seed, task, tests, {}) for attention in ATTENTIONS
            ]
            cells += [
                baseline_cell(size, seed, N_LAYERS, {**task, **change}, {"test": name})
                for name, change in tests.items()
            ]
        for seed in range(size.seeds):
            cells.append(naive_predictors(size, seed, {**task, **tests[TRAINED]}, {}))
            options = {"n_dims": list(SHARE_DIMS), "widths": list(WIDTHS), "seed": seed}
            work = "icgd.papers.deep.appendix_g.constant_networks:shares_by_width"
            cells.append(Cell({"predictor": LIVING, "seed": seed}, work, options))
        return cells

    def tables(self, rows: Rows) -> list[ResultTable]:
        """R2 at the longest trained prompt, by distribution of the parameters."""
        end, _ = ends(rows)
        lines = []
        for attention in ATTENTIONS:
            curves = {name: model_curves(rows, name, attention=attention) for name in SHIFTS}
            at_end = [spread([c[end] for c in curves[name]]) for name in SHIFTS]
            lines.append((f"{attention} transformer", *at_end))
        lines += [
            (name, *(spread(baseline_at(rows, name, end, test=test)) for test in SHIFTS))
            for name in (BEST, LAST, LINEAR)
        ]
        lines += [
            (f"naive: {name}", value, *["-"] * (len(SHIFTS) - 1))
            for name, value in naive_r2(rows, (end,))
        ]
        heading = f"R2 with {end} examples, the longest of the training, by distribution of the parameters"
        return [ResultTable(heading, ("Predictor", *SHIFTS), tuple(lines)), _shares(rows)]

    def claims(self, rows: Rows) -> list[Claim]:
        """Matching networks trained on the prompt, shifted or not, for each attention."""
        end, _ = ends(rows)
        claims = []
        for attention in ATTENTIONS:
            short = short_of_naive(rows, TRAINED, (attention,))
            for test in SHIFTS:
                gap = gaps(rows, test, end, attention=attention)
                theirs, linear = (
                    baseline_at(rows, name, end, test=test) for name in (BEST, LINEAR)
                )
                matches = positive([g + MATCHES for g in gap]) if is_a_rival(theirs) else None
                claims.append(
                    gated_claim(
                        f"{attention} transformers match networks trained on the prompt for parameters {test}",
                        f"{attention}, parameters {test}: in context as good as networks trained on the prompt "
                        f"(here: R2 at most {MATCHES} lower)",
                        f"R2 minus the network's best with {end} examples: {spread(gap)}; that best is "
                        f"{spread(theirs)}, least squares {spread(linear)}",
                        [Case(matches, short)],
                    )
                )
        return claims

    def draw(self, rows: Rows) -> Figure:
        """A row of panels per attention, a column per distribution."""
        end, longest = ends(rows)
        figure, axes = panels(len(ATTENTIONS), len(SHIFTS))
        for r, attention in enumerate(ATTENTIONS):
            for c, test in enumerate(SHIFTS):
                axis = axes[r][c]
                seeds = model_curves(rows, test, attention=attention)
                curve(axis, range(longest + 1), seeds, "transformer", 0)
                for i, name in enumerate((BEST, LAST, LINEAR), 1):
                    at, curves = baseline_curves(rows, name, test=test)
                    curve(axis, at, curves, name, i, 1, marker=".")
                axis.axvline(end, color="0.6", linewidth=0.8)
                axis.set_ylim(-0.5, 1.0)
                title(axis, f"{test}, {attention}", "examples", "R2" if c == 0 else "")
        legend_below(figure, axes[0][0])
        return figure


def _shares(rows: Rows) -> ResultTable:
    """Which ReLU networks survive the shift, by dimension and width."""
    surviving = select(rows, predictor=LIVING)
    lines = tuple(
        (d, *(f"{spread([100 * row['share'][d][str(w)] for row in surviving])} %" for w in WIDTHS))
        for d in surviving[0]["share"]
    )
    heading = (
        f"Share of {N_LAYERS}-layer ReLU networks with parameters N(-0.5, I) that are not constant on "
        f"64 inputs N(-2, I), of {surviving[0]['networks']} drawn in each seed, by width"
    )
    return ResultTable(heading, ("Inputs", *(f"width {w}" for w in WIDTHS)), lines)
