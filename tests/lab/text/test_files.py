"""Sentences of a user: a table or two files give the same text, and bad files are named with what is wrong."""

from __future__ import annotations

import pytest

from icgd.errors import InvalidFile, InvalidParameter
from icgd.lab.text.files import text_of_files
from icgd.lab.text.made_up import made_up_text

PAIRS = made_up_text(100).train


def written(path, content) -> object:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def table(pairs, end: str = "\n") -> str:
    return "".join(f"{source}\t{target}{end}" for source, target in pairs)


def column(side: int, end: str = "\n") -> str:
    return "".join(pair[side] + end for pair in PAIRS)


def test_a_table_and_two_files_are_the_same_text(tmp_path):
    one = text_of_files([written(tmp_path / "a.tsv", table(PAIRS))])
    files = [written(tmp_path / f"{side}.txt", column(side)) for side in (0, 1)]
    assert text_of_files(files) == one
    assert sorted((*one.train, *one.validation)) == sorted(PAIRS)
    assert one.name.startswith("given-")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text + "\n\n",
    ],
    ids=["windows", "byte order mark", "no last line feed", "blank lines"],
)
def test_how_lines_end_does_not_matter(tmp_path, change):
    plain = text_of_files([written(tmp_path / "a.tsv", table(PAIRS))])
    assert text_of_files([written(tmp_path / "b.tsv", change(table(PAIRS)))]) == plain


def test_a_separator_inside_a_sentence_ends_no_line(tmp_path):
    odd = [(f"{PAIRS[0][0]}\u2028tulo", PAIRS[0][1]), *PAIRS[1:]]
    text = text_of_files([written(tmp_path / "a.tsv", table(odd))])
    assert len(text.train) + len(text.validation) == len(PAIRS)


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ([""], ["0.txt is empty"]),
        (["one column\n" * 60], ["0.txt, line 1: 1 columns"]),
        ([table(PAIRS) + "a\tb\tc\n"], [f"line {len(PAIRS) + 1}: 3 columns"]),
        ([b"gr\xfc\xdfe\thello\n"], ["0.txt is not UTF-8", "byte 2 is 0xfc"]),
        ([table(PAIRS[:9])], ["0.txt has 9 usable pairs", "at least 50"]),
        (["a\nb\n", "a\n"], ["0.txt has 2 lines", "1.txt 1"]),
        (["a b c\n", ""], ["1.txt is empty"]),
        (["a b c\n", b"\xff"], ["1.txt is not UTF-8"]),
    ],
)
def test_bad_files_are_named_with_what_is_wrong(tmp_path, contents, words):
    paths = [written(tmp_path / f"{i}.txt", content) for i, content in enumerate(contents)]
    with pytest.raises(InvalidFile) as said:
        text_of_files(paths)
    for word in words:
        assert word in str(said.value)


def test_files_that_are_not_there_or_are_directories(tmp_path):
    for path in (tmp_path / "none.tsv", tmp_path):
        with pytest.raises(InvalidFile, match="cannot be read"):
            text_of_files([path])


def test_three_files_are_too_many(tmp_path):
    with pytest.raises(InvalidParameter, match="two aligned files"):
        text_of_files([tmp_path] * 3)
