"""DEEP, Appendix G.3: deeper transformers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from icgd.lab.experiments.claim import Case, gated_claim
from icgd.lab.experiments.drawing import curve, panels, title
from icgd.lab.experiments.experiment import Claim, Experiment, ResultTable, Rows, Scale
from icgd.lab.experiments.over_seeds import distinct, positive, spread
from icgd.lab.sweeps.cells import Cell
from icgd.papers.deep.appendix_g.g1 import DIFFERS, LAPTOP, OVERNIGHT, PAPER, SMOKE
from icgd.papers.deep.appendix_g.networks import (
    ATTENTIONS,
    NetworkSize,
    model_cell,
    model_curves,
    naive_predictors,
    naive_r2,
    short_of_naive,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_LAYERS = 4
TEST = "as trained"


@dataclass(frozen=True, kw_only=True)
class DepthSize(NetworkSize):
    """Settings of Appendix G.3.

    depths   layers of the transformers
    examples numbers of examples at which they are compared
    """

    depths: tuple[int, ...]
    examples: tuple[int, ...]


def _size(of: NetworkSize, depths: tuple[int, ...], examples: tuple[int, ...]) -> DepthSize:
    return DepthSize(
        **{**of.settings(), "tested_points": of.n_points}, depths=depths, examples=examples
    )


class DeepG3(Experiment):
    """R2 of transformers of several depths at a few numbers of examples."""

    name: ClassVar = "deep-g3"
    paper: ClassVar = "DEEP"
    where: ClassVar = "Appendix G.3, Figure 5"
    question: ClassVar = "Do deeper transformers learn networks better in context?"
    title: ClassVar = "deeper transformers"
    differs: ClassVar = (
        f"The paper does not say which networks make the targets; here they have {N_LAYERS} layers, as in G.2.",
        *DIFFERS,
    )
    sizes: ClassVar = {
        "smoke": _size(SMOKE, (1, 2), (2, 5)),
        "laptop": replace(
            _size(replace(LAPTOP, n_points=16), (4, 6, 8, 10), (5, 10, 15)),
            n_dims=3,
            n_embd=32,
            init_std=0.18,
            steps=1000,
        ),
        "overnight": replace(
            _size(OVERNIGHT, (4, 6, 8, 10), (12, 24, 36)), n_embd=32, init_std=0.18, steps=5000
        ),
        "paper": _size(PAPER, (4, 6, 8, 10), (15, 30, 45)),
    }

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per depth, attention and seed."""
        size: DepthSize = self.size(scale)
        task = size.network_task(N_LAYERS)
        models = [
            model_cell(
                size,
                attention,
                seed,
                task,
                {TEST: {}},
                {"depth": n, "examples": list(size.examples)},
                n_layer=n,
            )
            for seed in range(size.seeds)
            for n in size.depths
            for attention in ATTENTIONS
        ]
        return models + [naive_predictors(size, seed, task, {}) for seed in range(size.seeds)]

    def tables(self, rows: Rows) -> list[ResultTable]:
        """R2 by depth."""
        examples = rows[0]["examples"]
        lines = []
        for attention in ATTENTIONS:
            for depth in distinct(rows, "depth"):
                curves = model_curves(rows, TEST, attention=attention, depth=depth)
                lines.append(
                    (attention, f"{depth}", *(spread([c[n] for c in curves]) for n in examples))
                )
        lines += [(f"naive: {name}", "-", *values) for name, *values in naive_r2(rows, examples)]
        columns = ("Attention", "Layers", *(f"{n} examples" for n in examples))
        return [ResultTable("R2 by depth of the transformer", columns, tuple(lines))]

    def claims(self, rows: Rows) -> list[Claim]:
        """Deeper is better, for each attention."""
        depths, examples = distinct(rows, "depth"), rows[0]["examples"]
        claims = []
        for attention in ATTENTIONS:
            first, last = (
                model_curves(rows, TEST, attention=attention, depth=d)
                for d in (depths[0], depths[-1])
            )
            short = tuple(
                text
                for d in (depths[0], depths[-1])
                for text in short_of_naive(rows, TEST, (attention,), naive={}, depth=d)
            )
            gains = {n: [b[n] - a[n] for a, b in zip(first, last, strict=True)] for n in examples}
            claims.append(
                gated_claim(
                    f"deeper {attention} transformers are better",
                    f"{attention}: more layers, higher R2 (here: {depths[-1]} against {depths[0]} layers)",
                    "R2 gained: "
                    + ", ".join(f"{spread(g)} with {n} examples" for n, g in gains.items()),
                    [Case(positive(gain), short) for gain in gains.values()],
                )
            )
        return claims

    def draw(self, rows: Rows) -> Figure:
        """R2 against depth, a panel per attention."""
        depths, examples = distinct(rows, "depth"), rows[0]["examples"]
        figure, (axes,) = panels(1, len(ATTENTIONS))
        for axis, attention in zip(axes, ATTENTIONS, strict=True):
            for i, n in enumerate(examples):
                by_depth = [
                    [c[n] for c in model_curves(rows, TEST, attention=attention, depth=d)]
                    for d in depths
                ]
                curve(
                    axis, depths, list(zip(*by_depth, strict=True)), f"{n} examples", i, marker="o"
                )
            title(
                axis,
                f"{attention} transformer",
                "layers",
                "R2" if attention == ATTENTIONS[0] else "",
            )
            axis.legend(fontsize=8, frameon=False)
        return figure
