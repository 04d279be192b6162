"""Pairs of sentences: what is kept, what is one template, and that validation shares none with training."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icgd.errors import InvalidFile
from icgd.lab.text.made_up import made_up_text
from icgd.lab.text.pairs import (
    FEWEST_PAIRS,
    ParallelText,
    cleaned,
    is_kept,
    load,
    masked,
    one_of_each_template,
    save,
)


def words(n: int, first: str = "w") -> str:
    return " ".join([first] + ["x"] * (n - 1))


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        (3, 3, True),
        (2, 3, False),
        (3, 2, False),
        (40, 40, True),
        (41, 40, False),
        (40, 41, False),
        (10, 5, True),
        (10, 4, False),
        (10, 22, True),
        (10, 23, False),
    ],
)
def test_lengths_and_their_ratio_decide(source, target, kept):
    assert is_kept((words(source, "a"), words(target, "b"))) is kept


def test_a_sentence_that_is_not_translated_is_left_out():
    assert not is_kept(("das ist gleich", "das ist gleich"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            ("Sprachpaket für GNOME auf Arabisch", "language pack for GNOME in Arabic"),
            ("Sprachpaket für KDE auf Arabisch", "language pack for KDE in Arabic"),
        ),
        (
            ("enthält Version 3.1 der Bibliothek", "contains version 3.1 of the library"),
            ("enthält Version 12 der Bibliothek", "contains version 12 of the library"),
        ),
        (
            ("die Dateien von libfoo2 für Entwickler", "the libfoo2 files for developers"),
            ("die Dateien von lib-bar9 für Entwickler", "the lib-bar9 files for developers"),
        ),
    ],
)
def test_names_and_numbers_make_no_other_template(one, other):
    assert masked(one) == masked(other)
    assert list(one_of_each_template([one, other])) == [one]


def test_one_side_that_is_shared_is_enough_to_be_left_out():
    pairs = [("a b c", "d e f"), ("a b c", "g h i"), ("j k l", "g h i"), ("m n o", "p q r")]
    assert list(one_of_each_template(pairs)) == [pairs[0], pairs[3]]


few_words = st.lists(
    st.sampled_from(["das", "Haus", "von", "KDE", "libx2", "ist", "the", "of", "7"]),
    min_size=3,
    max_size=5,
).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(few_words, few_words), max_size=60), seed=st.integers(0, 99))
def test_no_masked_side_is_both_trained_and_validated_on(pairs, seed):
    """The law that keeps a split honest, on texts where nearly everything is a template."""
    chance = random.Random(seed)
    other = [
        (" ".join(chance.sample("abcdefghijklmnop", 6)), " ".join(chance.sample("qrstuvwxyz", 6)))
        for _ in range(2 * FEWEST_PAIRS)
    ]
    text = cleaned([*pairs, *other], "x", "x")
    assert text.train
    assert text.validation
    for side in (0, 1):
        trained, validated = (
            {masked(pair)[side] for pair in part} for part in (text.train, text.validation)
        )
        assert not trained & validated
        assert len(trained) + len(validated) == len(text.train) + len(text.validation)


def test_the_split_depends_on_what_is_said_and_not_on_its_order():
    text = made_up_text(200)
    pairs = [*text.train, *text.validation]
    random.Random(1).shuffle(pairs)
    assert cleaned(pairs, text.origin, "x") == text
    assert len(text.validation) == len(pairs) // 10


def test_the_name_changes_with_every_letter_and_with_the_split():
    text = ParallelText("x", (("a b c", "d e f"),), (("g h i", "j k l"),))
    others = [
        ParallelText("x", (("a b c", "d e g"),), text.validation),
        ParallelText("x", (*text.train, *text.validation), ()),
        ParallelText("x", text.validation, text.train),
        ParallelText("y", text.train, text.validation),
    ]
    assert len({text.name, *(other.name for other in others)}) == 5
    assert text.name == ParallelText("x", text.train, text.validation).name


def test_a_text_comes_back_from_its_file(tmp_path):
    text = made_up_text(100)
    save(text, tmp_path / "deep" / "text.parquet")
    assert load(tmp_path / "deep" / "text.parquet", text.origin) == text


@pytest.mark.parametrize("content", [b"", b"no parquet"])
def test_another_file_is_refused(tmp_path, content):
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(InvalidFile, match=r"x\.parquet is no text"):
        load(tmp_path / "x.parquet", "x")


def test_too_few_pairs_are_refused_with_what_is_wanted():
    with pytest.raises(
        InvalidFile, match=r"mine has 1 usable pairs of sentences out of 3; at least 50"
    ):
        cleaned([("a b c", "d e f"), ("a b c", "d e f"), ("a", "b")], "x", "mine")


def test_whoever_reads_the_made_up_source_can_be_certain_of_the_target():
    """Each word has one translation, and the order is turned in the same way every time."""
    text = made_up_text()
    told: dict[str, str] = {}
    for source, target in (*text.train, *text.validation):
        time, *middle, verb = source.split()
        *first, last = target.split()
        assert told.setdefault(time, last) == last
        seen = [told.get(word) for word in (*middle, verb)]
        assert len(first) == len(seen)
        for word, translated in zip((*middle, verb), seen, strict=True):
            if translated is None and len(middle) == 2:
                told[word] = dict(
                    zip((*middle, verb), (first[0], first[2], first[1]), strict=True)
                )[word]
            elif translated is not None:
                assert translated in first
    assert len(told) > 20
