"""ALGO, Section 5.5: AlgoFormer, looped and standard transformers translate from German to English."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

from icgd.lab.experiments.claim import Case, combined, gated_claim
from icgd.lab.experiments.drawing import curve, legend_below, panels, title
from icgd.lab.experiments.experiment import Claim, Experiment, ResultTable, Rows, Scale, Size
from icgd.lab.experiments.learned import Reference, best_of, shortfalls
from icgd.lab.experiments.over_seeds import select, smaller, spread
from icgd.lab.sweeps.cells import Cell
from icgd.lab.text import debian, made_up
from icgd.lab.text.files import text_of_files
from icgd.papers.algo.experiments import texts
from icgd.papers.algo.experiments.algoformers import KINDS
from icgd.papers.algo.experiments.translation import (
    BY_POSITION,
    BYTE,
    NO_TEXT,
    SHUFFLED,
    TOKEN,
    TRAINING,
    WORD,
    train_and_translate,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_SOURCE = "standard, no source"
MODELS = (*KINDS, NO_SOURCE)
NAMES = {"algoformer": "AlgoFormer", "looped": "looped", "standard": "standard"}
WARMUP = 100
ORDER = (("algoformer", "standard"), ("algoformer", "looped"), ("looped", "standard"))
"""Pairs of models, of which the paper finds the first to be better."""


@dataclass(frozen=True, kw_only=True)
class NmtSize(Size):
    """Settings of translators.

    n_layer .. init_std      of the models; `n_layer` blocks in each stack of a looped or AlgoFormer model
    loops, window            T and dT of looped and AlgoFormer models
    standard_layers          blocks of the standard model
    vocabulary, most_tokens  tokens there are, and those either side may have
    steps, batch, rate       of the trainings
    validated                pairs that are measured, at most
    """

    n_layer: int
    n_head: int
    n_embd: int
    init_std: float
    loops: int
    window: int
    standard_layers: int
    vocabulary: int
    most_tokens: int
    steps: int
    batch: int
    rate: float
    validated: int

    def model(self, kind: str) -> dict[str, Any]:
        """A model of this kind, as a configuration has it."""
        common = {"n_head": self.n_head, "n_embd": self.n_embd, "init_std": self.init_std}
        if kind in ("standard", NO_SOURCE):
            return {**common, "kind": "standard", "n_layer": self.standard_layers}
        loop = {"loops": self.loops, "window": self.window}
        return {**common, **loop, "kind": kind, "n_layer": self.n_layer}


PAPER = NmtSize(
    seeds=3,
    n_layer=1,
    n_head=8,
    n_embd=256,
    init_std=0.02,
    loops=12,
    window=10,
    standard_layers=12,
    vocabulary=8192,
    most_tokens=96,
    steps=100_000,
    batch=64,
    rate=5e-5,
    validated=1000,
)
OVERNIGHT = NmtSize(
    seeds=3,
    n_layer=1,
    n_head=4,
    n_embd=128,
    init_std=0.09,
    loops=6,
    window=3,
    standard_layers=6,
    vocabulary=4096,
    most_tokens=48,
    steps=4500,
    batch=32,
    rate=1e-3,
    validated=1000,
)
LAPTOP = NmtSize(
    seeds=3,
    n_layer=1,
    n_head=4,
    n_embd=64,
    init_std=0.125,
    loops=4,
    window=1,
    standard_layers=4,
    vocabulary=2048,
    most_tokens=32,
    steps=2500,
    batch=32,
    rate=3e-3,
    validated=1000,
)
SMOKE = NmtSize(
    seeds=1,
    n_layer=1,
    n_head=2,
    n_embd=16,
    init_std=0.25,
    loops=2,
    window=1,
    standard_layers=2,
    vocabulary=300,
    most_tokens=24,
    steps=10,
    batch=8,
    rate=3e-3,
    validated=20,
)


@dataclass(frozen=True)
class AlgoNmt(Experiment):
    """Cross-entropy of translations by three models, beside one that does not see what it translates.

    text   name of what is translated; empty: a made-up language at smoke scale, and none elsewhere yet
    files  names of the files it is from, if a user supplied it
    """

    text: str = NO_TEXT
    files: tuple[str, ...] = ()

    name: ClassVar = "algo-nmt"
    paper: ClassVar = "ALGO"
    where: ClassVar = "Section 5.5"
    question: ClassVar = (
        "Does an AlgoFormer translate better than a looped and a standard transformer?"
    )
    title: ClassVar = "AlgoFormer, looped and standard transformers translate"
    seeds_differ: ClassVar = "All seeds have the same split of the text, and batches of their own."
    takes_text: ClassVar = True
    differs: ClassVar = (
        "The paper uses IWSLT 2015 German-English, which is available only from its site. Here we "
        "use the text given "
        "by --text, else Debian's package descriptions, translated by people; at smoke scale a made-up "
        "language. Cross-entropies on one text say nothing about those on another: only the order "
        "of the paper's "
        "4.994 (standard), 4.726 (looped) and 4.609 (AlgoFormer) can be compared with these.",
        "The paper gives neither the direction, the tokens, whether there is an encoder, the batch "
        "size, the steps, nor the unit of its "
        "cross-entropy. Here: German to English by decoders (source, separator, target in one causal row; "
        "positions start again after the separator), byte-pair encoding of both languages together, learned "
        "embedding and head that are not tied, nats per token of the target, including its end token.",
        "Pairs have 3 to 40 words on either side and 0.5 to 2.2 times as many on one as on the other; pairs "
        "equal up to names and numbers on either side count once, before the split; at most `most_tokens` "
        "tokens a side: longer pairs are left out, of the measured ones too. All seeds have the same split.",
        "Equation 6 is the mean over iterates T - dT .. T; looped and AlgoFormer models get their input "
        "again in every loop, which is our choice. Adam, warm-up, a cosine to 0, gradients clipped at "
        "norm 1, one rate for all, not tuned, no dropout; models are compared at equal steps, which "
        "are not equal costs. `paper` has the paper's models and rate; its steps, batch and vocabulary "
        "are ours.",
        f"At laptop scale looped and AlgoFormer models have T = {LAPTOP.loops} and dT = "
        f"{LAPTOP.window}, the standard one {LAPTOP.standard_layers} layers, all at rate "
        f"{LAPTOP.rate:g}; in the paper these are {PAPER.loops}, {PAPER.window}, "
        f"{PAPER.standard_layers} and {PAPER.rate:g}. An order found here holds for these small models.",
    )
    sizes: ClassVar = {"smoke": SMOKE, "laptop": LAPTOP, "overnight": OVERNIGHT, "paper": PAPER}

    def with_text(self, paths: Sequence[Path]) -> AlgoNmt:
        """This experiment on sentences a user supplies."""
        return AlgoNmt(texts.know(text_of_files(paths)), tuple(path.name for path in paths))

    def prepared(self, scale: Scale, models: Path, *, fetch: bool = True) -> AlgoNmt:
        """This experiment with its text, which is kept beside the models; Debian's if there is no other.

        fetch  False: what is not there is not fetched, and nothing is written
        """
        text = self.text
        if text == NO_TEXT and scale != "smoke":
            available = texts.kept(debian.ORIGIN, models) or (
                debian.debian_text() if fetch else None
            )
            text = NO_TEXT if available is None else texts.know(available)
        if fetch and text != NO_TEXT:
            texts.keep(text, models)
        return AlgoNmt(text, self.files)

    def as_recorded(self, rows: Rows) -> AlgoNmt:
        """This experiment on the text that rows were measured on."""
        return AlgoNmt(rows[0]["text"])

    @property
    def more_options(self) -> str:
        """The files, for whoever repeats the command."""
        return "".join(f" --text {name}" for name in self.files)

    def cells(self, scale: Scale) -> list[Cell]:
        """A training per model and seed."""
        size: NmtSize = self.size(scale)
        text = self.text
        if text == NO_TEXT and scale == "smoke":
            text = made_up.made_up_text().name
        same = {
            name: getattr(size, name)
            for name in ("vocabulary", "most_tokens", "validated", "steps", "batch", "rate")
        }
        same |= {"text": text, "warmup": min(WARMUP, size.steps // 10)}
        work = f"{train_and_translate.__module__}:{train_and_translate.__name__}"
        return [
            Cell(
                {"model": kind, "text": text, "seed": seed},
                work,
                {**same, "model": size.model(kind), "sees_source": kind != NO_SOURCE, "seed": seed},
                effort=("steps", "batch"),
            )
            for seed in range(size.seeds)
            for kind in MODELS
        ]

    def tables(self, rows: Rows) -> list[ResultTable]:
        """Cross-entropies by unit, baselines, costs, and translations of the first seed."""
        lines = []
        for kind in MODELS:
            trained = select(rows, model=kind)
            units = [spread(_errors(rows, kind, unit)) for unit in (TOKEN, WORD, BYTE)]
            shuffled = "-" if kind == NO_SOURCE else spread(_errors(rows, kind, SHUFFLED))
            seconds = median(row["training_seconds"] for row in trained)
            lines.append(
                (kind, f"{trained[0]['parameters']:,}", *units, shuffled, f"{seconds:.0f}")
            )
        first = rows[0]
        lines.append(("how often each token occurs", "-", spread([first["unigram"]]), *["-"] * 4))
        heading = (
            f"Cross-entropy in nats on {first['validated']:,} pairs that were not trained on, "
            f"{first['pairs']:,} that were, of the text {first['text']} (its name ends with a digest of its "
            "sentences): median (range) over seeds"
        )
        columns = (
            "Model",
            "Parameters",
            "Per token",
            "Per word",
            "Per byte",
            "Per token, other sources",
            "Seconds of a training",
        )
        return [ResultTable(heading, columns, tuple(lines)), _examples(rows)]

    def claims(self, rows: Rows) -> list[Claim]:
        """The order of Section 5.5; and whether there is anything to order."""
        errors = {kind: _errors(rows, kind, TOKEN) for kind in MODELS}
        naive = naive_reference(rows)
        claims = [
            gated_claim(
                f"{NAMES[better]} translates better than {NAMES[worse]}",
                f"the cross-entropy of the {NAMES[better]} model is below that of the {NAMES[worse]} one",
                f"{spread(errors[better])} against {spread(errors[worse])}",
                [
                    Case(
                        smaller(errors[better], errors[worse]),
                        shortfalls({kind: errors[kind] for kind in (better, worse)}, naive),
                    )
                ],
            )
            for better, worse in ORDER
        ]
        claims.append(
            Claim(
                "all three models use the source",
                "all three models have a smaller cross-entropy than a standard model that sees targets alone",
                ", ".join(f"{kind} {spread(values)}" for kind, values in errors.items()),
                combined([smaller(errors[kind], errors[NO_SOURCE]) for kind in KINDS]),
                ours=True,
            )
        )
        return claims

    def draw(self, rows: Rows) -> Figure:
        """The course of the trainings, and where in a sentence models are certain."""
        figure, axes = panels(1, 2, width=4.2)
        for axis, what, name, x in (
            (axes[0][0], TRAINING, "in training", "tenth of the training"),
            (axes[0][1], BY_POSITION, "by position, not trained on", "token of the target"),
        ):
            for i, kind in enumerate(MODELS):
                seeds = [row["error"][what] for row in select(rows, model=kind)]
                n = len(seeds[0])
                at = [10 * (k + 1) / n for k in range(n)] if what == TRAINING else range(1, n + 1)
                curve(axis, list(at), seeds, kind, i, i)
            title(axis, name, x, "nats per token" if what == TRAINING else "")
        legend_below(figure, axes[0][0], len(MODELS))
        return figure


def naive_reference(rows: Rows) -> Reference:
    """Frequencies of tokens, or a model that sees no source: a model no better than that does not translate."""
    seeds = select(rows, model=NO_SOURCE)
    return best_of(
        [
            Reference(name, values, to_be_beaten=True)
            for name, values in (
                ("token frequencies", [row["unigram"] for row in seeds]),
                (NO_SOURCE, _errors(rows, NO_SOURCE, TOKEN)),
            )
        ]
    )


def _errors(rows: Rows, kind: str, what: str) -> list[float]:
    return [row["error"][what][0] for row in select(rows, model=kind)]


def _examples(rows: Rows) -> ResultTable:
    """The same sentences by every model, of the first seed."""
    seed = rows[0]["seed"]
    by_model = {kind: select(rows, model=kind, seed=seed)[0]["examples"] for kind in KINDS}
    lines = []
    for first, *others in zip(*by_model.values(), strict=True):
        written = (first["made"], *(other["made"] for other in others))
        lines.append(tuple(_shown(text) for text in (first["source"], first["target"], *written)))
    shown = (
        "sentences written for this page, in the manner of the text"
        if texts.is_debian(rows[0]["text"])
        else "pairs that were not trained on"
    )
    heading = f"Translations of {shown}, token by token the likeliest (seed {seed})"
    return ResultTable(heading, ("Source", "Reference", *KINDS), tuple(lines))


def _shown(sentence: str) -> str:
    """A sentence in a cell of a table, where some characters mean something."""
    # A model that has learned little writes bytes that are no text.
    sentence = "".join(c if c.isprintable() else "?" for c in " ".join(sentence.split()))
    for character in "\\`*_<>[]|":
        sentence = sentence.replace(character, f"\\{character}")
    return sentence or "(nothing)"
