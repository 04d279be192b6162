"""Tokens: sentences are read back to the letter, equal texts have equal vocabularies, entropies are by hand."""

from __future__ import annotations

import math

import pytest

from icgd.errors import InvalidParameter
from icgd.lab.text.made_up import made_up_text
from icgd.lab.text.vocabulary import (
    END,
    N_BYTES,
    N_SPECIAL,
    learn_vocabulary,
    unigram_entropy,
)

PAIRS = made_up_text(150).train


@pytest.fixture(scope="module")
def vocabulary():
    return learn_vocabulary(PAIRS, 300)


@pytest.mark.parametrize(
    "sentence",
    [
        *PAIRS[0],
        "tulo",
        "Größe, naïve „Straße“: 5 € (100 %)",
        "<pad> <eos> </s>",
        "日本語 🙂",
        "a  b",
    ],
)
def test_any_sentence_is_read_back_to_the_letter(vocabulary, sentence):
    tokens = vocabulary.encode(sentence)
    assert all(N_SPECIAL <= token < vocabulary.size for token in tokens)
    assert vocabulary.decode(tokens) == sentence
    assert vocabulary.decode((*tokens, END)) == sentence


def test_a_text_has_one_vocabulary_of_the_size_that_is_asked_for(vocabulary):
    assert vocabulary.size == 300
    again = learn_vocabulary(PAIRS, 300)
    assert again.tokenizer.to_str() == vocabulary.tokenizer.to_str()


def test_frequent_words_are_fewer_tokens_than_bytes(vocabulary):
    sentence = PAIRS[3][0]
    assert len(vocabulary.encode(sentence)) < 0.6 * len(sentence.encode())


def test_nothing_left_to_merge_is_no_error():
    assert learn_vocabulary([("a a a", "a a a")], 1000).size < 300


def test_fewer_tokens_than_bytes_are_refused():
    with pytest.raises(InvalidParameter, match=f">= {N_BYTES + N_SPECIAL}"):
        learn_vocabulary(PAIRS, 258)


def test_pairs_that_are_too_long_on_either_side_are_left_out(vocabulary):
    every = vocabulary.encode_pairs(PAIRS, 10**6)
    assert every == [(vocabulary.encode(s), vocabulary.encode(t)) for s, t in PAIRS]
    longest = sorted(max(map(len, pair)) for pair in every)
    limit = longest[len(longest) // 2]
    kept = vocabulary.encode_pairs(PAIRS, limit)
    assert kept == [pair for pair in every if max(map(len, pair)) <= limit]
    assert 0 < len(kept) < len(every)


def test_the_entropy_of_frequencies_is_that_counted_by_hand():
    """Four tokens and the end: counts 3 + 1, 1 + 1, 0 + 1, .. of 6 + 7."""
    trained, validated, size = [(3, 3), (3, 4)], [(3, 5)], 7
    expected = (
        math.log(13 / 4) + math.log(13 / 1) + math.log(13 / 3)
    ) / 3  # 3, 5 (never seen), END
    assert unigram_entropy(trained, validated, size) == pytest.approx(expected, rel=1e-12)
