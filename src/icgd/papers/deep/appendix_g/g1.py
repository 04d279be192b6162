"""DEEP, Appendix G.1: networks of 3, 4 and 6 layers learned in context, against prompt length and mixture."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from icgd.lab.experiments.claim import Case, gated_claim
from icgd.lab.experiments.drawing import curve, legend_below, panels, title
from icgd.lab.experiments.experiment import Claim, Experiment, ResultTable, Rows, Scale
from icgd.lab.experiments.over_seeds import distinct, positive, spread
from icgd.lab.sweeps.cells import Cell
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
    model_cell,
    model_curves,
    naive_predictors,
    naive_r2,
    short_of_naive,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIXTURES = {
    "1 : 0": (1.0, 0.0),
    "0.9 : 0.1": (0.9, 0.1),
    "0.7 : 0.3": (0.7, 0.3),
    "0.5 : 0.5": (0.5, 0.5),
}
TRAINED = "1 : 0"
SOFTMAX = "softmax"
PAPER = NetworkSize(
    seeds=3,
    n_dims=20,
    n_points=51,
    n_layer=12,
    n_head=8,
    n_embd=256,
    d_mlp=256,
    init_std=0.02,
    steps=500_000,
    batch=64,
    rate=1e-4,
    schedule="constant",
    prompts=6400,
    width=200,
    tested_points=76,
    baseline_every=5,
)
OVERNIGHT = NetworkSize(
    seeds=3,
    n_dims=8,
    n_points=41,
    n_layer=4,
    n_head=4,
    n_embd=64,
    init_std=0.125,
    steps=10_000,
    batch=64,
    rate=1e-3,
    prompts=1024,
    width=100,
    tested_points=61,
    baseline_every=10,
)
LAPTOP = NetworkSize(
    seeds=3,
    n_dims=5,
    n_points=26,
    n_layer=3,
    n_head=4,
    n_embd=64,
    init_std=0.125,
    steps=2000,
    batch=32,
    rate=1e-3,
    prompts=512,
    width=50,
    tested_points=39,
    baseline_every=6,
)
SMOKE = NetworkSize(
    seeds=1,
    n_dims=2,
    n_points=6,
    n_layer=1,
    n_head=2,
    n_embd=8,
    init_std=0.3,
    steps=12,
    batch=8,
    rate=1e-3,
    prompts=32,
    width=8,
    tested_points=9,
    baseline_every=4,
)
DIFFERS = (
    "The paper gives neither the width of the networks that make the targets nor their scale. Here they are as "
    "wide as its baseline networks, and every prompt's targets are standardised over inputs of the same "
    "distribution: unscaled outputs are of size 1000 and more.",
    "R2 is pooled over prompts at each position; the paper does not say how its mean R2 is formed.",
    "Networks trained on the prompt: the paper names widths, loss and 100 epochs. Here: Adam with rate 0.005 "
    "(not tuned, and a larger one may be better), He's initial weights, full batches, ReLU. The paper "
    "takes the best epoch, chosen on the test query: an oracle's choice, made here for all prompts "
    "together. The table has the last epoch too.",
    "Least squares has an intercept. Targets are close to linear, so it is the baseline to beat.",
    "Position embeddings beyond the trained length are as they were drawn at the start, as in the GPT-2 "
    "backbone of the paper; below `paper` with a deviation of 1/sqrt(width) instead of 0.02.",
    "ReLU attention divides by the number of tokens seen and by the root of the head's width. Gradients are "
    "clipped at norm 1. There is no curriculum. All models have one rate, which is not tuned.",
    "Models are judged if they are as good as the best naive predictor with the longest trained "
    "prompt, on inputs and networks as in training: the constant, least squares, or ridge on the "
    "inputs with a 1.",
    "Scales below `paper` use fewer dimensions, smaller models and fewer steps. They replace GPT-2's "
    "initial deviation 0.02 by 1/sqrt(width) and add a warm-up and a cosine schedule. Sizes were "
    "chosen for the time they take.",
)


class DeepG1(Experiment):
    """R2 against the number of examples, for ReLU and softmax transformers and four mixtures of inputs."""

    name: ClassVar = "deep-g1"
    paper: ClassVar = "DEEP"
    where: ClassVar = "Appendix G.1, Figures 1 and 2"
    question: ClassVar = (
        "Do transformers learn networks in context as well as networks trained on the prompt do?"
    )
    title: ClassVar = "networks of 3, 4 and 6 layers learned in context"
    differs: ClassVar = DIFFERS
    sizes: ClassVar = {
        "smoke": SMOKE,
        "laptop": replace(LAPTOP, baseline_every=12),
        "overnight": OVERNIGHT,
        "paper": PAPER,
    }
    depths: ClassVar = (3, 4, 6)

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per depth, attention and seed; baselines per depth, mixture and seed."""
        size: NetworkSize = self.size(scale)
        tests = {name: {"data": _mixture(*w)} for name, w in MIXTURES.items()}
        cells = []
        for seed in range(size.seeds):
            for n in self.depths:
                task = size.network_task(n)
                cells += [
                    model_cell(size, attention, seed, task, tests, {"n_layers": n})
                    for attention in ATTENTIONS
                ]
                cells += [
                    baseline_cell(size, seed, n, {**task, **change}, {"n_layers": n, "test": name})
                    for name, change in tests.items()
                ]
        for seed in range(size.seeds):
            for n in self.depths:
                task = {**size.network_task(n), **tests[TRAINED]}
                cells.append(naive_predictors(size, seed, task, {"n_layers": n}))
        return cells

    def tables(self, rows: Rows) -> list[ResultTable]:
        """R2 at the longest trained prompt, by mixture; and beyond it."""
        end, longest = ends(rows)
        lines, beyond = [], []
        for n in distinct(rows, "n_layers"):
            for attention in ATTENTIONS:
                curves = {
                    m: model_curves(rows, m, n_layers=n, attention=attention) for m in MIXTURES
                }
                lines.append(
                    (
                        f"{n}",
                        f"{attention} transformer",
                        *(spread([c[end] for c in curves[m]]) for m in MIXTURES),
                    )
                )
                beyond.append(
                    (
                        f"{n}",
                        f"{attention} transformer",
                        *(spread([c[at] for c in curves[TRAINED]]) for at in (end, longest)),
                    )
                )
            for name in (BEST, LAST, LINEAR):
                at_end = [
                    spread(baseline_at(rows, name, end, n_layers=n, test=m)) for m in MIXTURES
                ]
                lines.append((f"{n}", name, *at_end))
                both = [
                    spread(baseline_at(rows, name, at, n_layers=n, test=TRAINED))
                    for at in (end, longest)
                ]
                beyond.append((f"{n}", name, *both))
            naive = naive_r2(rows, (end, longest), n_layers=n)
            beyond += [(f"{n}", f"naive: {name}", *values) for name, *values in naive]
        return [
            ResultTable(
                f"R2 with {end} examples, the longest prompt of the training, by weights of the two Gaussians",
                ("Layers", "Predictor", *MIXTURES),
                tuple(lines),
            ),
            ResultTable(
                f"R2 on the trained mixture with {end} and with {longest} examples",
                ("Layers", "Predictor", f"{end}", f"{longest}"),
                tuple(beyond),
            ),
        ]

    def claims(self, rows: Rows) -> list[Claim]:
        """Matching networks trained on the prompt, decline beyond the trained length, and mixtures."""
        end, longest = ends(rows)
        places = ((end, "within the trained length"), (longest, "beyond it"))
        return [
            *(_match(rows, attention, *place) for attention in ATTENTIONS for place in places),
            _decline(rows, end, longest),
            _falls(rows, end),
        ]

    def draw(self, rows: Rows) -> Figure:
        """A row of panels per attention, a column per depth."""
        depths = distinct(rows, "n_layers")
        end, longest = ends(rows)
        figure, axes = panels(len(ATTENTIONS), len(depths))
        for r, attention in enumerate(ATTENTIONS):
            for c, n in enumerate(depths):
                axis = axes[r][c]
                for i, mixture in enumerate(MIXTURES):
                    seeds = model_curves(rows, mixture, n_layers=n, attention=attention)
                    curve(axis, range(longest + 1), seeds, f"transformer, {mixture}", i)
                    at, best = baseline_curves(rows, BEST, n_layers=n, test=mixture)
                    curve(axis, at, best, f"network, {mixture}", i, 1, marker=".")
                at, linear = baseline_curves(rows, LINEAR, n_layers=n, test=TRAINED)
                curve(axis, at, linear, f"least squares, {TRAINED}", 6, 2)
                axis.axvline(end, color="0.6", linewidth=0.8)
                axis.set_ylim(-0.5, 1.0)
                title(axis, f"{n} layers, {attention}", "examples", "R2" if c == 0 else "")
        legend_below(figure, axes[0][0], 5)
        return figure


