"""Records: what is written is read back, few digits are kept, and what is no record is refused in one line."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import icgd
from icgd.lab.experiments.record import (
    DIGITS,
    HUGE,
    Record,
    read_record,
    recorded,
    recorded_path,
    rounded,
)

ROWS = [
    {"seed": 0, "error": {"1": [0.25, 1e-9]}, "counted": [True, False], "what": "a"},
    {"seed": 1, "error": {"1": [0.5, 2.0]}, "counted": [True, True], "what": "b"},
]


def a_record(rows=ROWS, **changes) -> Record:
    told = {
        "name": "algo-fig3",
        "scale": "smoke",
        "command": "icgd reproduce algo-fig3 --scale smoke",
        "settings": {"seeds": 1},
        "cells": "0123456789",
        "seeds": 1,
        "workers": 1,
        "seconds": 2.0,
        "torch": "2",
        "icgd": "0",
        "rows": rows,
    }
    return Record(**{**told, **changes})


def test_there_and_back(tmp_path):
    a_record().write(tmp_path / "r.json")
    assert read_record(tmp_path / "r.json") == a_record()
    # A row is a line, so that two records can be compared by eye.
    lines = (tmp_path / "r.json").read_text().splitlines()
    assert [json.loads(line.rstrip(",")) for line in lines if line.startswith('{"')] == ROWS


def test_no_rows_are_a_record_too(tmp_path):
    a_record([]).write(tmp_path / "r.json")
    assert read_record(tmp_path / "r.json").rows == []


@pytest.mark.parametrize(
    ("strange", "kept"), [(math.nan, None), (math.inf, HUGE), (-math.inf, -HUGE)]
)
def test_what_is_no_number_is_kept_as_json_can(tmp_path, strange, kept):
    """JSON has neither NaN nor infinity; both are there again when the file is read."""
    a_record([{"a": strange, "b": [1.0, strange], "c": {"d": strange}}]).write(tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    told = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    for rows, value in ((told["rows"], kept), (read_record(tmp_path / "r.json").rows, strange)):
        (row,) = rows
        for found in (row["a"], row["b"][1], row["c"]["d"]):
            assert repr(found) == repr(value)


@given(st.floats(-1e300, 1e300))
def test_five_digits_are_kept(value):
    kept = rounded(value)
    assert abs(kept - value) <= 0.5000001 * 10.0 ** (1 - DIGITS) * abs(value) + 5e-324
    assert rounded(kept) == kept
    mantissa = f"{kept:e}".split("e")[0] if kept else "0"
    assert len(mantissa.lstrip("-").replace(".", "").rstrip("0")) <= DIGITS


def test_only_floats_are_rounded():
    whole = {"n": 123456789, "yes": True, "no": None, "text": "0.123456789", "rows": [10**12]}
    assert rounded(whole) == whole
    assert isinstance(rounded(True), bool)
    assert rounded({"a": {"b": [0.123456789, 123456.789]}}) == {"a": {"b": [0.12346, 123460.0]}}


def without(name: str) -> str:
    told = a_record().model_dump(mode="json")
    del told[name]
    return json.dumps(told)


def with_(**changes) -> str:
    return json.dumps(a_record().model_dump(mode="json") | changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        '{"name": ',
        "[]",
        "null",
        with_(colour="red"),
        with_(format="icgd-reproduction/2"),
        with_(scale="huge"),
        with_(rows=3),
        with_(rows=[1]),
        with_(seconds="long"),
        without("rows"),
        without("seeds"),
        with_()[:-20],
    ],
    ids=[
        "empty",
        "no JSON",
        "cut short",
        "a list",
        "null",
        "unknown key",
        "wrong format",
        "unknown scale",
        "rows are no list",
        "rows are no tables",
        "seconds are no number",
        "no rows",
        "no seeds",
        "cut at the end",
    ],
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(icgd.InvalidFile, match="is no record of an experiment") as refused:
        read_record(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_text_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "r.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(icgd.InvalidFile, match="is no record"):
        read_record(tmp_path / "r.json")


@pytest.mark.parametrize("where", ["nowhere.json", "."])
def test_what_cannot_be_read_is_named(tmp_path, where):
    with pytest.raises(icgd.InvalidFile, match="cannot be read") as refused:
        read_record(tmp_path / where)
    assert "\n" not in str(refused.value)


def test_a_name_without_a_record_has_none():
    assert recorded("no-such-experiment") is None
    assert recorded_path("deep-g1").name == "deep-g1.json"
