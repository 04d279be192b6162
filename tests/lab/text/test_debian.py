"""Debian's descriptions: the format deb822 is read, languages are joined, and what cannot be had is said."""

from __future__ import annotations

import subprocess

import pytest

from icgd.errors import InvalidFile
from icgd.lab.text import debian
from icgd.lab.text.debian import aligned, debian_text, description_pairs, descriptions

ENGLISH = """\
Package: game
Description-md5: 1111
Description-en: small game of old cities
 You build a city. You defend it
 against your friends.
 .
 It offers:
  * many maps to play
    and to draw
  * sounds and music

Package: tool
Description-md5: 2222
Description-en: tool that nobody translated

Package: library
Description-md5: 3333
Description-en: library with more paragraphs
 One of them.
 .
 And another one.
"""
GERMAN = """\
Package: game
Description-md5: 1111
Description-de: kleines Spiel alter Städte
 Sie bauen eine Stadt. Sie verteidigen sie gegen Ihre Freunde.
 .
 Es bietet:
  * viele Karten zum Spielen und Zeichnen
  * Klänge und Musik

Package: library
Description-md5: 3333
Description-de: Bibliothek mit mehr Absätzen
 Nur einer von ihnen.

Package: unknown
Description-md5: 4444
Description-de: steht nur auf dieser Seite
"""


def test_pairs_are_joined_by_digest_and_split_where_both_sides_agree():
    assert list(description_pairs(GERMAN, ENGLISH)) == [
        ("kleines Spiel alter Städte", "small game of old cities"),
        ("Sie bauen eine Stadt.", "You build a city."),
        ("Sie verteidigen sie gegen Ihre Freunde.", "You defend it against your friends."),
        ("Es bietet:", "It offers:"),
        ("viele Karten zum Spielen und Zeichnen", "many maps to play and to draw"),
        ("Klänge und Musik", "sounds and music"),
    ]


def test_a_language_has_its_own_field_and_the_last_stanza_needs_no_blank_line():
    assert set(descriptions(ENGLISH.rstrip("\n").splitlines(), "en")) == {"1111", "2222", "3333"}
    assert descriptions(ENGLISH.splitlines(), "de") == {}


def test_a_description_without_a_digest_or_a_body_is_passed_over():
    assert descriptions(["Description-en: something", "", "Description-md5: 5", ""], "en") == {}


def test_paragraphs_stay_whole_where_sentences_do_not_agree():
    assert list(aligned(["Eins. Zwei."], ["One and two."])) == [("Eins. Zwei.", "One and two.")]
    assert list(aligned(["Eins.", "Zwei."], ["One and two."])) == []


def many(language: str) -> str:
    """Descriptions enough for a text."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return "\n".join(
        f"Package: p\nDescription-md5: {i}\nDescription-{language}: {language}{letters[i // 26]} "
        f"{language}{letters[i % 26]} {language}{language}\n"
        for i in range(100)
    )


def index_files(directory, mirror: str = "mirror_main") -> None:
    for language in ("de", "en"):
        name = f"{mirror}_i18n_Translation-{language}"
        (directory / name).write_text(many(language), encoding="utf-8")


@pytest.fixture
def no_fetching(monkeypatch):
    monkeypatch.setattr(debian, "_fetch", lambda directory: pytest.fail("fetched"))


def test_files_of_this_machine_are_used_where_they_are(tmp_path, monkeypatch, no_fetching):
    index_files(tmp_path)
    monkeypatch.setattr(debian, "_own_directory", lambda: tmp_path)
    text = debian_text()
    assert text.name.startswith("debian-")
    assert len(text.train) + len(text.validation) == 100


def test_one_language_alone_is_fetched_with_the_other_and_nothing_stays(tmp_path, monkeypatch):
    (tmp_path / "mirror_i18n_Translation-en").write_text(many("en"))
    monkeypatch.setattr(debian, "_own_directory", lambda: tmp_path)
    seen = []

    def fetch(directory):
        seen.append(directory)
        index_files(directory)

    monkeypatch.setattr(debian, "_fetch", fetch)
    assert debian_text().train
    assert not seen[0].exists()


def test_the_package_client_is_asked_for_descriptions_in_a_private_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(debian.shutil, "which", lambda name: name)
    asked = []

    def run(command, **options):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(debian.subprocess, "run", run)
    debian._fetch(tmp_path)
    (command,) = asked
    assert command[:2] == ["apt-get", "update"]
    assert f"Dir::State::lists={tmp_path}" in command
    assert "Acquire::Languages=en,de" in command


def no_client(monkeypatch) -> None:
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)


def failing_client(monkeypatch) -> None:
    monkeypatch.setattr(debian.shutil, "which", lambda name: name)
    failed = subprocess.CompletedProcess([], 100, "", "E: no route\nE: more")
    monkeypatch.setattr(debian.subprocess, "run", lambda *_, **__: failed)


def slow_client(monkeypatch) -> None:
    def run(command, **options):
        if "timeout" in options:
            raise subprocess.TimeoutExpired(command, options["timeout"])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(debian.shutil, "which", lambda name: name)
    monkeypatch.setattr(debian.subprocess, "run", run)


def client_without_german(monkeypatch) -> None:
    monkeypatch.setattr(debian.shutil, "which", lambda name: name)
    done = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(debian.subprocess, "run", lambda *_, **__: done)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (no_client, "need apt-get, which is not here"),
        (failing_client, r"\(E: no route\)"),
        (slow_client, "took more than 300 s"),
        (client_without_german, "sources have none"),
    ],
)
def test_a_machine_that_has_none_says_why_and_what_to_do(monkeypatch, machine, reason):
    machine(monkeypatch)
    with pytest.raises(InvalidFile, match=rf"{reason}.*--text pairs\.tsv"):
        debian_text()
