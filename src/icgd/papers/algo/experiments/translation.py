"""The work of a cell that trains a translator, and what is measured of it."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import torch

from icgd.errors import InvalidFile
from icgd.lab.models.config import ModelConfig
from icgd.lab.models.language import LanguageModel
from icgd.lab.sweeps.cells import Workplace
from icgd.lab.text.pairs import Pair
from icgd.lab.text.translator import nats_of_pairs, train_translator, translate
from icgd.lab.text.vocabulary import N_SPECIAL, Encoded, Vocabulary, unigram_entropy
from icgd.papers.algo.experiments import texts

TOKEN, WORD, BYTE = "per token", "per word", "per byte"
SHUFFLED, TRAINING, BY_POSITION = "sources shuffled", "training", "by position"
N_EXAMPLES = 4
N_BINS = 40
POSITIONS = 12
NO_TEXT = ""
"""The text of cells whose cost is asked before there is one."""
_STAND_IN_PAIRS = 2000
_TIMED_PAIRS = 16


@dataclass(frozen=True)
class Material:
    """What a cell trains and measures on; no vocabulary or sentences in a stand-in."""

    train: list[Encoded]
    validation: list[Encoded]
    n_vocabulary: int
    sentences: list[Pair]
    vocabulary: Vocabulary | None = None


def train_and_translate(
    place: Workplace,
    *,
    text: str,
    model: dict[str, Any],
    sees_source: bool,
    vocabulary: int,
    most_tokens: int,
    validated: int,
    steps: int,
    batch: int,
    rate: float,
    warmup: int,
    seed: int,
) -> dict[str, Any]:
    """Train a translator and measure its cross-entropies; some translations beside.

    text         name of the text; NO_TEXT: random tokens, to learn what a step costs
    sees_source  False: the model is shown targets alone
    vocabulary, most_tokens  tokens there are, and those a side may have: longer pairs are left out
    validated    pairs that are measured, at most
    """
    torch.set_num_threads(1)
    device, generator = place.device or "cpu", torch.Generator().manual_seed(seed)
    material = _material(place, text, vocabulary, most_tokens, validated)
    train, validation = material.train, material.validation
    if not sees_source:
        train, validation = without_sources(train), without_sources(validation)
    config = ModelConfig(n_positions=2 * most_tokens + 1, layout="series", **model)
    translator = LanguageModel(config, material.n_vocabulary)
    translator.reset(generator)
    translator.to(device)
    started = time.perf_counter()
    losses = train_translator(
        translator,
        train,
        most_tokens=most_tokens,
        steps=steps,
        batch=batch,
        rate=rate,
        warmup=warmup,
        seed=seed,
    )
    seconds = time.perf_counter() - started
    nats = nats_of_pairs(translator, validation, most_tokens)
    shuffled = nats_of_pairs(translator, with_other_sources(validation), most_tokens)
    unigram = unigram_entropy(
        [t for _, t in train], [t for _, t in validation], material.n_vocabulary
    )
    targets = [target for _, target in material.sentences]
    return {
        "error": {
            **cross_entropies(nats, targets),
            SHUFFLED: [_per_token(shuffled)],
            TRAINING: _binned(losses),
            BY_POSITION: by_position(nats),
        },
        "unigram": unigram,
        "parameters": sum(p.numel() for p in translator.parameters()),
        "training_seconds": seconds,
        "pairs": len(train),
        "validated": len(validation),
        "examples": _examples(translator, material, text, most_tokens)
        if sees_source and not place.only_cost
        else [],
    }


def cross_entropies(
    nats: Sequence[Sequence[float]], targets: Sequence[str]
) -> dict[str, list[float]]:
    """Nats of all targets over their tokens (ends included), words and UTF-8 bytes.

    The last two do not depend on how words are cut into tokens.
    """
    total = sum(map(sum, nats))
    counts = {
        TOKEN: sum(map(len, nats)),
        WORD: sum(len(target.split()) for target in targets),
        BYTE: sum(len(target.encode()) for target in targets),
    }
    return {name: [total / count] for name, count in counts.items()}


def by_position(nats: Sequence[Sequence[float]]) -> list[float]:
    """Mean nats of the first, second, .. token, as far as any target has one."""
    longest = min(POSITIONS, max(map(len, nats)))
    return [fmean(each[k] for each in nats if len(each) > k) for k in range(longest)]


def without_sources(pairs: Sequence[Encoded]) -> list[Encoded]:
    """Targets alone."""
    return [((), target) for _, target in pairs]


def with_other_sources(pairs: Sequence[Encoded]) -> list[Encoded]:
    """Every target with the source of another pair, one about as long: length alone does not give it away."""
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][0]), i))
    given = {i: pairs[j][0] for i, j in zip(order, (*order[1:], order[0]), strict=True)}
    return [(given[i], pairs[i][1]) for i in range(len(pairs))]


def _material(
    place: Workplace, name: str, n_vocabulary: int, most_tokens: int, validated: int
) -> Material:
    if place.only_cost:
        validated = min(validated, _TIMED_PAIRS)
    if name == NO_TEXT:
        if not place.only_cost:
            raise InvalidFile("There is no text to train on: prepare the experiment first.")
        return _stand_in(n_vocabulary, most_tokens, validated)
    texts.find(name, place)
    vocabulary = texts.vocabulary(name, n_vocabulary)
    train, sides = texts.encoded(name, n_vocabulary, most_tokens)
    sides = sides[:validated]
    if not train or not sides:
        raise InvalidFile(
            f"No pair of {name} is short enough for {most_tokens} tokens a side. Supply shorter sentences."
        )
    # Tokens can be read back to the letter, so that these are the sentences that were short enough.
    sentences = [(vocabulary.decode(source), vocabulary.decode(target)) for source, target in sides]
    return Material(train, sides, vocabulary.size, sentences, vocabulary)


def _stand_in(n_vocabulary: int, most_tokens: int, validated: int) -> Material:
    """Random tokens, a little more than half as many as there may be: as sentences are."""
    chance = random.Random(0)

    def side() -> tuple[int, ...]:
        length = max(1, int(most_tokens * (0.15 + 0.85 * chance.random())))
        return tuple(chance.randrange(N_SPECIAL, n_vocabulary) for _ in range(length))

    pairs = [(side(), side()) for _ in range(_STAND_IN_PAIRS)]
    return Material(pairs, pairs[:validated], n_vocabulary, [("a", "b")] * len(pairs[:validated]))


def _examples(
    model: LanguageModel, material: Material, text: str, most_tokens: int
) -> list[dict[str, str]]:
    """Some sentences and their translations, where there are sentences."""
    vocabulary = material.vocabulary
    if vocabulary is None:
        return []
    shown = vocabulary.encode_pairs(texts.examples(text), most_tokens)[:N_EXAMPLES]
    translations = translate(model, [source for source, _ in shown], most_tokens)
    return [
        dict(
            zip(
                ("source", "target", "made"),
                map(vocabulary.decode, (*pair, translation)),
                strict=True,
            )
        )
        for pair, translation in zip(shown, translations, strict=True)
    ]


def _per_token(nats: Sequence[Sequence[float]]) -> float:
    return sum(map(sum, nats)) / sum(map(len, nats))


def _binned(losses: Sequence[float]) -> list[float]:
    """Means over at most so many equal stretches of the training."""
    n = min(N_BINS, len(losses))
    ends = [len(losses) * k // n for k in range(n + 1)]
    return [fmean(losses[a:b]) for a, b in pairwise(ends)]
