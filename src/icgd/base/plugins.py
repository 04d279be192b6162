"""Packages and files from outside that register constructions: loading them, naming those that are faulty."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from icgd.base import construction
from icgd.errors import IcgdError, InvalidParameter

PLUGINS = "icgd.constructions"
"""The group of entry points whose modules register constructions when the package is first asked for them."""
_ASKED: list[str] = []
"""Holds an entry once the constructions of installed packages have been looked for."""


class PluginWarning(UserWarning):
    """An installed plug-in is left out, because it cannot be loaded."""


def load_installed() -> None:
    """Import the plug-ins of installed packages, once; a faulty one is named in a warning and left out."""
    if _ASKED:
        return
    _ASKED.append(PLUGINS)
    for target in entry_points(group=PLUGINS):
        try:
            with _all_or_nothing():
                target.load()
        except (Exception, SystemExit) as error:
            source = f" of the package {target.dist.name}" if target.dist is not None else ""
            warnings.warn(
                f"The plug-in {target.name!r} ({target.value}){source} is left out: {reason(error)}. Mend or "
                "uninstall it.",
                PluginWarning,
                stacklevel=3,
            )


def load_plugin(name: str) -> None:
    """Import a module, or a file *.py, that registers constructions."""
    path = Path(name)
    if path.suffix == ".py" and not path.is_file():
        raise InvalidParameter("--plugin", name, "be a file that exists")
    try:
        with _all_or_nothing():
            if path.suffix == ".py":
                import_file(path)
            else:
                sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
                importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise InvalidParameter(
            "--plugin",
            name,
            "be a module that can be imported, or a file *.py",
            remedy=f"Python says: {reason(error)}.",
        ) from error


def import_file(path: Path) -> ModuleType:
    """As `python FILE` does, under the name of the file: modules beside it can be imported."""
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) != str(path.resolve()):
        raise InvalidParameter(
            "name", path.name, "be new: there is a module of that name", remedy="Rename the file"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


@contextmanager
def _all_or_nothing() -> Iterator[None]:
    """Forget what a module registered before it failed."""
    before = dict(construction._OUTSIDE)
    try:
        yield
    except BaseException:
        construction._OUTSIDE.clear()
        construction._OUTSIDE.update(before)
        raise


def reason(error: BaseException) -> str:
    """What went wrong, in one line, and where; the sentence alone if it is one of the package's own.

    >>> reason(ValueError("no\\nluck"))
    'ValueError: no luck'
    """
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, IcgdError):
        return text
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and frame.filename != __file__
    ]
    beside = isinstance(error, (SyntaxError, ModuleNotFoundError)) or not frames
    place = "" if beside else f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"
