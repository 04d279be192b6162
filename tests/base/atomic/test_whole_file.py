"""Files appear whole, as readable as others, and nothing of killed writers stays."""

from __future__ import annotations

import os
import threading

import pytest

from icgd.base.atomic import staged, write_bytes, write_text, write_whole
from icgd.base.atomic.file_set import READY, STAGING
from icgd.errors import InvalidFile


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_the_umask_decides_who_may_read(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_text(tmp_path / "a", "text")
        with staged(tmp_path / "set") as place:
            (place / "b").write_text("text")
    finally:
        os.umask(before)
    for path in (tmp_path / "a", tmp_path / "set" / "b"):
        assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_file_and_directory_reach_the_disk_before_and_after_the_move(tmp_path, monkeypatch):
    seen = []
    flush, replace = os.fsync, os.replace

    def fsync(descriptor):
        seen.append("directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        flush(descriptor)

    def moved(*arguments):
        seen.append("move")
        replace(*arguments)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", moved)
    write_bytes(tmp_path / "a", b"content")
    assert seen == ["file", "move", "directory"]


def test_files_of_killed_writers_are_removed_and_others_are_not(tmp_path):
    left = [".a.0123abcd.tmp", ".a.ffffffff.tmp"]
    others = [".b.0123abcd.tmp", ".a.tmp", ".a.notes.tmp", "a.0123abcd.tmp"]
    for name in left + others:
        (tmp_path / name).write_text("half")
    write_text(tmp_path / "a", "whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["a", *others])


def test_a_file_that_is_being_written_is_left_alone(tmp_path):
    inside, go_on = threading.Event(), threading.Event()

    def slowly(temporary):
        temporary.write_text("slow")
        inside.set()
        assert go_on.wait(30)

    thread = threading.Thread(target=write_whole, args=(tmp_path / "a", slowly))
    thread.start()
    assert inside.wait(30)
    write_text(tmp_path / "a", "fast")
    assert (tmp_path / "a").read_text() == "fast"
    go_on.set()
    thread.join()
    assert (tmp_path / "a").read_text() == "slow"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_error_is_typed_and_leaves_the_old_file(tmp_path):
    write_text(tmp_path / "a", "old")

    def fails(temporary):
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(InvalidFile, match="a cannot be written: No space left on device"):
        write_whole(tmp_path / "a", fails)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "old"}


def test_what_a_killed_writer_staged_is_dropped_and_what_it_completed_is_kept(tmp_path):
    for hidden in (STAGING, READY):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "a").write_text(hidden)
    with staged(tmp_path) as place:
        assert (tmp_path / "a").read_text() == READY
        (place / "b").write_text("b")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_other_files_of_the_directory_stay(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    (tmp_path / "gone.txt").write_text("old")
    with staged(tmp_path, remove=["gone.txt", "never.txt"]) as place:
        (place / "a").write_text("a")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "notes"]
    assert (tmp_path / "notes" / "mine.txt").read_text() == "mine"
