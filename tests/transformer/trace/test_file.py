"""Files that are not whole traces of this version are refused with a sentence, never half-read."""

from __future__ import annotations

import base64
import json
import runpy
import zlib
from pathlib import Path

import pytest
from traced_programs import case

import icgd
from icgd.transformer.trace import file as trace_file


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t.json"
    case("network").record().save(path)
    return path.read_text()


ROOT = Path(__file__).resolve().parents[3]


def changed(content, change):
    data = json.loads(content)
    change(data)
    return json.dumps(data)


def set_in(*path_and_value):
    *path, last, value = path_and_value

    def change(data):
        for key in path:
            data = data[key]
        data[last] = value

    return change


BAD = {
    "another_version": (set_in("format", "icgd-trace/2"), "has format 'icgd-trace/2'"),
    "no_format": (lambda d: d.pop("format"), "names no format"),
    "unknown_field": (set_in("surprise", 1), "surprise: Extra inputs"),
    "missing_field": (lambda d: d.pop("steps"), "steps: Field required"),
    "behind_the_pool": (
        set_in("blocks", 0, "slots", "weight", ["f8", 10**12, 2, 2]),
        "points behind the end",
    ),
    "negative_offset": (set_in("blocks", 0, "slots", "weight", ["f8", -1, 2]), "is no reference"),
    "unknown_pool": (set_in("blocks", 0, "slots", "weight", ["f9", 0, 2]), "is no reference"),
    "huge_shape": (
        set_in("blocks", 0, "slots", "weight", ["f8", 0, 10**9, 10**9]),
        "points behind the end",
    ),
    "text_as_number": (set_in("blocks", 0, "slots", "weight", "<script>"), "not a valid trace"),
    "list_as_pool": (set_in("blocks", 0, "slots", "weight", [["f8"], 0, 2]), "is no reference"),
    "object_as_pool": (set_in("blocks", 0, "slots", "weight", [{}, 0]), "is no reference"),
    "impossible_shape": (
        set_in("blocks", 0, "slots", "weight", ["f8", 0, 0, 10**30]),
        "impossible shape",
    ),
    "too_many_numbers": (
        set_in("arrays", "f8", "count", 2**60),
        "declares 1152921504606846976 numbers",
    ),
    "1e9_rounds": (set_in("n_rounds", 10**9), "for 1000000000 rounds"),
    "no_such_block": (set_in("steps", 0, "reads", [10**9]), "a block that is not there"),
    "no_such_step": (set_in("steps", 0, "place", 99), "not in the schedule"),
    "round_not_listed": (set_in("steps", 0, "round", 10**6), "which is not listed"),
    "too_few_stages": (lambda d: d["steps"][0]["stages"].pop(), "stages of"),
    "too_many_gates": (set_in("steps", 0, "stages", 0, "open", "1" * 99), "tells 99 gates"),
    "not_base64": (set_in("arrays", "f8", "data", "!!!"), "cannot be read"),
    "not_compressed": (set_in("arrays", "f8", "data", "YWJj"), "does not decompress"),
    "short_pool": (
        lambda d: d["arrays"]["f8"].update(count=d["arrays"]["f8"]["count"] + 1),
        "numbers",
    ),
    "rounds_descend": (lambda d: d["rounds"].reverse(), "not ascending"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_a_trace_is_refused(content, name, tmp_path):
    change, message = BAD[name]
    path = tmp_path / "trace.json"
    path.write_text(changed(content, change))
    with pytest.raises(icgd.InvalidFile) as refused:
        icgd.Trace.load(path)
    told = str(refused.value)
    assert message in told
    assert str(path) in told
    assert "icgd run" in told
    assert "\n" not in told


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_truncated_file_is_refused(content, share, tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(content[: int(share * len(content))])
    with pytest.raises(icgd.InvalidFile, match="not valid JSON"):
        icgd.Trace.load(path)


def test_a_bomb_does_not_unfold(content, tmp_path):
    """A few kilobytes that unfold to a gigabyte are read no further than they claim."""
    bomb = base64.b64encode(zlib.compress(bytes(10**8))).decode()
    path = tmp_path / "trace.json"
    path.write_text(changed(content, lambda d: d["arrays"]["f8"].update(data=bomb)))
    with pytest.raises(icgd.InvalidFile, match="bytes or more"):
        icgd.Trace.load(path)


@pytest.mark.parametrize("encoding", ["raw", "deflate"])
@pytest.mark.parametrize("count", [2**27, 2**60, 10**300])
def test_no_memory_is_taken_for_what_is_declared(content, tmp_path, count, encoding):
    """Zeros whose number is true: refused by the number, before a byte unfolds."""
    from icgd.transformer.trace.arrays import LARGEST_UNFOLDED, decode
    from icgd.transformer.trace.format import Pool

    assert count * 8 > LARGEST_UNFOLDED
    with pytest.raises(ValueError, match="are allowed"):
        decode("f8", Pool(count=count, encoding=encoding, data="not even base64"))


def test_damaged_numbers_are_noticed(content, tmp_path):
    """The compressed pools carry a checksum, which is compared."""
    data = json.loads(content)
    raw = bytearray(base64.b64decode(data["arrays"]["f8"]["data"]))
    for change in ("checksum", "missing", "more"):
        changed = bytes(raw)
        if change == "checksum":
            changed = changed[:-1] + bytes([changed[-1] ^ 1])
        changed = changed[:-4] if change == "missing" else changed
        changed = changed + b"x" if change == "more" else changed
        data["arrays"]["f8"]["data"] = base64.b64encode(changed).decode()
        (tmp_path / "t.json").write_text(json.dumps(data))
        with pytest.raises(icgd.InvalidFile, match="pool f8 cannot be read"):
            icgd.Trace.load(tmp_path / "t.json")


def test_integers_of_thousands_of_digits_are_refused(content, tmp_path):
    text = content.replace('"n_rounds":', '"n_rounds":' + "9" * 5000)
    assert text != content
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(icgd.InvalidFile, match="not valid JSON"):
        icgd.Trace.load(tmp_path / "t.json")


def test_binary_missing_and_too_large_files_are_refused(tmp_path, monkeypatch):
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(icgd.InvalidFile, match="not a text file"):
        icgd.Trace.load(tmp_path / "b.json")
    with pytest.raises(icgd.InvalidFile, match="There is no trace"):
        icgd.Trace.load(tmp_path / "none.json")
    monkeypatch.setattr(trace_file, "LARGEST", 2)
    with pytest.raises(icgd.InvalidFile, match="above the limit"):
        icgd.Trace.load(tmp_path / "b.json")


def test_an_unwritable_place_is_refused_and_nothing_is_left(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(icgd.InvalidFile, match="cannot be written"):
        case("lasso").record().save(tmp_path / "file" / "trace.json")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_the_schema_in_the_docs_is_that_of_the_models():
    """`python -m tools.trace_schema` writes it."""
    tool = runpy.run_path(str(ROOT / "tools" / "trace_schema.py"))
    assert tool["PATH"].read_text(encoding="utf-8") == tool["schema"]()


def test_the_docs_name_every_field():
    text = (ROOT / "docs" / "trace_format.md").read_text()
    for field in icgd.Trace.model_fields:
        assert f"`{field}`" in text or f'"{field}"' in text
