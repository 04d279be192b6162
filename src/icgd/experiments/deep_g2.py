"""DEEP, Appendix G.2: parameters of the networks shifted away from those of the training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from icgd.experiments.cells import Cell
from icgd.experiments.deep_g1 import DIFFERS, LAPTOP, OVERNIGHT, PAPER, SMOKE
from icgd.experiments.drawing import curve, legend_below, panels, title
from icgd.experiments.experiment import Claim, Experiment, ResultTable, Rows, Scale
from icgd.experiments.networks_in_context import (
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
    has_learned,
    is_a_rival,
    model_cell,
    model_curves,
)
from icgd.experiments.over_seeds import positive, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_LAYERS = 4
SLOPE = 0.1
SHIFTS = {"N(0, I)": 0.0, "N(-0.5, I)": -0.5, "N(0.5, I)": 0.5}
TRAINED = "N(0, I)"


class DeepG2(Experiment):
    """R2 of transformers trained on networks with parameters N(0, I), on networks with other means."""

    name: ClassVar = "deep-g2"
    paper: ClassVar = "DEEP"
    where: ClassVar = "Appendix G.2, Figures 3 and 4"
    title: ClassVar = "networks whose parameters have another mean than in training"
    differs: ClassVar = (
        f"Networks have a leaky ReLU with slope {SLOPE}, in training and tests. As printed the experiment "
        "cannot be done with ReLU: parameters N(-0.5, I) on inputs N(-2, I) shut every unit of the second "
        "layer, and the network is constant. Networks trained on the prompt have ReLU all the same.",
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
        made = []
        for seed in range(size.seeds):
            made += [model_cell(size, attention, seed, task, tests, {}) for attention in ATTENTIONS]
            made += [
                baseline_cell(size, seed, N_LAYERS, {**task, **change}, {"test": name})
                for name, change in tests.items()
            ]
        return made

    def tables(self, rows: Rows) -> list[ResultTable]:
        """R2 at the longest trained prompt, by distribution of the parameters."""
        end, _ = ends(rows)
        lines = []
        for attention in ATTENTIONS:
            curves = {name: model_curves(rows, name, attention=attention) for name in SHIFTS}
            at_end = [told([c[end] for c in curves[name]]) for name in SHIFTS]
            lines.append((f"{attention} transformer", *at_end))
        lines += [
            (name, *(told(baseline_at(rows, name, end, test=test)) for test in SHIFTS))
            for name in (BEST, LAST, LINEAR)
        ]
        heading = f"R2 with {end} examples, the longest of the training, by distribution of the parameters"
        return [ResultTable(heading, ("Predictor", *SHIFTS), tuple(lines))]

    def claims(self, rows: Rows) -> list[Claim]:
        """Matching networks trained on the prompt, shifted or not, for each attention."""
        end, _ = ends(rows)
        claims = []
        for attention in ATTENTIONS:
            learned = has_learned(rows, TRAINED, attention=attention)
            for test in SHIFTS:
                gap = gaps(rows, test, end, attention=attention)
                theirs, linear = (
                    baseline_at(rows, name, end, test=test) for name in (BEST, LINEAR)
                )
                claims.append(
                    Claim(
                        f"{attention} transformers match networks trained on the prompt for parameters {test}",
                        f"{attention}, parameters {test}: in context as good as networks trained on the prompt "
                        f"(here: R2 at most {MATCHES} lower)",
                        f"R2 minus the network's best with {end} examples: {told(gap)}; that best is "
                        f"{told(theirs)}, least squares {told(linear)}",
                        positive([g + MATCHES for g in gap])
                        if learned and is_a_rival(theirs)
                        else None,
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
                    at, found = baseline_curves(rows, name, test=test)
                    curve(axis, at, found, name, i, 1, marker=".")
                axis.axvline(end, color="0.6", linewidth=0.8)
                axis.set_ylim(-0.5, 1.0)
                title(axis, f"{test}, {attention}", "examples", "R2" if c == 0 else "")
        legend_below(figure, axes[0][0])
        return figure
