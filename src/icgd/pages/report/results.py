"""Results read back from disk, and checked before anything is drawn from them.

A file may be damaged, of another version, or not ours; everything a page or a figure touches is
looked at here once, so that nothing further down has to ask.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icgd.base.atomic import finish_move
from icgd.base.construction import methods
from icgd.errors import InvalidFile, InvalidParameter

FORMAT = "icgd-result/1"
MOST_RUNS = 8
"""More curves than that no one can tell apart."""
MODELS = ("network", "linear", "ridge", "lasso", "logistic", "poisson")
_OPTIMIZERS = ("gd", "newton", "preconditioned")
_BOUNDS = ("max_error", "max_round_error", "round_bound", "global_bound", "paper_bound", "rounds")
_NUMBERS = {"network": _BOUNDS, "linear": ("max_error", "rounds")}
"""Keys that a page cannot do without, each a number or null."""
_WHOLE = (
    "rounds",
    "blocks",
    "live_blocks_max",
    "dense_flops",
    "structured_flops",
    "rounds_over_bound",
    "rank",
)
_PLAIN = (
    *_WHOLE,
    "seconds",
    "distance",
    "loss_before",
    "loss_after",
    "loss_after_sgd",
    "r2_transformer",
    "r2_sgd",
    "objective_before",
    "objective_after",
    "objective_library",
    "max_difference_library",
    "accuracy",
    "d2",
    "range_use",
    "radius",
    "head_error",
)
_CURVES: dict[str, dict[str, tuple[str, ...]]] = {
    "network": {
        "loss": ("round", "transformer", "sgd"),
        "error": ("round", "error", "round_error", "round_bound"),
    },
    "other": {
        "fit": (
            "round",
            "error",
            "step_error",
            "step_bound",
            "global_bound",
            "distance",
            "theorem",
        ),
        "path": ("round",),
    },
    "linear": {"distance": (), "error": ()},
}


@dataclass(frozen=True)
class Run:
    """A result with a name; `path` is its file, or None for one that was handed over."""

    name: str
    result: Mapping[str, Any]
    path: Path | None = None

    @property
    def model(self) -> str:
        """network, linear, ridge, lasso, logistic or poisson."""
        return str(self.result.get("model", "network"))

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings."""
        return self.result.get("config") or {}


def read_runs(sources: Sequence[Path | Mapping[str, Any]]) -> list[Run]:
    """Results of run directories, of files, or handed over as they are; names that tell them apart."""
    if not 1 <= len(sources) <= MOST_RUNS:
        raise InvalidParameter(
            "RUN",
            len(sources),
            f"be 1 to {MOST_RUNS} runs",
            remedy="Compare fewer at a time: more curves cannot be told apart.",
        )
    files = [None if isinstance(source, Mapping) else result_file(source) for source in sources]
    for i, file in enumerate(files):
        if file is not None and any(
            other is not None and _same(file, other) for other in files[:i]
        ):
            raise InvalidParameter("RUN", str(sources[i]), "name every run once")
    names = _names(files)
    runs = []
    for source, file, name in zip(sources, files, names, strict=True):
        if file is None:
            assert isinstance(source, Mapping)
            result, origin = finite(source), name
        else:
            result, origin = _read(file), str(file)
        check_result(result, origin)
        runs.append(Run(name, result, file))
    return runs


def result_file(path: Path) -> Path:
    """The result of a run: the file itself, or result.json in a directory."""
    try:
        if path.is_dir():
            finish_move(path)
            file = path / "result.json"
            if not file.is_file():
                raise InvalidFile(
                    f"{path} has no result.json. Pass a directory that icgd run wrote (its --out)."
                )
            return file
        if not path.exists():
            raise InvalidFile(f"No run {path}. Pass a directory that icgd run wrote (its --out).")
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidFile):
            raise
        raise InvalidFile(f"{path} cannot be read: {error}. Check the path.") from None
    return path


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _names(files: Sequence[Path | None]) -> list[str]:
    """The shortest ends of the paths that differ; never a whole path, which is nobody's business."""
    parts = [_parts(file, i) for i, file in enumerate(files, 1)]
    names = [p[-1] for p in parts]
    depth = 2
    while len(set(names)) < len(names) and depth <= max(map(len, parts)):
        again = [name for name in names if names.count(name) > 1]
        names = [
            "/".join(p[-depth:]) if name in again else name
            for p, name in zip(parts, names, strict=True)
        ]
        depth += 1
    if len(set(names)) < len(names):
        names = [f"{name} ({i})" for i, name in enumerate(names, 1)]
    return [finite(name) for name in names]


