"""One writer for a directory, however writers end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

import icgd
from icgd.base.atomic import only_writer
from icgd.base.atomic.lock import LOCK
from icgd.errors import DirectoryInUse, InvalidFile

HOLD = """
import sys, time
from pathlib import Path
from icgd.base.atomic import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds tmp_path / "d"."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "d")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_writer_is_told_who_the_first_is(holder, tmp_path):
    with (
        pytest.raises(DirectoryInUse, match="is being written by another process") as refused,
        only_writer(tmp_path / "d"),
    ):
        pass
    said = str(refused.value)
    assert str(tmp_path / "d") in said
    assert f"process {holder.pid} on " in said
    assert "choose another directory" in said
    assert isinstance(refused.value, InvalidFile)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_lock_ends_with_its_process(holder, tmp_path, how):
    os.kill(holder.pid, how)
    holder.wait()
    assert (tmp_path / "d" / LOCK).exists()
    with only_writer(tmp_path / "d"):
        pass
    assert not (tmp_path / "d" / LOCK).exists()


def test_writers_that_wait_take_turns(tmp_path):
    """Each adds to a number that it reads, thinks about, and writes."""
    count = tmp_path / "count"
    count.write_text("0")

    def add():
        for _ in range(20):
            with only_writer(tmp_path / "d", wait=True):
                before = int(count.read_text())
                os.sched_yield()
                count.write_text(str(before + 1))

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count.read_text() == "120"
    assert not (tmp_path / "d" / LOCK).exists()


@pytest.mark.parametrize("deep", ["d", "a/b/c"])
def test_directories_made_for_nothing_are_removed(tmp_path, deep):
    with only_writer(tmp_path / deep):
        assert (tmp_path / deep).is_dir()
    assert list(tmp_path.iterdir()) == []
    with only_writer(tmp_path / deep):
        (tmp_path / deep / "file").write_text("x")
    assert [p.name for p in (tmp_path / deep).iterdir()] == ["file"]


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(icgd.InvalidFile, match="cannot be written"), only_writer(tmp_path / "file"):
        pass
