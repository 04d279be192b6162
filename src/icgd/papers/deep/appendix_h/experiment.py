"""DEEP, Appendix H: the score of a mixture learned in context, and samples drawn with it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from icgd.lab.experiments.claim import Case, gated_claim
from icgd.lab.experiments.drawing import COLOURS, curve, panels, title
from icgd.lab.experiments.experiment import Claim, Experiment, ResultTable, Row, Rows, Scale
from icgd.lab.experiments.learned import Reference, best_of, shortfalls
from icgd.lab.experiments.over_seeds import (
    positive,
    select,
    smaller,
    spread,
    spread_of_distances,
)
from icgd.lab.sweeps.cells import Cell
from icgd.papers.deep.appendix_h.diffusion import NOISE, SCORE
from icgd.papers.deep.appendix_h.learning import COT, DIRECT, EXACT, IN_CONTEXT, NAIVE, STACK, TRUTH
from icgd.papers.deep.appendix_h.sizes import LAPTOP, OVERNIGHT, PAPER, SMOKE, ScoreSize
from icgd.papers.deep.appendix_h.statements import CENTRES, SPREAD, T_0, T_1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAME = 1e-3
"""Difference of R2 up to which two trainings count as equally good."""
LEARNED = 0.8
"""R2 that a score must reach."""
FACTOR = 2.0
"""How many times as far as the exact score's samples may be from the mixture."""
LEARNERS = (
    (STACK, "gelu", SCORE),
    (STACK, "relu", SCORE),
    (COT, "relu", SCORE),
    (STACK, "gelu", NOISE),
    (COT, "relu", NOISE),
)
"""Construction, activation of the network, what its examples show."""


