"""Files that come with the package: presets of configurations and trained models; imports nothing heavy."""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path

from icgd.errors import InvalidFile


def presets() -> list[str]:
    """The names of the presets that come with the package."""
    return _names("presets", ".yaml")


def shipped_models() -> list[str]:
    """The names of trained models that come with the package."""
    return _names("shipped", ".safetensors")


def _names(folder: str, ending: str) -> list[str]:
    entries = resources.files("icgd.lab.training").joinpath(folder).iterdir()
    return sorted(e.name.removesuffix(ending) for e in entries if e.name.endswith(ending))


def is_file(path: Path) -> bool:
    """False also for names that no file can have, such as very long ones."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def find_config(source: str) -> Path:
    """The YAML file of a path or of a preset's name."""
    path = Path(source)
    if path.suffix in (".yaml", ".yml") or is_file(path):
        if not is_file(path):
            raise InvalidFile(f"There is no configuration {path}. Presets: {', '.join(presets())}.")
        return path
    if source not in presets():
        near = difflib.get_close_matches(source, presets(), 1)
        hint = f" Did you mean {near[0]}?" if near else f" Presets: {', '.join(presets())}."
        raise InvalidFile(f"There is no preset {source!r}.{hint}")
    return Path(str(resources.files("icgd.lab.training").joinpath("presets", f"{source}.yaml")))


def find_run(run: Path) -> Path:
    """A run as it is, or the file of a trained model that comes with the package."""
    if not run.exists() and str(run) in shipped_models():
        folder = resources.files("icgd.lab.training").joinpath("shipped")
        return Path(str(folder.joinpath(f"{run}.safetensors")))
    return run


def check_run(run: Path, file: str = "checkpoint.safetensors") -> None:
    """Refuse a run without a checkpoint."""
    checkpoint = find_run(run)
    checkpoint = checkpoint / file if checkpoint.is_dir() else checkpoint
    if not checkpoint.is_file():
        raise InvalidFile(
            f"There is no checkpoint {checkpoint}. Train one: icgd train CONFIG --set out_dir=DIR."
        )
