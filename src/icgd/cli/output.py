"""Results on disk: whether a place can be written to, and JSON that everyone can read."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from icgd.base.atomic import only_writer, write_text
from icgd.cli.run.settings import Settings
from icgd.errors import InvalidParameter


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
            option,
            str(path),
            "lie in a directory that exists",
            remedy=f"There is no {path.parent}: make it (mkdir -p) or choose another place.",
        )
    check_file(option, path)


Job = Callable[[Settings], dict[str, Any]]


def holding_out(job: Job) -> Job:
    """A job that checks its settings first, and keeps other processes out of --out while it works."""

    @functools.wraps(job)
    def held(settings: Settings) -> dict[str, Any]:
        settings.check()
        check_directory("--out", settings.out)
        with only_writer(settings.out):
            return job(settings)

    return held


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
            option,
            str(directory),
            "be writable",
            remedy=f"No permission to write in {existing}; choose another place.",
        )


def _may_write(directory: Path) -> bool:
    return os.access(directory, os.W_OK | os.X_OK)


def write_file(path: Path, text: str) -> None:
    """Write one text file, or nothing."""
    write_text(path, text)


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