def _match(rows: Rows, attention: str, at: int, where: str) -> Claim:
    """Transformers are as good as networks trained on the prompt."""
    depths = distinct(rows, "n_layers")
    by_depth = [gaps(rows, TRAINED, at, attention=attention, n_layers=n) for n in depths]
    return gated_claim(
        f"{attention} transformers match networks trained on the prompt {where}",
        f"{attention} transformers are as good as networks trained on the prompt, {where} "
        f"(here: R2 at most {MATCHES} lower, with {at} examples)",
        "R2 minus the network's best: "
        + ", ".join(f"{spread(g)} for {n} layers" for n, g in zip(depths, by_depth, strict=True)),
        [
            Case(positive([g + MATCHES for g in gap]), _short(rows, attention, n))
            for n, gap in zip(depths, by_depth, strict=True)
        ],
    )


def _decline(rows: Rows, end: int, longest: int) -> Claim:
    changes = {
        n: [c[longest] - c[end] for c in model_curves(rows, TRAINED, n_layers=n, attention=SOFTMAX)]
        for n in distinct(rows, "n_layers")
    }
    return gated_claim(
        "softmax transformers decline beyond the trained length",
        "the softmax transformer's R2 falls beyond the trained length",
        f"change from {end} to {longest} examples: "
        + ", ".join(f"{spread(change)} for {n} layers" for n, change in changes.items()),
        [
            Case(positive([-value for value in change]), _short(rows, SOFTMAX, n))
            for n, change in changes.items()
        ],
    )


