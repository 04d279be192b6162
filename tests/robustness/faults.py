"""Faults at file operations: the k-th one fails or kills the process, or the disk is full.

Everything happens in a forked child, so that a killed writer cleans nothing up.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from icgd.errors import IcgdError

NOT_REACHED, DONE, REFUSED, UNTYPED, KILLED = 0, 10, 11, 12, 137
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "fcntl.flock"}
Kind = Literal["fail", "die"]
Action = Callable[[], object]


@dataclass
class Fault:
    """The `at`-th file operation below `root`, counted from 1, fails or kills the process."""

    root: Path
    at: int
    kind: Kind
    seen: int = 0

    def install(self) -> None:
        """Watch this process from now on, for good."""
        sys.addaudithook(self._hook)
        flush = os.fsync

        def fsync(descriptor: int) -> None:
            self._count()
            flush(descriptor)

        os.fsync = fsync

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if event not in EVENTS:
            return
        if event == "fcntl.flock" or str(arguments[0]).startswith(str(self.root)):
            self._count()

    def _count(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            if self.kind == "die":
                os._exit(KILLED)
            raise OSError(errno.ENOSPC, "No space left on device")


def with_fault(action: Action, fault: Fault) -> int:
    """The exit code of a child that acts until the fault stops it."""

    def run() -> int:
        fault.install()
        action()
        return DONE if fault.seen >= fault.at else NOT_REACHED

    return _in_child(run)


def on_a_full_disk(action: Action, most_bytes: int) -> int:
    """The exit code of a child in which no file may grow beyond so many bytes."""

    def run() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        action()
        return DONE

    return _in_child(run)


def undisturbed(action: Action) -> int:
    """The exit code of a child that acts."""

    def run() -> int:
        action()
        return DONE

    return _in_child(run)


def _in_child(run: Callable[[], int]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:
        code = UNTYPED
        try:
            code = run()
        except IcgdError:
            code = REFUSED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
