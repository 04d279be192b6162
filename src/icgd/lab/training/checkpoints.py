"""Checkpoints: one safetensors file with model, optimizer and random state, replaced as a whole.

A run killed at any moment leaves the last whole checkpoint; started again it repeats the steps after it with
the same data and the same arithmetic, so it ends in the same weights to the last bit. A checksum covers every
bit of the file that means something.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from icgd import __version__
from icgd.base.atomic.tensors import DIGEST, read_tensors, write_tensors
from icgd.errors import InvalidFile
from icgd.lab.training.config import Config, make_config

FORMAT = "icgd-checkpoint/2"
WITHOUT_CHECKSUM = "icgd-checkpoint/1"
"""The format before: it is read with a warning, as nobody can tell whether it is whole."""
NAME = "checkpoint.safetensors"
MAY_CHANGE = (
    "train_steps",
    "save_every_steps",
    "keep_every_steps",
    "log_every_steps",
    "device",
    "threads",
    "tensorboard",
    "compile",
)
"""Settings that do not change what a step computes, up to rounding: a run may go on with others."""
RUNNING = (0.0, 0, math.nan)
VERSIONS = ("icgd", "torch")


@dataclass(frozen=True)
class Checkpoint:
    """What was stored.

    step      steps done
    running   sum and number of the losses since the last one that was logged, and that one
    versions  of icgd and torch that wrote it; empty in files of the first format
    """

    step: int
    running: tuple[float, int, float]
    config: Config
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    random: Tensor
    versions: dict[str, str]


def save_checkpoint(
    directory: Path,
    step: int,
    config: Config,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    running: tuple[float, int, float] = RUNNING,
    keep: bool = False,
) -> Path:
    """Write beside the last one, then replace it; `keep` leaves a second copy under the step's name."""
    tensors = {f"model.{k}": v for k, v in model.state_dict().items()}
    tensors |= {f"optimizer.{k}": v for k, v in _flat(optimizer).items()}
    tensors["random"] = torch.get_rng_state()
    metadata = _metadata(step, config, running)
    if keep:
        # First: a run that is killed in between does this step again, and writes both again.
        _write(directory / f"step_{step}.safetensors", tensors, metadata)
    _write(directory / NAME, tensors, metadata)
    return directory / NAME


def export_weights(run: Path, target: Path) -> None:
    """A trained model as a small file: weights and configuration, without what going on would need.

    It can be evaluated, and `--from` can begin with it; a run cannot go on from it. Where it was trained is
    left out.
    """
    checkpoint = load_checkpoint(run)
    config = checkpoint.config.model_copy(update={"out_dir": Config().out_dir})
    tensors = {f"model.{k}": v for k, v in checkpoint.model.items()}
    tensors["random"] = checkpoint.random
    _write(target, tensors, _metadata(checkpoint.step, config, checkpoint.running))


def _metadata(step: int, config: Config, running: tuple[float, int, float]) -> dict[str, str]:
    return {
        "format": FORMAT,
        "step": str(step),
        "config": config.to_json(),
        "running": json.dumps(running),
        "icgd": __version__,
        "torch": torch.__version__,
    }


