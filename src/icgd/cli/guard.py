"""How a command ends when something is wrong: one line, the right exit code, no traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from icgd.errors import IcgdError

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


def leave(message: str, code: int) -> NoReturn:
    """Say one line on stderr and exit."""
    sys.stdout.flush()
    typer.echo(f"icgd: {' '.join(message.split())}", err=True)
    raise typer.Exit(code)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn every error a user can cause into one line; anything else is a bug and keeps its trace."""
    try:
        yield
    except IcgdError as error:
        leave(f"error: {error}", BAD_INPUT)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        leave(f"error: {what}. Check the path and its permissions.", BAD_INPUT)
    except (MemoryError, RuntimeError) as error:
        # PyTorch reports a failed allocation as a plain RuntimeError.
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        leave("error: out of memory. Use smaller widths, fewer rows or fewer epochs.", BAD_INPUT)
    except KeyboardInterrupt:
        leave("interrupted; nothing was written.", INTERRUPTED)