def _falls(rows: Rows, end: int) -> Claim:
    """From each mixture to the next, for every depth and attention."""
    cases, drops = [], []
    for n in distinct(rows, "n_layers"):
        for attention in ATTENTIONS:
            by_mixture = [
                [c[end] for c in model_curves(rows, m, n_layers=n, attention=attention)]
                for m in MIXTURES
            ]
            for nearer, farther in pairwise(by_mixture):
                lost = [a - b for a, b in zip(nearer, farther, strict=True)]
                cases.append(Case(positive(lost), _short(rows, attention, n)))
                drops += lost
    falling = sum(case.holds is True for case in cases)
    return gated_claim(
        "R2 falls as the mixture departs from the trained one",
        "the farther the test mixture from N(-2, I), the lower R2",
        f"R2 lost from one mixture to the next: {spread(drops)}; in all seeds in "
        f"{falling} of {len(cases)} cases",
        cases,
    )


def _short(rows: Rows, attention: str, n_layers: int) -> tuple[str, ...]:
    return short_of_naive(rows, TRAINED, (attention,), n_layers=n_layers)


def _mixture(first: float, second: float) -> dict[str, object]:
    parts = [{"kind": "gaussian", "mean": mean} for mean in (-2.0, 2.0)]
    return {"kind": "mixture", "components": parts, "weights": [first, second]}
