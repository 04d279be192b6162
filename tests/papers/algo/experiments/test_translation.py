"""Translation: what cells measure, that no text is taken for another, and how texts are found again."""

from __future__ import annotations

import math
import os

import pytest

from icgd.errors import InvalidFile, InvalidParameter
from icgd.lab.sweeps.cells import Workplace, digest_of
from icgd.lab.text import debian
from icgd.lab.text.made_up import made_up_text
from icgd.papers.algo.experiments import texts, translation
from icgd.papers.algo.experiments.nmt import MODELS, NO_SOURCE, AlgoNmt, _shown
from icgd.papers.registry import find_experiment


@pytest.fixture
def forgetful(monkeypatch):
    """A process that knows no text yet, as a new worker does."""
    monkeypatch.setattr(texts, "_KNOWN", {})
    for remembered in (texts.vocabulary, texts.encoded):
        remembered.cache_clear()
    return texts._KNOWN


@pytest.fixture
def no_debian(monkeypatch):
    monkeypatch.setattr(debian, "debian_text", lambda: pytest.fail("Debian was asked"))


def tsv(path, n: int = 150, seed: int = 5):
    text = made_up_text(n, seed)
    lines = (f"{source}\t{target}\n" for source, target in (*text.train, *text.validation))
    path.write_text("".join(lines), encoding="utf-8")
    return path


def other_text(seed: int = 7):
    """As if Debian had said it."""
    made = made_up_text(120, seed)
    return type(made)("debian", made.train, made.validation)


# -- numbers ----------------------------------------------------------------------------------------------


def test_cross_entropies_share_their_nats_and_differ_in_what_is_counted():
    made = translation.cross_entropies([[1.0, 2.0, 3.0], [4.0]], ["Größe b", "c"])
    assert made == {"per token": [10 / 4], "per word": [10 / 3], "per byte": [10 / 10]}


def test_by_position_counts_only_targets_that_are_long_enough():
    assert translation.by_position([[1.0, 2.0], [3.0]]) == [2.0, 2.0]
    assert len(translation.by_position([[1.0] * 99])) == translation.POSITIONS


def test_other_sources_are_those_of_other_pairs_of_similar_length():
    pairs = [((i,) * (1 + i % 4), (100 + i,)) for i in range(17)]
    made = translation.with_other_sources(pairs)
    assert [target for _, target in made] == [target for _, target in pairs]
    assert all(a != b for (a, _), (b, _) in zip(made, pairs, strict=True))
    assert sorted(source for source, _ in made) == sorted(source for source, _ in pairs)
    off = [abs(len(a) - len(b)) for (a, _), (b, _) in zip(made, pairs, strict=True)]
    assert sum(o > 1 for o in off) <= 1  # the longest gets the shortest


def test_losses_are_averaged_over_equal_stretches(monkeypatch):
    monkeypatch.setattr(translation, "N_BINS", 2)
    assert translation._binned([1.0, 3.0, 5.0, 7.0]) == [2.0, 6.0]
    assert translation._binned([1.0]) == [1.0]


def test_sentences_cannot_break_a_table():
    assert _shown("a | b <c>\nd\x07 `e`") == "a \\| b \\<c\\> d? \\`e\\`"
    assert _shown("") == "(nothing)"


# -- cells ------------------------------------------------------------------------------------------------


def smoke_cell(kind: str):
    (cell,) = [c for c in AlgoNmt().cells("smoke") if c.key["model"] == kind]
    return cell


def test_a_cell_gives_the_same_numbers_again(tmp_path, forgetful):
    place = Workplace(tmp_path, tmp_path)
    one, again = (smoke_cell("looped").do(place, steps=2) for _ in range(2))
    assert one.pop("training_seconds") > 0
    again.pop("training_seconds")
    assert one == again
    assert one["pairs"] > one["validated"] > 0
    assert math.isfinite(one["unigram"])


def test_a_model_without_sources_is_given_none(tmp_path):
    """Other sources change nothing where there are none."""
    place = Workplace(tmp_path, tmp_path)
    blind, seeing = (smoke_cell(k).do(place, steps=2) for k in (NO_SOURCE, "standard"))
    assert blind["error"]["sources shuffled"] == blind["error"]["per token"]
    assert seeing["error"]["sources shuffled"] != seeing["error"]["per token"]
    assert blind["parameters"] == seeing["parameters"]
    assert (len(blind["examples"]), len(seeing["examples"])) == (0, translation.N_EXAMPLES)


