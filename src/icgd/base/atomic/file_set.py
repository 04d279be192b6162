"""Several files of one directory that belong together: all of them are replaced, or none.

New files are written to a hidden directory inside. Renaming it to READY is the moment at which they count:
before, nothing has happened; after, whoever comes next moves them into their places, however often the one
before was killed in doing so. Nothing outside the directory is touched, so that it may be a mounted volume or
the current directory, and other files in it stay.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from icgd.base.atomic.lock import only_writer
from icgd.base.atomic.whole_file import sync_directory, sync_file
from icgd.errors import InvalidFile

STAGING, READY = ".icgd-staging", ".icgd-ready"
REMOVALS = ".removals"
"""In the hidden directory: names of files that go when the new ones come."""
LOCK = ".icgd-files.lock"


@contextmanager
def staged(directory: Path, *, remove: Sequence[str] = ()) -> Iterator[Path]:
    """A place to write to; its files appear in `directory` together, or vanish after an error.

    remove  files of `directory` that must not stay beside the new ones
    """
    with staged_together([directory], remove=remove) as (place,):
        yield place


@contextmanager
def staged_together(
    directories: Sequence[Path], *, remove: Sequence[str] = ()
) -> Iterator[list[Path]]:
    """The same for several directories: nothing moves anywhere before all files are on the disk."""
    places = [d.absolute() for d in directories]
    with ExitStack() as locks:
        for directory in dict.fromkeys(places):
            locks.enter_context(only_writer(directory, wait=True, name=LOCK))
            _move_in(directory)
        sets = {directory: directory / STAGING for directory in places}
        try:
            for staging in sets.values():
                staging.mkdir()
            yield [sets[directory] for directory in places]
            for directory, staging in sets.items():
                _seal(staging, directory, remove)
            for directory, staging in sets.items():
                os.rename(staging, directory / READY)
                sync_directory(directory)
        except BaseException as error:
            for staging in sets.values():
                shutil.rmtree(staging, ignore_errors=True)
            if isinstance(error, OSError):
                names = " and ".join(map(str, sets))
                raise InvalidFile(
                    f"Nothing was written to {names}: {error.strerror or error}. Free the space or choose "
                    "another place."
                ) from error
            raise
        for directory in sets:
            _move_in(directory)


def finish_move(directory: Path) -> None:
    """For readers: put in place what a writer had completed when it was killed."""
    if (directory / READY).is_dir():
        with only_writer(directory, wait=True, name=LOCK):
            _move_in(directory)


def _seal(staging: Path, directory: Path, remove: Sequence[str]) -> None:
    """Everything on the disk, and nothing that could stop it from moving in."""
    for item in staging.iterdir():
        if item.is_dir() or (directory / item.name).is_dir():
            raise IsADirectoryError(errno.EISDIR, f"{item.name} is a directory there")
        sync_file(item)
    removals = staging / REMOVALS
    removals.write_text(json.dumps(list(remove)), encoding="utf-8")
    sync_file(removals)
    sync_directory(staging)


def _move_in(directory: Path) -> None:
    """Finish what is ready, drop what is not; may be repeated after any interruption."""
    shutil.rmtree(directory / STAGING, ignore_errors=True)
    ready = directory / READY
    if not ready.is_dir():
        return
    try:
        for item in sorted(ready.iterdir()):
            if item.name != REMOVALS:
                os.replace(item, directory / item.name)
        removals = ready / REMOVALS
        if removals.is_file():
            for name in json.loads(removals.read_text(encoding="utf-8")):
                with contextlib.suppress(FileNotFoundError):
                    (directory / Path(name).name).unlink()
            sync_directory(directory)
            removals.unlink()
        ready.rmdir()
        sync_directory(directory)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidFile(
            f"The files in {ready} are complete and could not be moved to {directory}: {reason}. The next "
            "command that writes or reads there moves them."
        ) from error
