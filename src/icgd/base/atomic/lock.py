"""One writer for a directory: a second one is refused, or waits, and is told who holds it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from icgd.base.atomic.system_lock import try_lock
from icgd.errors import DirectoryInUse, InvalidFile

LOCK = ".icgd.lock"


@contextmanager
def only_writer(directory: Path, *, wait: bool = False, name: str = LOCK) -> Iterator[None]:
    """Hold `directory`, which is made if missing, against every other process that writes there.

    A process that is killed holds nothing any more. Directories that were made for this and are empty at
    the end are removed.

    wait  until the other writer has finished, instead of raising DirectoryInUse
    name  of the lock file: holders of different names do not exclude each other

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place, only_writer(Path(place)):
    ...     with only_writer(Path(place)):
    ...         pass
    Traceback (most recent call last):
    ...
    icgd.errors.DirectoryInUse: ... is being written by another process (...). Wait until it has finished, ...
    """
    directory = directory.absolute()
    missing = [d for d in (directory, *directory.parents) if not d.exists()]
    try:
        claim = _claimed(directory, name, wait)
    except OSError as error:
        _remove_empty(missing)
        raise InvalidFile(
            f"{directory} cannot be written: {error.strerror or error}. Choose another directory."
        ) from error
    try:
        yield
    finally:
        # Removed before it is released: whoever waited for it sees that and makes a new one.
        with contextlib.suppress(OSError):
            (directory / name).unlink()
        os.close(claim)
        _remove_empty(missing)


def _claimed(directory: Path, name: str, wait: bool) -> int:
    """An open and locked file, which is the one that the name stands for."""
    path = directory / name
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            claim = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the last holder removed the directory it had made
            continue
        try:
            if not try_lock(claim, wait=wait):
                raise DirectoryInUse(directory, _holder(claim))
            if _is_there(claim, path):
                os.ftruncate(claim, 0)
                os.write(claim, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                return claim
        except BaseException:
            os.close(claim)
            raise
        os.close(claim)


def _is_there(claim: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(claim), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(claim: int) -> str:
    holder = os.pread(claim, 200, 0).decode("utf-8", "replace").strip()
    return holder if holder.isprintable() and holder else "unknown"


def _remove_empty(directories: list[Path]) -> None:
    for directory in directories:  # innermost first; one that holds something stays
        try:
            directory.rmdir()
        except OSError:
            break