class DeepH(Experiment):
    """R2 and samples of scores learned by compiled programs, beside direct training and the exact score."""

    name: ClassVar = "deep-h"
    paper: ClassVar = "DEEP"
    where: ClassVar = "Appendix H"
    question: ClassVar = (
        "Do compiled transformers learn a score in context as well as direct training does?"
    )
    title: ClassVar = "the score of a diffusion model learned in context"
    differs: ClassVar = (
        "The paper runs nothing: Appendix H argues that Theorem 1 applies. Mixture (three Gaussians in the "
        "plane), networks, steps and the sampler are ours, even at the scale `paper`.",
        "Transformers are compiled, not trained. Direct training is autograd and torch.optim.SGD from the same "
        "weights on the same examples in the same order.",
        "Networks have a linear output and the inputs (x/3, t/1.5 - 1/2, 1/2), and learn a quarter of the "
        "score: as printed, outputs are activated and there is neither t nor a bias (errata D19). GELU "
        "represents the smooth activations that Theorem 1 requires, ReLU those that Appendix H mentions.",
        f"The weight gamma(t) of (H.1) is the density of the sampled t in [{T_0}, {T_1}], larger early on; "
        "R2 is measured on evenly distributed t, against exact scores. Targets are exact scores, "
        "or -z / sigma_t "
        "(denoising score matching), which needs no score but more examples.",
        f"The reverse process starts from N(0, I) at t = {T_1} and ends at t = {T_0}, for every score with "
        "the same noise. Samples of the exact score are away from the mixture almost only because they "
        "stop there, so a multiple of that distance is a lenient bar. The next column gives "
        "distances to the mixture "
        "at that time.",
        "Steps in context differ from direct ones by rounding, and by the fit of GELU. Step sizes are such "
        "that this stays small in most trainings; where one is chaotic, like the stack's at 0.5 after some "
        "thousand steps, weights and R2 diverge, as the table shows.",
        "The chain of thought is the one-layer softmax construction of COT, which trains ReLU networks with "
        "one example a round; it sees more examples, each once.",
    )
    seeds_differ: ClassVar = "Every seed has examples, noise and true samples of its own."
    only_cpu: ClassVar = True
    sizes: ClassVar = {"smoke": SMOKE, "laptop": LAPTOP, "overnight": OVERNIGHT, "paper": PAPER}

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per construction, activation and seed; the exact score once per seed."""
        size: ScoreSize = self.size(scale)
        work = "icgd.papers.deep.appendix_h.learning"
        cells = []
        for seed in range(size.seeds):
            sampling = {
                "samples": size.samples,
                "sampler_steps": size.sampler_steps,
                "points": size.points,
                "seed": seed,
            }
            cells.append(Cell({"how": EXACT, "seed": seed}, f"{work}:sample_exactly", sampling))
            for how, activation, target in LEARNERS:
                key = {"how": how, "activation": activation, "target": target, "seed": seed}
                options: dict[str, Any] = {
                    **sampling,
                    **key,
                    "hidden": size.hidden,
                    "early": size.early,
                    "fresh": size.fresh,
                    **_training(size, how, target),
                }
                cells.append(Cell(key, f"{work}:learn", options, effort=("steps",)))
        for seed in range(size.seeds):
            fitted = {
                "examples": size.examples,
                "early": size.early,
                "fresh": size.fresh,
                "seed": seed,
            }
            cells.append(Cell({"how": NAIVE, "seed": seed}, f"{work}:naive_scores", fitted))
        return cells

    def tables(self, rows: Rows) -> list[ResultTable]:
        """R2 and weights; distances of samples to the mixture."""
        learned, distances = [], []
        for how, activation, target in LEARNERS:
            trained = select(rows, how=how, activation=activation, target=target)
            learned.append(
                (
                    how,
                    activation,
                    target,
                    f"{trained[0]['steps'][-1]:,}",
                    *(spread(_r2(trained, by), 5) for by in (IN_CONTEXT, DIRECT)),
                    spread([row["apart"][-1] for row in trained]),
                )
            )
            distances += [
                (
                    f"{how}, {activation}, {target}, {by}",
                    spread(_distances(trained, by)),
                    spread(_times(_distances(trained, by), _exact(rows, EXACT))),
                    spread(_at_end(trained, by)),
                )
                for by in (IN_CONTEXT, DIRECT)
            ]
        naive = select(rows, how=NAIVE)
        learned += [
            (NAIVE, name, SCORE, "-", spread([row["r2"][name] for row in naive], 5), "-", "-")
            for name in naive[0]["r2"]
        ]
        ones = [
            (
                name,
                spread(_exact(rows, name)),
                spread(_times(_exact(rows, name), _exact(rows, EXACT))),
                spread(_at_end(select(rows, how=EXACT), name)),
            )
            for name in (TRUTH, EXACT)
        ]
        return [
            ResultTable(
                "R2 of the learned score on fresh points, and the largest difference of a weight at the end",
                (
                    "Construction",
                    "Network",
                    "Examples show",
                    "Steps",
                    "R2 in context",
                    "R2 direct",
                    "Weights differ by",
                ),
                tuple(learned),
            ),
            ResultTable(
                "Energy distance 2 E|X - Y| - E|X - X'| - E|Y - Y'| of samples to a true sample as large (0 on "
                "average for two true samples), how many times that of the exact score's samples it is, and "
                f"the distance to the mixture as it is at t = {T_0}, where all samplers stop",
                ("Samples", "Energy distance", "Times the exact score's", f"Distance at t = {T_0}"),
                (*ones, *distances),
            ),
        ]

    def claims(self, rows: Rows) -> list[Claim]:
        """In context as directly; samples nearly as good as the exact score's."""
        return [
            *(_learns(rows, *learner) for learner in LEARNERS),
            *(_samples_well(rows, *learner) for learner in LEARNERS),
        ]

    def draw(self, rows: Rows) -> Figure:
        """Samples of the first seed, and R2 while training."""
        figure, axes = panels(2, 5, width=2.7, sharey=False)
        first = {
            (row["how"], row.get("activation"), row.get("target")): row
            for row in rows
            if row["seed"] == 0
        }
        pictures = [
            ("true mixture", first[EXACT, None, None], TRUTH),
            ("exact score", first[EXACT, None, None], EXACT),
            *(
                (f"{learner[0]}, {learner[2]}", first[learner], IN_CONTEXT)
                for learner in (LEARNERS[0], LEARNERS[2], LEARNERS[4])
            ),
        ]
        for axis, (name, row, by) in zip(axes[0], pictures, strict=True):
            _samples(axis, row, by)
            title(axis, name if by != IN_CONTEXT else f"{name}, {by}")
        for axis, (how, activation, target) in zip(axes[1], LEARNERS, strict=True):
            trained = select(rows, how=how, activation=activation, target=target)
            for i, by in enumerate((IN_CONTEXT, DIRECT)):
                curve(axis, trained[0]["steps"], [row["r2"][by] for row in trained], by, i, i)
            axis.set_xscale("log")
            axis.set_ylim(-0.1, 1)
            title(axis, f"{how}, {activation}, {target}", "steps", "R2")
            axis.legend(fontsize=8, frameon=False)
        return figure


