"""Files are written beside their place and moved in when complete: whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from icgd.errors import InvalidFile


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Have `write` fill a temporary file, then put it in the place of `path`."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise InvalidFile(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        # The parent may be a file, in which case there is nothing to remove.
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """A text file, UTF-8, line feeds as they are."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
