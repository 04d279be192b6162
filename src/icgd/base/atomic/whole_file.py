"""One file: written beside its place, flushed to the disk, and moved in when complete."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from icgd.base.atomic.system_lock import try_lock
from icgd.errors import InvalidFile


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Have `write` fill a temporary file, then put it in the place of `path`.

    Afterwards the file is on the disk, not in a cache: a power failure leaves the old file or the new one.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_orphans(path)
        with _temporary_for(path) as temporary:
            write(temporary)
            sync_file(temporary)
            os.replace(temporary, path)
            sync_directory(path.parent)
    except OSError as error:
        raise InvalidFile(f"{path} cannot be written: {error.strerror or error}.") from error


def write_text(path: Path, text: str) -> None:
    """A text file, UTF-8, line feeds as they are."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """A binary file."""
    write_whole(path, lambda temporary: temporary.write_bytes(content))


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk, where the system can do that."""
    if os.name == "nt":  # directories cannot be opened there
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system without it
            raise
    finally:
        os.close(descriptor)


@contextmanager
def _temporary_for(path: Path) -> Iterator[Path]:
    """An empty file beside `path` that is locked while it is being written, and gone afterwards."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"
    # 0o666 is what `open` asks for: the umask decides, as for any other file.
    claim = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    try:
        if not try_lock(claim):
            raise BlockingIOError(errno.EWOULDBLOCK, "another process removes it")
        yield temporary
    finally:
        os.close(claim)
        with contextlib.suppress(OSError):
            temporary.unlink()


def _remove_orphans(path: Path) -> None:
    """Remove temporary files of writers that were killed: nobody holds their locks."""
    prefix, suffix = f".{path.name}.", ".tmp"
    for name in os.listdir(path.parent):
        token = name.removeprefix(prefix).removesuffix(suffix)
        if name != f"{prefix}{token}{suffix}" or len(token) != 8:
            continue
        orphan = path.parent / name
        with contextlib.suppress(OSError):
            claim = os.open(orphan, os.O_RDWR)
            try:
                if try_lock(claim, without_locks=False):
                    orphan.unlink()
            finally:
                os.close(claim)