def _learns(rows: Rows, how: str, activation: str, target: str) -> Claim:
    trained = select(rows, how=how, activation=activation, target=target)
    ours, theirs = _r2(trained, IN_CONTEXT), _r2(trained, DIRECT)
    apart = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
    shown, short = _shown(target), _short(rows, trained)
    return gated_claim(
        f"the {how} learns the score with a {activation} network as direct training does{shown}",
        f"{how}, {activation}{shown}: in-context learning emulates the training of the score "
        f"network (here: R2 at least {LEARNED}, and at most {SAME} from that of direct training)",
        f"R2 {spread(ours, 4)} in context, {spread(theirs, 4)} directly; distance "
        f"{spread_of_distances(apart)}",
        [
            Case(positive([SAME - value for value in apart], 0.0), short),
            Case(positive([value - LEARNED for value in ours], 0.0), short),
        ],
    )


def _samples_well(rows: Rows, how: str, activation: str, target: str) -> Claim:
    trained = select(rows, how=how, activation=activation, target=target)
    ours, exact, shown = _distances(trained, IN_CONTEXT), _exact(rows, EXACT), _shown(target)
    return gated_claim(
        f"samples by the {how}'s score ({activation}{shown}) are at most {FACTOR:g} times as far "
        "as the exact score's",
        f"{how}, {activation}{shown}: are samples drawn with the learned score at most {FACTOR:g} "
        "times as far from the mixture as those drawn with the exact score?",
        f"{spread(_times(ours, exact))} times as far: {spread(ours)} against {spread(exact)}; from the "
        f"mixture at t = {T_0}, where samplers stop, {spread(_at_end(trained, IN_CONTEXT))} against "
        f"{spread(_at_end(select(rows, how=EXACT), EXACT))}",
        [Case(smaller(ours, [FACTOR * value for value in exact]), _short(rows, trained))],
        ours=True,
    )


def _shown(target: str) -> str:
    return "" if target == SCORE else ", from noise alone"


def _short(rows: Rows, trained: Rows) -> tuple[str, ...]:
    """Networks that have not learned what a constant or a linear score has."""
    naive = select(rows, how=NAIVE)
    references = [
        Reference(name, [row["r2"][name] for row in naive], is_r2=True) for name in naive[0]["r2"]
    ]
    models = {f"{trained[0]['how']}, {by}": _r2(trained, by) for by in (IN_CONTEXT, DIRECT)}
    return shortfalls(models, best_of(references))


def _training(size: ScoreSize, how: str, target: str) -> dict[str, Any]:
    """Width, examples, steps and step size of a training."""
    clean = target == SCORE
    examples = size.examples if clean else size.noise_examples
    if how == STACK:
        steps = size.steps if clean else size.noise_steps
        return {
            "width": size.width,
            "examples": examples,
            "steps": steps,
            "lr": size.lr,
            "n_relu": size.n_relu,
        }
    lr = size.cot_lr if clean else size.noise_cot_lr
    return {"width": size.cot_width, "examples": examples, "steps": size.rounds, "lr": lr}


def _r2(rows: Rows, by: str) -> list[float]:
    """At the end, for every seed."""
    return [row["r2"][by][-1] for row in rows]


def _distances(rows: Rows, by: str) -> list[float]:
    return [row["error"][by][0] for row in rows]


def _at_end(rows: Rows, by: str) -> list[float]:
    """Distances to the mixture at the time where samplers stop."""
    return [row["at_end"][by][0] for row in rows]


def _exact(rows: Rows, name: str) -> list[float]:
    return _distances(select(rows, how=EXACT), name)


def _times(values: list[float], of: list[float]) -> list[float]:
    return [a / b if b else math.nan for a, b in zip(values, of, strict=True)]


def _samples(axis: Axes, row: Row, by: str) -> None:
    """Points over circles that hold 86 % of each Gaussian of the mixture (two deviations)."""
    around = [2 * math.pi * k / 60 for k in range(61)]
    for x, y in CENTRES:
        circle = [
            [c + 2 * SPREAD * f(angle) for angle in around]
            for c, f in ((x, math.cos), (y, math.sin))
        ]
        axis.plot(*circle, color="0.4", linewidth=0.8)
    points = row["points"][by]
    axis.scatter(
        [p[0] for p in points], [p[1] for p in points], s=3, color=COLOURS[0], linewidths=0
    )
    axis.set_xlim(-3, 3)
    axis.set_ylim(-3, 3)
    axis.set_aspect("equal")
