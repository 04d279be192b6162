"""Configurations: what a training run is, as YAML with inheritance, overrides and checked names.

The key names of the widely used in-context-learning repository are understood as they are:
`model.family: gpt2`, `model.n_dims`, `training.task`, `training.task_kwargs`, `training.data`, `wandb`
(ignored) and so on.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from icgd.errors import InvalidFile, InvalidParameter
from icgd.lab.models.config import ModelConfig
from icgd.lab.tasks import TaskConfig
from icgd.lab.training.preset_files import find_config, is_file
from icgd.lab.training.preset_files import presets as presets
from icgd.lab.training.schedule import cosine


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CurriculumAxis(_Model):
    """start, start + inc, ... up to end, one increment every `interval` steps."""

    start: PositiveInt
    end: PositiveInt
    inc: PositiveInt = 1
    interval: PositiveInt = 2000

    def at(self, step: int) -> int:
        """The value at a step counted from 0.

        >>> [CurriculumAxis(start=5, end=20, inc=5, interval=10).at(s) for s in (0, 9, 10, 99)]
        [5, 5, 10, 20]
        """
        return min(self.end, self.start + self.inc * (step // self.interval))


class Curriculum(_Model):
    """How many dimensions and points a prompt has while training goes on."""

    dims: CurriculumAxis | None = None
    points: CurriculumAxis | None = None


class TrainingConfig(_Model):
    """How a model is trained.

    n_points     pairs of a prompt (a curriculum's points overrule it)
    seed         of initial weights and data; the data of step s depend on (seed, s) alone
    grad_clip    largest norm of the gradient; None: not clipped
    save_every_steps  steps between checkpoints
    keep_every_steps  steps between checkpoints that are kept for good; 0: only the last one
    threads      of PyTorch; None: its own choice
    """

    batch_size: PositiveInt = 64
    learning_rate: PositiveFloat = 1e-4
    train_steps: PositiveInt = 10_000
    n_points: PositiveInt = 41
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    weight_decay: float = Field(default=0.0, ge=0)
    grad_clip: PositiveFloat | None = None
    warmup_steps: int = Field(default=0, ge=0)
    schedule: Literal["constant", "cosine"] = "constant"
    curriculum: Curriculum = Curriculum()
    save_every_steps: PositiveInt = 1000
    keep_every_steps: int = Field(default=0, ge=0)
    log_every_steps: PositiveInt = 100
    seed: int = Field(default=0, ge=0, lt=2**31)
    device: str = "cpu"
    threads: PositiveInt | None = None
    compile: bool = False
    tensorboard: bool = False

    def rate_at(self, step: int) -> float:
        """The learning rate at a step counted from 0."""
        rate = self.learning_rate
        if step < self.warmup_steps:
            return rate * (step + 1) / self.warmup_steps
        if self.schedule == "cosine":
            done = (step - self.warmup_steps) / max(1, self.train_steps - self.warmup_steps)
            return rate * cosine(done)
        return rate


class Config(_Model):
    """One training run.

    expected  numbers a run of this configuration is known to give, checked by a slow test
    """

    name: str = "run"
    model: ModelConfig = ModelConfig()
    task: TaskConfig = TaskConfig()
    training: TrainingConfig = TrainingConfig()
    out_dir: str = "runs/train"
    expected: dict[str, float] = Field(default_factory=dict)

    def to_json(self) -> str:
        """Everything, sorted, for comparison and for files."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)


def load_config(source: str | Path, overrides: Sequence[str] = ()) -> Config:
    """A configuration from a YAML file or a preset's name, with `a.b=c` overrides.

    >>> load_config("noisy_linear_small", ["training.seed=3"]).training.seed
    3
    """
    path = find_config(str(source))
    data = translate(_merged(path, ()))
    for text in overrides:
        # Each by itself: a name of the other repository must not lose against what the file says.
        override, depth = _override(text)
        data = _over(data, translate(override), depth)
    return make_config(data, str(source))


def make_config(data: Mapping[str, Any], source: str = "config") -> Config:
    """Check plain data; an unknown name is an error that says the nearest one."""
    settings = translate(dict(data))
    _check_names(settings, Config, "")
    try:
        return Config.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        own = first.get("ctx", {}).get("error")
        if isinstance(own, InvalidParameter):
            raise InvalidFile(f"{source}: {where}: {own}") from error
        raise InvalidFile(
            f"{source}: {where}: {first['msg']} (got {first.get('input')!r}). {error.error_count()} in all."
        ) from error


# -- reading -----------------------------------------------------------------------------------------


def _merged(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    """The file on top of the files it inherits from."""
    path = path.resolve()
    if path in seen:
        chain = " -> ".join(p.name for p in (*seen, path))
        raise InvalidFile(f"Configurations inherit from each other: {chain}.")
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InvalidFile(f"{path} is not valid YAML: {reason}.") from error
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror or error}.") from error
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise InvalidFile(f"{path} must hold names and values. Got {type(data).__name__}.")
    parents = data.pop("inherit", [])
    parents = [parents] if isinstance(parents, str) else parents
    if not isinstance(parents, list):
        raise InvalidFile(f"{path}: inherit must name presets or files. Got {parents!r}.")
    whole: dict[str, Any] = {}
    for parent in parents or []:
        beside = path.parent / str(parent)
        file = beside if is_file(beside) else find_config(str(parent))
        whole = _over(whole, _merged(file, (*seen, path)))
    return _over(whole, data)


def _over(
    below: dict[str, Any], above: Mapping[str, Any], depth: int | None = None
) -> dict[str, Any]:
    """Names and values on top of others; `depth` levels are merged (all unless given), then replaced."""
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        if both and depth != 0:
            merged[key] = _over(dict(merged[key]), value, None if depth is None else depth - 1)
        else:
            merged[key] = value
    return merged


def _override(text: str) -> tuple[dict[str, Any], int]:
    """`a.b=c` as nested names, and how many of them lead to the value."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise InvalidParameter(
            "--set", text, "have the form a.b=c", remedy="For example training.seed=3."
        )
    try:
        nested: Any = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise InvalidParameter("--set", text, "have a value that is valid YAML") from error
    path = name.strip().split(".")
    for key in reversed(path):
        nested = {key: nested}
    return nested, len(path) - 1


# -- names of the in-context-learning repository ---------------------------------------------------------

_IGNORED = {
    "": {"wandb", "test_run"},
    "training": {"num_tasks", "num_training_examples", "resume_id"},
}


def translate(data: dict[str, Any]) -> dict[str, Any]:
    """Their names into ours; what has no meaning here is left out."""
    for name in ("model", "training", "task"):
        if not isinstance(data.get(name) or {}, Mapping):
            raise InvalidFile(f"`{name}` must hold names and values. Got {data[name]!r}.")
    model, training = dict(data.get("model") or {}), dict(data.get("training") or {})
    task = dict(data.get("task") or {})
    ours = {k: v for k, v in data.items() if k not in _IGNORED[""]}
    training = {k: v for k, v in training.items() if k not in _IGNORED["training"]}
    if model.get("family") == "gpt2":
        model["kind"] = "standard"
        model.pop("family")
    if "n_dims" in model:
        task.setdefault("n_dims", model.pop("n_dims"))
    if "task" in training:
        task.setdefault("name", training.pop("task"))
    kwargs = training.pop("task_kwargs", None) or {}
    if not isinstance(kwargs, Mapping):
        raise InvalidFile(
            f"`training.task_kwargs` must hold names and values. Got {str(kwargs)[:60]!r}."
        )
    for key, value in kwargs.items():
        task.setdefault(key, value)
    data_kind = training.pop("data", None)
    if data_kind is not None:
        task.setdefault("data", data_kind)
    parts = {"model": model, "training": training, "task": task}
    return ours | {key: value for key, value in parts.items() if value}


def _check_names(data: Mapping[str, Any], model: type[BaseModel], where: str) -> None:
    fields = model.model_fields
    for key, value in data.items():
        if key not in fields:
            near = difflib.get_close_matches(str(key), list(fields), 1, cutoff=0.5)
            known = f"Did you mean `{where}{near[0]}`?" if near else f"Known: {', '.join(fields)}."
            raise InvalidFile(f"Unknown setting `{where}{key}`. {known}")
        inner = _inner(fields[str(key)].annotation)
        if inner is not None and isinstance(value, Mapping):
            _check_names(value, inner, f"{where}{key}.")


def _inner(annotation: Any) -> type[BaseModel] | None:
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
