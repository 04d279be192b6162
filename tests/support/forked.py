"""Work in forks of this process, with limits of their own: what it takes is measured."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MB = 10**6


@dataclass(frozen=True)
class Outcome:
    """error: name of the exception's type, "" if there was none; `killed` if a limit ended the process."""

    error: str
    message: str
    peak: float
    cpu: float


def _resident() -> tuple[int, int]:
    """Bytes in memory, and those of them that are pages of files: a fork meets code anew that it shares."""
    _, all_pages, of_files, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return all_pages * resource.getpagesize(), of_files * resource.getpagesize()


def forked(work: Callable[[], Any], *, memory: float | None = None, cpu: int = 60) -> Outcome:
    """Do it with so many bytes and seconds of CPU at most."""
    return forked_each({"": work}, memory=memory, cpu=cpu)[""]


def forked_each(
    works: Mapping[str, Callable[[], Any]], *, memory: float | None = None, cpu: int = 60
) -> dict[str, Outcome]:
    """Each in a fork of its own, with so many bytes and seconds of CPU at most.

    They are forks of one fork, in which what is free was given back: that takes half a second.
    """

    def each(write: int) -> None:
        import torch

        torch.set_num_threads(1)
        _give_back_what_is_free()
        for name, work in works.items():
            text = _told(lambda write, work=work: _child(work, write, memory, cpu))
            os.write(write, (json.dumps({"name": name, "told": text}) + "\n").encode())

    lines = [json.loads(line) for line in _told(each).splitlines()]
    killed = Outcome("killed", "", 0.0, float(cpu))
    done = {
        line["name"]: Outcome(**json.loads(line["told"])) if line["told"] else killed
        for line in lines
    }
    assert set(done) == set(works)
    return done


def _told(work: Callable[[int], None]) -> str:
    """What a fork of this process writes into the pipe it is given."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            work(write)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return text


def _give_back_what_is_free() -> None:
    """Memory that the parent freed and kept would be used again, and not be seen as taken."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _child(work: Callable[[], Any], write: int, memory: float | None, cpu: int) -> None:
    (before, files_before), started = _resident(), os.times()
    if memory is not None:
        virtual = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (virtual + int(memory),) * 2)
    used = int(started.user + started.system)
    resource.setrlimit(resource.RLIMIT_CPU, (used + cpu, used + cpu + 1))
    # The child's own peak begins at what it shares with its parent.
    Path("/proc/self/clear_refs").write_text("5")
    error = message = ""
    try:
        work()
    except BaseException as caught:
        error, message = type(caught).__name__, str(caught)
    status = Path("/proc/self/status").read_text()
    peak = 1024 * int(status.split("VmHWM:")[1].split()[0]) - before
    # Running code for the first time brings its pages in: that is no memory that the work asked for.
    peak -= max(0, _resident()[1] - files_before)
    ended = os.times()
    seconds = ended.user + ended.system - started.user - started.system
    told = {"error": error, "message": message, "peak": peak, "cpu": seconds}
    os.write(write, json.dumps(told).encode())
