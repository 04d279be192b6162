"""Translators: cross-entropies are PyTorch's, pairs do not see each other, and a small language is learned."""

from __future__ import annotations

import itertools
import math
import random

import pytest
import torch
from torch.nn import functional

from icgd.errors import AssumptionViolated
from icgd.lab.models.config import ModelConfig
from icgd.lab.models.language import LanguageModel
from icgd.lab.text.batches import endless_batches, rows_of
from icgd.lab.text.translator import loss_of, nats_of_pairs, train_translator, translate
from icgd.lab.text.vocabulary import END, N_SPECIAL, PADDING, SEPARATOR

MOST, VOCABULARY = 6, 9
PAIRS = [
    ((3, 4, 5), (6, 7)),
    ((8,), (3, 4, 5, 6)),
    ((), (7,)),
    ((5, 5, 5, 5, 5, 5), (8, 8, 8, 8, 8, 8)),
]
KINDS = {
    "standard": {"n_layer": 2},
    "looped": {"n_layer": 1, "loops": 3, "window": 1},
    "algoformer": {"n_layer": 1, "loops": 3, "window": 1},
}
every_kind = pytest.mark.parametrize("kind", list(KINDS))


def a_model(kind: str = "standard", seed: int = 0, **changes) -> LanguageModel:
    told = {"n_head": 2, "n_embd": 8, "init_std": 0.4, **KINDS[kind], **changes}
    config = ModelConfig(kind=kind, n_positions=2 * MOST + 1, layout="series", **told)
    model = LanguageModel(config, VOCABULARY)
    model.reset(torch.Generator().manual_seed(seed))
    return model


@torch.no_grad()
def by_hand(model: LanguageModel, source, target) -> list[float]:
    """-log p of each token from the model of one-hot series, one growing prefix at a time."""
    nats = []
    for k, wanted in enumerate((*target, END)):
        tokens = torch.tensor([[*source, SEPARATOR, *target[:k]]])
        places = [*range(len(source)), *range(MOST, MOST + 1 + k)]
        one_hot = functional.one_hot(tokens, VOCABULARY).float()
        P = model.series.prompt.read_in(one_hot) + model.series.prompt.positions[places]
        loops = model.config.loops
        scores = model.series.read_out(model.series.states(P, loops, loops)[-1][0, -1]).double()
        nats.append(float(torch.logsumexp(scores, 0) - scores[wanted]))
    return nats


@every_kind
def test_cross_entropies_are_those_of_one_hot_series_token_by_token(kind):
    model = a_model(kind)
    for (source, target), nats in zip(PAIRS, nats_of_pairs(model, PAIRS, MOST), strict=True):
        assert nats == pytest.approx(by_hand(model, source, target), abs=1e-5)


@every_kind
def test_the_loss_is_the_mean_over_counted_loops_of_pytorchs_cross_entropy(kind):
    model, rows = a_model(kind), rows_of(PAIRS, MOST)
    loops, window = model.config.loops, model.config.window
    means = []
    for t in range(max(loops - window, 1), loops + 1):
        P = model.series.prompt.read_in(functional.one_hot(rows.tokens, VOCABULARY).float())
        P = P + model.series.prompt.positions[rows.positions]
        states = model.series.states(P, t, t)[-1]
        scores = model.series.read_out(states[rows.asked])
        means.append(float(functional.cross_entropy(scores.detach(), rows.wanted)))
    assert float(loss_of(model, rows).detach()) == pytest.approx(sum(means) / len(means), abs=1e-5)
    if window == 0:
        nats = list(itertools.chain(*nats_of_pairs(model, PAIRS, MOST)))
        assert sum(nats) / len(nats) == pytest.approx(means[-1], abs=1e-5)


@every_kind
def test_what_a_pair_is_given_does_not_depend_on_the_pairs_beside_it(kind):
    model = a_model(kind)
    alone = [nats_of_pairs(model, [pair], MOST)[0] for pair in PAIRS]
    for nats, expected in zip(nats_of_pairs(model, PAIRS, MOST), alone, strict=True):
        assert nats == pytest.approx(expected, abs=1e-5)