def _write(target: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    try:
        write_tensors(target, tensors, metadata)
    except InvalidFile as error:
        raise InvalidFile(
            f"{error} The checkpoint before it is whole; free space and start the same command again."
        ) from error


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint with every doubt; `path` is the file or the directory of a run."""
    path = path / NAME if path.is_dir() else path
    if not path.is_file():
        raise InvalidFile(
            f"There is no checkpoint {path}. Train one: icgd train CONFIG --set out_dir=DIR."
        )
    tensors, metadata = read_tensors(path, "checkpoint")
    _check_format(path, metadata)
    try:
        step, config = _whole(metadata["step"]), _config(metadata["config"], path)
        running = _running(metadata["running"])
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise InvalidFile(f"{path} does not say what was trained ({error}).") from error
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}}
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        if kind in parts and rest:
            parts[kind][rest] = value
        elif name != "random":
            raise InvalidFile(f"{path} holds a tensor {name!r} that no checkpoint has.")
    random = tensors.get("random")
    if random is None or random.dtype != torch.uint8 or random.dim() != 1:
        raise InvalidFile(f"{path} holds no state of the random numbers. The file is damaged.")
    versions = {name: text for name, text in metadata.items() if name in VERSIONS}
    return Checkpoint(step, running, config, parts["model"], parts["optimizer"], random, versions)


def _check_format(path: Path, metadata: Mapping[str, str]) -> None:
    version = metadata.get("format")
    if version == FORMAT and DIGEST not in metadata:
        raise InvalidFile(f"{path} has lost its checksum. The file is damaged or was edited.")
    if version == WITHOUT_CHECKSUM and DIGEST not in metadata:
        warnings.warn(
            f"{path} has format {version!r}, which has no checksum: damage to it cannot be seen. Checkpoints "
            "written from now on have one.",
            stacklevel=3,
        )
    elif version != FORMAT:
        raise InvalidFile(f"{path} has format {version!r}; this version reads {FORMAT!r}.")


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(f"{text[:40]!r} is no number of steps")
    return int(text)


def _config(text: str, path: Path) -> Config:
    settings = json.loads(text)
    if not isinstance(settings, dict):
        raise ValueError("its configuration is no JSON object")
    return make_config(settings, str(path))


def _running(text: str) -> tuple[float, int, float]:
    state = json.loads(text)
    numbers = (
        isinstance(state, list) and len(state) == 3 and all(type(n) in (int, float) for n in state)
    )
    if not numbers or type(state[1]) is not int or state[1] < 0:
        raise ValueError(f"its running mean is {text[:60]!r}")
    return float(state[0]), state[1], float(state[2])


def restore(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put everything back as it was."""
    if not checkpoint.optimizer and optimizer.param_groups[0].get("betas"):
        raise InvalidFile(
            "The checkpoint holds weights only: no run can go on from it. Begin a new one with its weights: "
            "icgd train CONFIG --from FILE --set out_dir=DIR."
        )
    state = _optimizer_state(checkpoint, optimizer)
    load_weights(checkpoint, model)
    try:
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        torch.set_rng_state(checkpoint.random)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        raise InvalidFile(f"The checkpoint does not fit its optimizer: {error}.") from error


def _optimizer_state(
    checkpoint: Checkpoint, optimizer: torch.optim.Optimizer
) -> dict[int, dict[str, Tensor]]:
    """What the optimizer keeps of each parameter, by number and name."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in checkpoint.optimizer.items():
        index, _, key = name.partition(".")
        if not (index.isascii() and index.isdigit() and len(index) < 9 and key):
            raise InvalidFile(
                f"The checkpoint's optimizer has a state {name!r} that belongs nowhere."
            )
        if int(index) >= len(parameters) or value.shape not in ((), parameters[int(index)].shape):
            raise InvalidFile(
                f"The checkpoint does not fit its model: state {name!r} of the optimizer has shape "
                f"{tuple(value.shape)}."
            )
        state.setdefault(int(index), {})[key] = value
    kinds = {frozenset(kept) for kept in state.values()}
    if len(kinds) > 1:
        raise InvalidFile("The checkpoint's optimizer has lost a part of its state.")
    return state


def load_weights(checkpoint: Checkpoint, model: nn.Module) -> None:
    """The weights alone."""
    expected = model.state_dict()
    strange = sorted(set(expected) ^ set(checkpoint.model))
    if strange:
        raise InvalidFile(
            f"The checkpoint does not fit its model: weight {strange[0]!r} is on one side only."
        )
    for name, value in checkpoint.model.items():
        if (value.shape, value.dtype) != (expected[name].shape, expected[name].dtype):
            raise InvalidFile(
                f"Weight {name!r} of the checkpoint has shape {tuple(value.shape)} and {value.dtype}, the "
                f"model {tuple(expected[name].shape)} and {expected[name].dtype}."
            )
        if not bool(value.isfinite().all()):
            raise InvalidFile(f"Weight {name!r} of the checkpoint holds NaN or infinity.")
    model.load_state_dict(checkpoint.model)


def check_same_run(checkpoint: Checkpoint, config: Config, directory: Path) -> None:
    """A run goes on only as what it was; otherwise say what differs."""
    differences = list(_differences(checkpoint.config.model_dump(), config.model_dump(), ""))
    allowed = {"name", "out_dir", "expected", *(f"training.{k}" for k in MAY_CHANGE)}
    if config.training.schedule == "cosine":
        allowed.remove("training.train_steps")  # the rate of every step depends on it
    serious = [d for d in differences if d[0] not in allowed]
    if serious:
        name, before, now = serious[0]
        more = f" and {len(serious) - 1} more" if len(serious) > 1 else ""
        raise InvalidFile(
            f"{directory} holds a run with {name} = {before!r}; asked for {now!r}{more}. Choose another "
            "out_dir, or --restart to begin anew there."
        )


def _differences(a: Any, b: Any, where: str) -> Any:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            yield from _differences(a.get(key), b.get(key), f"{where}.{key}".lstrip("."))
    elif a != b:
        yield where, a, b


def _flat(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimizer.state_dict()["state"]
    return {
        f"{index}.{key}": torch.as_tensor(value).detach().cpu().clone()
        for index, values in state.items()
        for key, value in values.items()
        if value is not None
    }
