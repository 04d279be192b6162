"""How a command ends when something is wrong: one line, the right exit code, no traceback."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO, cast

import typer
from typer.core import TyperGroup

from icgd.base.plugins import PluginWarning
from icgd.errors import IcgdError, InvalidFile, InvalidParameter, OutOfRange

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
UNMISTAKABLE = ("n_grid", "rho", "lr", "lam")
"""Parameters whose names are no English words: they mean the option wherever they stand."""
DATA_NAMES = {"X": "A feature", "Y": "A target", "y": "A target"}
COARSE = 0.5
"""A nearest-token head that is this far off spoils numbers of size 1, as standardised data are."""

# typer brings its own click and exports one of its usage errors only: the base of that is all.
UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])


def leave(message: str, code: int) -> NoReturn:
    """Say one line on stderr and exit."""
    sys.stdout.flush()
    typer.echo(f"icgd: {' '.join(message.split())}", err=True)
    raise typer.Exit(code)


def one_line_warnings() -> None:
    """Say in one line which plug-in is left out; other warnings are shown as Python shows them."""
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, PluginWarning):
            typer.echo(f"icgd: warning: {' '.join(str(message).split())}", err=True)
        else:
            usual(message, category, filename, lineno, file, line)

    warnings.showwarning = show


NOTHING_WRITTEN = "nothing was written."
GOES_ON = "the same command goes on from what is there."


@contextmanager
def one_line_errors(interrupted: str = NOTHING_WRITTEN) -> Iterator[None]:
    """Turn every error a user can cause into one line; anything else is a bug and keeps its trace.

    interrupted  what is said of an interrupted command
    """
    try:
        yield
    except IcgdError as error:
        leave(f"error: {_for_the_command_line(error)}", BAD_INPUT)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        leave(f"error: {what}. Check the path and its permissions.", BAD_INPUT)
    except (MemoryError, RuntimeError) as error:
        # PyTorch reports a failed allocation as a plain RuntimeError, whose text is all that tells it.
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        leave("error: out of memory. Use smaller widths, fewer rows or fewer epochs.", BAD_INPUT)
    except KeyboardInterrupt:
        leave(f"interrupted; {interrupted}", INTERRUPTED)


class OneLineGroup(TyperGroup):
    """Commands whose usage errors are one line, too; the help for no arguments stays as it is."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Summaries are wrapped, where click would cut them."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(limit=10_000))
            for name, command in commands
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Parse the options before the command."""
        with _one_line_usage():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Parse those of the command, and run it."""
        with _one_line_usage():
            return super().invoke(ctx)


@contextmanager
def _one_line_usage() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        command = error.ctx.command_path if error.ctx else "icgd"
        complaint = error.format_message().rstrip(".")
        leave(f"error: {complaint}{_given(error)}. Try: {command} --help", BAD_INPUT)


def _given(error: Exception) -> str:
    """The value a usage error is about, where the parser kept it to itself."""
    details = getattr(error.__cause__, "errors", None)
    return f". Got {details()[0]['input']!r}" if callable(details) else ""


def _for_the_command_line(error: IcgdError) -> str:
    """The message in words of the running command; this layer's own errors have them already."""
    options, values = _command_line()
    if isinstance(error, InvalidParameter) and error.name not in {*options, *DATA_NAMES}:
        return str(error)
    if isinstance(error, InvalidFile):
        return str(error)  # it may quote column names and paths, which only look like parameters
    return in_options(str(with_remedy_for_hard_heads(error, values)), options)


def _command_line() -> tuple[dict[str, str], Mapping[str, Any]]:
    """Options of the running command by parameter name, and the values they have."""
    try:
        from typer._click.globals import get_current_context
    except ImportError:  # typer before it had its own click
        from click import get_current_context  # type: ignore[no-redef]
    context = get_current_context(silent=True)
    if context is None:
        return {}, {}
    options = {
        str(p.name): str(p.opts[0]) for p in context.command.params if p.opts[0].startswith("--")
    }
    return options, context.params


def in_options(text: str, options: Mapping[str, str]) -> str:
    """A message about parameters in words of the command line, as far as it has them.

    >>> in_options("`n_grid` must be > 2. Use executor='dense'.", {"n_grid": "--n-grid"})
    "`--n-grid` must be > 2. Use executor='dense'."
    """
    # In parentheses there may be objects as Python writes them.
    parts = re.split(r"(\([^()]*\))", text)
    parts[::2] = [_in_options(part, options) for part in parts[::2]]
    return "".join(parts)


def _in_options(text: str, options: Mapping[str, str]) -> str:
    for name, option in options.items():
        text = re.sub(rf"`{name}`", f"`{option}`", text)
        text = re.sub(rf"\b{name}=(?:'(\w+)'|(\w[\w.+-]*\w|\w))", rf"{option} \1\2", text)
        anywhere = "" if name in UNMISTAKABLE else "(?= (?:<|>|<=|>=) )"
        text = re.sub(rf"(?<![\w-]){name}\b{anywhere}", option, text)
    if "radius" in options:
        text = text.replace("Recompile", "Run again").replace("recompile", "run again")
    for name, meaning in DATA_NAMES.items():
        text = text.replace(f"`{name}`", meaning)
    return text


def with_remedy_for_hard_heads(error: IcgdError, values: Mapping[str, Any]) -> IcgdError:
    """A coarse nearest-token head leaves its range by its own error: more range makes it worse."""
    if values.get("temperature") != "hard" or not isinstance(error, OutOfRange):
        return error
    spacing = error.radius / (values.get("n_grid") or 32)
    if spacing <= COARSE:
        return error
    return error.advising(
        f"With temperature='hard' a number is read to about radius / tokens = {spacing:g}. Use a smaller "
        "radius and more tokens, such as radius=16 n_grid=256."
    )
