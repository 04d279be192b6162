"""Results on disk, all or nothing: written beside the target, moved in when complete."""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from icgd.atomic import write_text, write_whole
from icgd.errors import InvalidFile, InvalidParameter


def check_directory(option: str, directory: Path) -> None:
    """Complain before any work is done if results could not be written there."""
    if directory.exists() and not directory.is_dir():
        raise InvalidParameter(
            option, str(directory), "be a directory", remedy="A file of that name exists."
        )
    _check_writable(option, directory)


def check_file(option: str, path: Path) -> None:
    """The same for a single file."""
    if path.is_dir():
        raise InvalidParameter(option, str(path), "be a file", remedy="It is a directory.")
    _check_writable(option, path.parent)


def check_file_in_place(option: str, path: Path) -> None:
    """The same for a file in a directory that must be there: a typing error makes no directories."""
    if not path.parent.exists():
        raise InvalidParameter(
            option, str(path), "lie in a directory that exists",
            remedy=f"There is no {path.parent}: make it (mkdir -p) or choose another place.",
        )  # fmt: skip
    check_file(option, path)


def _check_writable(option: str, directory: Path) -> None:
    existing = directory.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise InvalidParameter(
            option, str(directory), "lie in a directory", remedy=f"{existing} is a file."
        )
    if not _may_write(existing):
        raise InvalidParameter(
            option, str(directory), "be writable",
            remedy=f"No permission to write in {existing}; choose another place.",
        )  # fmt: skip


def _may_write(directory: Path) -> bool:
    return os.access(directory, os.W_OK | os.X_OK)


@contextmanager
def staged(directory: Path) -> Iterator[Path]:
    """A directory beside `directory`; its files move in at the end, or vanish after an error.

    Other files already in `directory` are kept.
    """
    directory = directory.absolute()
    created = [p for p in (directory.parent, *directory.parent.parents) if not p.exists()]
    staging = directory.parent / f".{directory.name}.{secrets.token_hex(4)}.tmp"
    try:
        staging.mkdir(parents=True)
        yield staging
        _move_in(staging, directory)
    except BaseException as error:
        shutil.rmtree(staging, ignore_errors=True)
        for parent in created:  # innermost first; one that holds something else stays
            try:
                parent.rmdir()
            except OSError:
                break
        if isinstance(error, OSError):
            raise InvalidFile(
                f"Results cannot be written to {directory}: {error.strerror or error}. "
                "Free the space or choose another --out."
            ) from error
        raise


def _move_in(staging: Path, directory: Path) -> None:
    if not directory.exists():
        staging.rename(directory)
        return
    items = sorted(staging.iterdir())
    for item in items:  # nothing moves unless everything can
        if (directory / item.name).is_dir():
            raise IsADirectoryError(errno.EISDIR, f"{item.name} is a directory there")
    for item in items:
        os.replace(item, directory / item.name)
    staging.rmdir()


def write_file(path: Path, text: str) -> None:
    """Write one text file, or nothing."""
    write_text(path, text)


def write_bytes(path: Path, content: bytes) -> None:
    """Write one binary file, or nothing."""
    write_whole(path, lambda temporary: temporary.write_bytes(content))


def as_json(value: Any) -> str:
    """Strict JSON: a number that is not finite becomes null.

    >>> as_json({"bound": float("inf"), "rounds": 3}).replace("\\n", "")
    '{  "bound": null,  "rounds": 3}'
    """
    return json.dumps(finite(value), indent=2, allow_nan=False)


def finite(value: Any) -> Any:
    """The same value with every number that JSON does not know replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