def _parts(file: Path | None, i: int) -> tuple[str, ...]:
    if file is None:
        return (f"run {i}",)
    resolved = file.resolve()
    inside = resolved.parent if resolved.name == "result.json" else resolved.with_suffix("")
    return inside.parts[1:] or ("run",)


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidFile(f"{path} is not UTF-8 text. Run icgd run again.") from None
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}. Check the file.") from None
    try:
        return finite(json.loads(text))
    except RecursionError:
        raise InvalidFile(f"{path} is nested too deeply to be a result of icgd run.") from None
    except ValueError as error:
        raise InvalidFile(
            f"{path} is not complete JSON ({error}). Run icgd run again, or mend the file."
        ) from None


def finite(value: Any) -> Any:
    """The same with None for numbers that are not finite, and text that can be written as UTF-8."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 10**300 else None
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode()
        return "".join(c if c.isprintable() or c in " \n\t" else "\ufffd" for c in text)
    if isinstance(value, Mapping):
        return {str(finite(str(key))): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def check_result(result: Any, source: str) -> None:
    """Complain about anything that a page or a figure could stumble over."""
    if not isinstance(result, Mapping):
        raise InvalidFile(f"{source} holds no result of icgd run.")
    if result.get("format") != FORMAT:
        version = result.get("format")
        raise InvalidFile(
            f"{source} has format {_short(version)}, and this version reads {FORMAT!r}. "
            "Run icgd run again, or use the version that wrote it."
        )
    model = result.get("model", "network")
    _one_of(source, "model", model, MODELS)
    if model == "network":
        _one_of(source, "method", result.get("method", methods()[0]), methods())
    if model == "linear":
        _one_of(source, "optimizer", result.get("optimizer"), _OPTIMIZERS)
    for key in _NUMBERS.get(model, (*_BOUNDS, "distance")):
        if key not in result:
            raise InvalidFile(f"{source} has no {key!r}: it is no complete result.")
    for key in (*_BOUNDS, *_PLAIN):
        if key in result and not _is_number(result[key]):
            raise InvalidFile(
                f"{source}: {key!r} must be a number or null. Got {_short(result[key])}."
            )
    for key in _WHOLE:
        if not isinstance(result.get(key, 0), int):
            raise InvalidFile(f"{source}: {key!r} must be an integer. Got {_short(result[key])}.")
    if not isinstance(result.get("passed"), bool):
        raise InvalidFile(
            f"{source}: 'passed' must be true or false. Got {_short(result.get('passed'))}."
        )
    _check_parts(result, source)
    _check_curves(result, model, source)


def _check_parts(result: Mapping[str, Any], source: str) -> None:
    for key in ("config", "versions", "near_kink", "constants", "coefficients", "curves"):
        if not isinstance(result.get(key) or {}, Mapping):
            raise InvalidFile(f"{source}: {key!r} must be an object. Got {_short(result[key])}.")
    if not isinstance(result.get("notes") or [], list):
        raise InvalidFile(f"{source}: 'notes' must be a list. Got {_short(result['notes'])}.")
    for name, answers in (result.get("coefficients") or {}).items():
        if not isinstance(answers, Mapping) or not all(map(_is_number, answers.values())):
            raise InvalidFile(f"{source}: coefficient {name!r} must hold numbers or null.")
    kink = result.get("near_kink") or {}
    first = kink.get("first")
    if not _is_number(kink.get("count")) or (
        first is not None and not (isinstance(first, list) and len(first) == 3)
    ):
        raise InvalidFile(f"{source}: 'near_kink' must hold a count and the first one or null.")


def _check_curves(result: Mapping[str, Any], model: str, source: str) -> None:
    curves = result.get("curves") or {}
    for name, needed in _CURVES[model if model in _CURVES else "other"].items():
        curve = curves.get(name)
        if curve is None:
            continue
        if not isinstance(curve, Mapping):
            raise InvalidFile(f"{source}: curve {name!r} must be an object. Got {_short(curve)}.")
        lists = dict(curve)
        if name == "path":
            inner = lists.pop("coefficients", None)
            if not isinstance(inner, Mapping) or not inner:
                raise InvalidFile(f"{source}: curve 'path' has no coefficients.")
            lists.update({f"coefficients.{key}": values for key, values in inner.items()})
        for key in needed:
            if key not in lists:
                raise InvalidFile(f"{source}: curve {name!r} has no {key!r}.")
        for key, values in lists.items():
            if not isinstance(values, list) or not all(map(_is_number, values)):
                raise InvalidFile(
                    f"{source}: curve {name}.{key} must be a list of numbers or null."
                )
        if model != "linear" and len({len(values) for values in lists.values()}) > 1:
            raise InvalidFile(f"{source}: the lists of curve {name!r} are not equally long.")
        if any(v is None for v in lists.get("round", ())):
            raise InvalidFile(f"{source}: curve {name}.round must hold numbers.")


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _one_of(source: str, key: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise InvalidFile(
            f"{source}: {key!r} is {_short(value)}, and this version knows {', '.join(allowed)}."
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
