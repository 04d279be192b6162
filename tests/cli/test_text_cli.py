"""`icgd reproduce --text`: a user's sentences are translated; bad ones are one line and nothing is run."""

from __future__ import annotations

import json

import pytest

from icgd.lab.text import debian
from icgd.lab.text.made_up import made_up_text


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with good and bad files, and a machine without Debian's descriptions."""
    monkeypatch.chdir(tmp_path)
    text = made_up_text(150, seed=5)
    pairs = (*text.train, *text.validation)
    (tmp_path / "good.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    for side, name in enumerate(("de.txt", "en.txt")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    (tmp_path / "short.txt").write_text("one line\n")
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "latin.tsv").write_bytes(b"gr\xfc\xdfe\thello\n")
    monkeypatch.setattr(debian, "_own_directory", lambda: None)
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["algo-nmt", "--text", "none.tsv"], ["none.tsv", "cannot be read"]),
        (["algo-nmt", "--text", "empty.tsv"], ["empty.tsv is empty"]),
        (["algo-nmt", "--text", "latin.tsv"], ["latin.tsv is not UTF-8"]),
        (["algo-nmt", "--text", "de.txt"], ["de.txt, line 1: 1 columns", "--text twice"]),
        (["algo-nmt", "--text", "de.txt", "--text", "short.txt"], ["de.txt has", "short.txt 1"]),
        (["algo-nmt", *["--text", "good.tsv"] * 3], ["`--text`", "two aligned files"]),
        (["algo-fig2", "--text", "good.tsv"], ["`--text`", "algo-fig2 reads no text"]),
        (["algo-nmt", "--scale", "laptop"], ["apt-get", "--text pairs.tsv"]),
        (["all", "--scale", "overnight"], ["apt-get", "--text pairs.tsv"]),
    ],
    ids=lambda v: " ".join(v)[:40],
)
def test_bad_text_is_one_line_and_nothing_is_run(here, icgd_command, arguments, words):
    before = sorted(path.name for path in here.iterdir())
    said = icgd_command("reproduce", *arguments, "--out", "out")
    assert said.exit_code == 2
    assert said.stdout == ""
    (line,) = said.stderr.splitlines()
    assert line.startswith("icgd: error: ")
    for word in words:
        assert word in line
    assert sorted(path.name for path in here.iterdir()) == before


def test_sentences_of_a_user_are_translated_and_named_in_the_record(here, icgd_command):
    options = ["--scale", "smoke", "--workers", "1", "--out", "out"]
    said = icgd_command("reproduce", "algo-nmt", *options, "--text", "de.txt", "--text", "en.txt")
    assert said.exit_code == 0, said.output
    record = json.loads((here / "out" / "algo-nmt-smoke" / "record.json").read_text())
    assert record["command"].endswith("--scale smoke --text de.txt --text en.txt")
    (name,) = {row["text"] for row in record["rows"]}
    assert name.startswith("given-")
    assert (here / "out" / "models" / f"text-{name}.parquet").is_file()
    examples = record["rows"][0]["examples"]
    sources = (here / "de.txt").read_text().splitlines()
    assert all(example["source"] in sources for example in examples)
    # The same sentences as a table: nothing is left to do.
    again = icgd_command("reproduce", "algo-nmt", *options, "--text", "good.tsv")
    assert "0 of 4 cells to do" in again.stdout


def test_an_estimate_needs_no_text(here, icgd_command, monkeypatch):
    from icgd.lab.sweeps import time_estimate as estimate

    cost = estimate._Cost(0.0, 0.0, 1e9, 0.1)
    monkeypatch.setattr(estimate, "_cost_of_work", lambda *_: cost)
    said = icgd_command("reproduce", "algo-nmt", "--scale", "laptop", "--estimate", "--out", "out")
    assert said.exit_code == 0, said.output
    assert "12 of 12 cells to do. 12 trainings" in said.stdout
    assert not (here / "out").exists()