@every_kind
def test_later_tokens_change_nothing_before_them(kind):
    model = a_model(kind)
    rows = rows_of([((3, 4), (5, 6, 7))], MOST)
    every = torch.ones_like(rows.asked)
    (before,) = model(rows.tokens, rows.positions, every)
    for changed in range(1, rows.tokens.shape[1]):
        tokens = rows.tokens.clone()
        tokens[0, changed] = 8
        (after,) = model(tokens, rows.positions, every)
        assert torch.equal(after[:changed], before[:changed])
        assert not torch.allclose(after[changed], before[changed])


def test_the_target_sees_its_source_and_the_source_is_not_asked():
    model, (source, target) = a_model(), PAIRS[0]
    rows = rows_of([(source, target)], MOST)
    assert rows.asked.tolist() == [[False] * len(source) + [True] * (len(target) + 1)]
    assert rows.wanted.tolist() == [*target, END]
    other = nats_of_pairs(model, [((8, *source[1:]), target)], MOST)[0]
    assert (
        max(abs(a - b) for a, b in zip(other, by_hand(model, source, target), strict=True)) > 1e-3
    )


def test_weights_are_those_of_the_seed_and_no_other():
    one, same, other = (a_model(seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["series.read_out.weight"], other["series.read_out.weight"])


def test_every_pair_comes_once_an_epoch_in_an_order_of_the_seed():
    pairs = [((3,) * (1 + i % 5), (4,) * (1 + i % 3)) for i in range(50)]
    numbered = [((*source, N_SPECIAL + i), target) for i, (source, target) in enumerate(pairs)]

    def epoch(seed: int):
        return list(itertools.islice(endless_batches(numbered, 8, seed), 7))

    assert sorted(pair for batch in epoch(0) for pair in batch) == sorted(numbered)
    assert epoch(0) == epoch(0) != epoch(1)
    assert all(len(batch) in (8, 2) for batch in epoch(0))


def test_batches_are_no_larger_than_the_text():
    assert all(len(b) == 4 for b in itertools.islice(endless_batches(PAIRS, 64, 0), 3))


@every_kind
def test_a_language_that_is_written_backwards_is_learned(kind):
    """Reversing needs the source, token by token: nobody guesses it."""
    sources = itertools.product(range(N_SPECIAL, VOCABULARY), repeat=3)
    pairs = [(source, source[::-1]) for source in sources]
    random.Random(0).shuffle(pairs)
    asked, train = pairs[:20], pairs[20:]
    model = a_model(kind, n_embd=32, init_std=0.18)
    torch.set_num_threads(1)
    losses = train_translator(
        model, train, most_tokens=MOST, steps=120, batch=64, rate=1e-2, warmup=10, seed=0
    )
    assert losses[0] > 1.5
    assert losses[-1] < 0.3
    made = translate(model, [source for source, _ in asked], MOST)
    right = sum(a == b for a, (_, b) in zip(made, asked, strict=True))
    assert right >= 0.8 * len(asked)
    # Together or one by one: no row sees another.
    assert made[:3] == [translate(model, [source], MOST)[0] for source, _ in asked[:3]]


def test_translations_follow_the_likeliest_token_and_end():
    """With a head that always says the same, the rule can be read off."""
    model = a_model()
    with torch.no_grad():
        model.series.read_out.weight.zero_()
        model.series.read_out.bias.copy_(torch.arange(VOCABULARY).float())
    assert translate(model, [(3, 4), ()], MOST) == [(VOCABULARY - 1,) * MOST] * 2
    with torch.no_grad():
        model.series.read_out.bias[END] = 99.0
    assert translate(model, [(3, 4), ()], MOST) == [(), ()]


def test_training_that_diverges_stops_and_says_so():
    model = a_model()
    with torch.no_grad():
        model.series.read_out.bias[PADDING] = math.inf
    with pytest.raises(AssumptionViolated, match=r"loss of step 1 is (nan|inf)"):
        train_translator(
            model, PAIRS, most_tokens=MOST, steps=3, batch=2, rate=1e-3, warmup=0, seed=0
        )
