"""Programs on disk: safetensors and JSON, written atomically, read with every doubt."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from icgd._version import __version__
from icgd.errors import IcgdError, InvalidFile, InvalidParameter

if TYPE_CHECKING:
    from icgd.program.program import Program

WEIGHTS, CONFIG = "model.safetensors", "config.json"
FORMAT = "icgd-program/1"


def save(
    program: Program, directory: Path, write: Callable[..., str | None], **kwargs: Any
) -> str | None:
    """Write into a directory beside the target, then move the finished files in."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidFile(
            f"{directory} cannot be a directory: there is a file of that name on its path. Pass another one."
        ) from error
    staging = Path(tempfile.mkdtemp(prefix=".saving-", dir=directory))
    try:
        result = write(staging, **kwargs)
        for item in sorted(staging.iterdir()):
            os.replace(item, directory / item.name)
        return result
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def write_weights(program: Program, directory: Path) -> None:
    """The literal non-zero weights by name, and a config that explains every slot."""
    weights = {name: value.contiguous() for name, value in program.state_dict().items()}
    save_file(weights, str(directory / WEIGHTS), metadata={"format": FORMAT})
    config = {
        "format": FORMAT,
        "icgd_version": __version__,
        **program.config,
        "slots": {
            "block": program.layout.to_json(),
            **{name: made.to_json() for name, made in program.step.layouts().items()},
        },
    }
    (directory / CONFIG).write_text(json.dumps(config, indent=2) + "\n")


def find(name: str | Path, download: Callable[..., Any], **kwargs: Any) -> Path:
    """The directory of a program; "user/repo" is looked up on the Hub if there is nothing of that name.

    A Path is never looked up, nor a string that cannot be a repository, unless download options are given.
    """
    if not isinstance(name, (str, Path)) or not str(name):
        raise InvalidParameter(
            "pretrained_model_name_or_path", name, "be a directory or the name of a Hub repository",
            remedy="Pass a directory made by program.save_pretrained, or 'user/repo'.",
        )  # fmt: skip
    path = Path(name)
    if path.is_dir():
        if kwargs:
            raise InvalidParameter("kwargs", sorted(kwargs), "be empty when loading a directory")
        return path
    may_be_remote = isinstance(name, str) and re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name)
    if path.exists() or not (kwargs or may_be_remote):
        return path  # for load() to say what is missing there
    try:
        return Path(download(str(name), allow_patterns=[CONFIG, WEIGHTS], **kwargs))
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidFile(
            f"There is no directory {str(name)!r}, and the Hub gave no repository of that name ({reason}). "
            "Pass a directory made by program.save_pretrained, or check name and connection."
        ) from error


def load(
    directory: Path, builders: Mapping[str, Callable[[Mapping[str, Any]], Program]]
) -> Program:
    """Rebuild the structure from the config, then take every weight from the file."""
    config = _read_config(directory)
    name = str(config.get("construction"))
    if config.get("format") != FORMAT or name not in builders:
        raise InvalidFile(
            f"{directory / CONFIG} was not written by icgd (format {config.get('format')!r}, construction "
            f"{name!r}). Expected format {FORMAT!r}; save with program.save_pretrained(path)."
        )
    try:
        program = builders[name](config)
    except (IcgdError, KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        raise InvalidFile(f"{directory / CONFIG} does not describe a program: {error}") from error
    _load_weights(program, directory / WEIGHTS)
    return program


def _read_config(directory: Path) -> dict[str, Any]:
    path = directory / CONFIG
    if not path.is_file():
        raise InvalidFile(
            f"No {CONFIG} in {directory}. Pass a directory made by program.save_pretrained."
        )
    try:
        config = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidFile(
            f"{path} is not valid JSON ({error}). The file is damaged; save again."
        ) from error
    if not isinstance(config, dict):
        raise InvalidFile(f"{path} must hold a JSON object. Got {type(config).__name__}.")
    return config


def _load_weights(program: Program, path: Path) -> None:
    if not path.is_file():
        raise InvalidFile(
            f"No {path.name} in {path.parent}. The directory is incomplete; save again."
        )
    expected = program.state_dict()
    try:
        with safe_open(str(path), framework="pt") as stored:
            weights = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InvalidFile(
            f"{path} is not a readable safetensors file ({error}). Save again."
        ) from error
    strange = sorted(set(weights) ^ set(expected))
    if strange:
        raise InvalidFile(
            f"{path} does not match its config: weight {strange[0]!r} is on one side only."
        )
    for name, value in weights.items():
        want = expected[name]
        if value.shape != want.shape or value.dtype != want.dtype:
            raise InvalidFile(
                f"Weight {name!r} in {path} has shape {tuple(value.shape)} and {value.dtype}; the config "
                f"says {tuple(want.shape)} and {want.dtype}."
            )
        if not bool(value.isfinite().all()):
            raise InvalidFile(
                f"Weight {name!r} in {path} holds NaN or infinity. The file is damaged."
            )
    program.load_state_dict(weights)