def test_the_cost_can_be_asked_before_there_is_a_text(tmp_path, forgetful, no_debian):
    (cell, *_) = AlgoNmt().cells("laptop")
    small = {"batch": 2, "validated": 2, "vocabulary": 300}
    measured = cell.do(Workplace(tmp_path, only_cost=True), steps=1, **small)
    assert measured["examples"] == []
    with pytest.raises(InvalidFile, match="no text to train on"):
        cell.do(Workplace(tmp_path, tmp_path), steps=1, **small)


def test_sentences_that_are_all_too_long_are_refused(tmp_path):
    with pytest.raises(InvalidFile, match="short enough for 2 tokens"):
        smoke_cell("standard").do(Workplace(tmp_path, tmp_path), steps=1, most_tokens=2)


# -- texts ------------------------------------------------------------------------------------------------


def test_a_worker_reads_the_text_that_the_command_has_kept(tmp_path, forgetful):
    text = other_text()
    texts.know(text)
    texts.keep(text.name, tmp_path)
    forgetful.clear()
    assert texts.find(text.name, Workplace(tmp_path / "cell", tmp_path)) == text


def test_a_text_that_is_not_there_or_was_changed_is_refused(tmp_path, forgetful):
    text, place = other_text(), Workplace(tmp_path, tmp_path)
    with pytest.raises(InvalidFile, match=rf"{text.name} is not in"):
        texts.find(text.name, place)
    texts.know(other_text(8))
    texts.keep(other_text(8).name, tmp_path)
    (path,) = tmp_path.glob("text-*.parquet")
    path.rename(tmp_path / f"text-{text.name}.parquet")
    with pytest.raises(InvalidFile, match="has been changed"):
        texts.find(text.name, place)


def test_another_text_has_other_cells(tmp_path):
    experiments = [
        AlgoNmt(),
        *(AlgoNmt().with_text([tsv(tmp_path / f"{s}.tsv", seed=s)]) for s in (5, 6)),
    ]
    names = [{cell.name for cell in e.cells("smoke")} for e in experiments]
    assert len(set.union(*names)) == 3 * len(MODELS)


def test_debian_is_asked_once_and_its_text_is_kept(tmp_path, monkeypatch, forgetful):
    asked = []

    def debian_text():
        asked.append(1)
        return other_text(len(asked))

    monkeypatch.setattr(debian, "debian_text", debian_text)
    first = AlgoNmt().prepared("laptop", tmp_path)
    forgetful.clear()
    again = AlgoNmt().prepared("overnight", tmp_path)
    assert first == again
    assert first.text == other_text(1).name
    assert len(asked) == 1
    assert texts.find(first.text, Workplace(tmp_path, tmp_path)) == other_text(1)


def test_the_last_text_that_was_kept_is_gone_on_with(tmp_path, forgetful):
    names = [texts.know(other_text(seed)) for seed in (1, 2, 3)]
    for age, name in enumerate(names):
        texts.keep(name, tmp_path)
        os.utime(tmp_path / f"text-{name}.parquet", (1e9 - age, 1e9 - age))
    assert texts.kept(debian.ORIGIN, tmp_path) == other_text(1)
    assert texts.kept("another", tmp_path) is None


def test_no_line_of_debian_is_shown_but_those_of_a_users_text_are(forgetful, tmp_path):
    """Results of Debian's text can be passed on; what a user supplied is the user's own."""
    name = texts.know(other_text())
    shown = texts.examples(name)
    assert texts.is_debian(name)
    assert len(shown) == translation.N_EXAMPLES
    assert not set(shown) & {*other_text().train, *other_text().validation}
    given = AlgoNmt().with_text([tsv(tmp_path / "mine.tsv")]).text
    assert not texts.is_debian(given)
    assert texts.examples(given) == texts.find(given, Workplace(tmp_path, tmp_path)).validation


def test_only_looking_neither_asks_nor_writes(tmp_path, no_debian):
    assert AlgoNmt().prepared("laptop", tmp_path, fetch=False) == AlgoNmt()
    given = AlgoNmt().with_text([tsv(tmp_path / "a.tsv")])
    assert given.prepared("laptop", tmp_path / "models", fetch=False) == given
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


def test_the_smoke_scale_needs_no_text(tmp_path, no_debian):
    assert AlgoNmt().prepared("smoke", tmp_path) == AlgoNmt()


def test_a_record_tells_which_text_it_is_of(reproduced):
    record = reproduced("algo-nmt").record
    experiment = find_experiment("algo-nmt").as_recorded(record.rows)
    assert digest_of(experiment.cells("smoke")) == record.cells
    assert find_experiment("algo-fig3").as_recorded([]) is find_experiment("algo-fig3")


def test_experiments_without_text_refuse_one(tmp_path):
    with pytest.raises(InvalidParameter, match="algo-fig2 reads no text"):
        find_experiment("algo-fig2").with_text([tmp_path])
