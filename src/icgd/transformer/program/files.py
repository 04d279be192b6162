"""Programs on disk: safetensors and JSON, written atomically, read with every doubt."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from icgd import __version__
from icgd.base.atomic import finish_move, staged
from icgd.base.atomic.tensors import DIGEST, ODD_CONTENT, read_tensors, tensor_bytes
from icgd.base.construction import construction, constructions
from icgd.errors import IcgdError, InvalidFile, InvalidParameter, TooLarge
from icgd.transformer.program.blueprint import Blueprint, check_size

if TYPE_CHECKING:
    from icgd.transformer.program.program import Program

WEIGHTS, CONFIG = "model.safetensors", "config.json"
FORMAT = "icgd-program/2"
WITHOUT_DIGEST = "icgd-program/1"
"""The format before: it is read with a warning, as its config is not bound to its weights."""
EDITED = "The directory is damaged or was edited. Save again, or pass allow_altered=True."


class AnyConfig(BaseModel):
    """What the config of every program holds; constructions refine it."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    format: str
    icgd_version: str
    construction: str
    problem: dict[str, Any]
    optimizer: dict[str, Any]
    options: dict[str, Any]
    dtype: str
    slots: dict[str, list[dict[str, Any]]]


def save(
    program: Program, directory: Path, write: Callable[..., str | None], **kwargs: Any
) -> str | None:
    """Write into a place inside the target, then move the finished files in together."""
    there = next(p for p in (directory.absolute(), *directory.absolute().parents) if p.exists())
    if not there.is_dir():
        raise InvalidFile(
            f"{directory} cannot be a directory: there is a file of that name on its path. Pass another one."
        )
    with staged(directory) as place:
        return write(place, **kwargs)


def write_weights(program: Program, directory: Path) -> None:
    """The literal non-zero weights by name, and a config that explains every slot."""
    config = {
        "format": FORMAT,
        "icgd_version": __version__,
        **program.config,
        "slots": slots_of(program),
    }
    text = json.dumps(config, indent=2) + "\n"
    metadata = {"format": FORMAT, "config": config_digest(json.loads(text))}
    (directory / WEIGHTS).write_bytes(tensor_bytes(program.state_dict(), metadata))
    (directory / CONFIG).write_text(text, encoding="utf-8")


def slots_of(program: Program) -> dict[str, Any]:
    """Every coordinate of a block and of the tokens inside a layer, explained."""
    layouts = {"block": program.layout, **program.step.layouts()}
    return {name: layout.to_json() for name, layout in layouts.items()}


def config_digest(config: Mapping[str, Any]) -> str:
    """Changes with any value of a config, not with its spelling."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def find(name: str | Path, download: Callable[..., Any], **kwargs: Any) -> Path:
    """The directory of a program; "user/repo" is looked up on the Hub if there is nothing of that name.

    A Path is never looked up, nor a string that cannot be a repository, unless download options are given.
    """
    if not isinstance(name, (str, Path)) or not str(name):
        raise InvalidParameter(
            "pretrained_model_name_or_path",
            name,
            "be a directory or the name of a Hub repository",
            remedy="Pass a directory made by program.save_pretrained, or 'user/repo'.",
        )
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


def load(directory: Path, *, allow_altered: bool = False) -> Program:
    """Rebuild the structure from the config, then take every weight from the file.

    allow_altered  do not compare what was changed after saving: checksums, and slots
    """
    finish_move(directory)
    config = _read_config(directory)
    name = str(config.get("construction"))
    if config.get("format") not in (FORMAT, WITHOUT_DIGEST):
        raise InvalidFile(
            f"{directory / CONFIG} was not written by icgd (format {config.get('format')!r}, construction "
            f"{name!r}). Expected format {FORMAT!r}; save with program.save_pretrained(path)."
        )
    known = constructions()
    if name not in known:
        raise InvalidFile(
            f"{directory / CONFIG} describes the construction {name!r}, which is not registered here. Import "
            "the module that calls icgd.register for it before loading (icgd --plugin MODULE on the command "
            f"line), or install the version of icgd that has it. Registered: {', '.join(sorted(known))}."
        )
    _check_schema(directory / CONFIG, config, known[name].load("schema") or AnyConfig)
    weights = _read_weights(directory, config, allow_altered)
    try:
        program = rebuilt(config)
    except TooLarge:
        raise  # a true description of a program that does not fit here
    except (IcgdError, *ODD_CONTENT, ArithmeticError, LookupError) as error:
        raise InvalidFile(f"{directory / CONFIG} does not describe a program: {error}") from error
    _put_weights(program, weights, directory / WEIGHTS)
    if config["slots"] != slots_of(program) and not allow_altered:
        raise InvalidFile(
            f"The slots in {directory / CONFIG} are not those of the program it describes. {EDITED}"
        )
    return program


def rebuilt(config: Mapping[str, Any]) -> Program:
    """The program a config describes, its weights as compiled."""
    known = construction(str(config["construction"]))
    check_size(known, config)
    return Blueprint.read(known, config).build()


def _read_config(directory: Path) -> dict[str, Any]:
    path = directory / CONFIG
    if not path.is_file():
        raise InvalidFile(
            f"No {CONFIG} in {directory}. Pass a directory made by program.save_pretrained."
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidFile(
            f"{path} is not valid JSON ({error}). The file is damaged; save again."
        ) from error
    if not isinstance(config, dict):
        raise InvalidFile(f"{path} must hold a JSON object. Got {type(config).__name__}.")
    return config


def _check_schema(path: Path, config: Mapping[str, Any], schema: type[BaseModel]) -> None:
    try:
        schema.model_validate(config)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"][:6])
        raise InvalidFile(
            f"{path} does not describe a program: `{where[:120]}`: {first['msg']} (got "
            f"{str(first['input'])[:60]}; {error.error_count()} in all)."
        ) from error


def _read_weights(
    directory: Path, config: Mapping[str, Any], allow_altered: bool
) -> dict[str, Tensor]:
    path = directory / WEIGHTS
    if not path.is_file():
        raise InvalidFile(
            f"No {path.name} in {directory}. The directory is incomplete; save again."
        )
    weights, metadata = read_tensors(path, "safetensors file", compare=not allow_altered)
    if allow_altered:
        return weights
    if config["format"] == WITHOUT_DIGEST and DIGEST not in metadata:
        warnings.warn(
            f"{directory} was saved by a version of icgd that wrote no checksum. Save it again to have one.",
            stacklevel=4,
        )
    elif DIGEST not in metadata:
        raise InvalidFile(f"{path} has lost its checksum. {EDITED}")
    elif metadata.get("config") != config_digest(config):
        raise InvalidFile(
            f"{directory / CONFIG} is not the one that {WEIGHTS} was saved with. {EDITED}"
        )
    return weights


def _put_weights(program: Program, weights: dict[str, Tensor], path: Path) -> None:
    expected = program.state_dict()
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
