"""Checkpoints: one safetensors file with model, optimizer and random state, replaced as a whole.

A run killed at any moment leaves the last whole checkpoint; started again it repeats the steps after it with
the same data and the same arithmetic, so it ends in the same weights to the last bit.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from icgd.errors import InvalidFile
from icgd.training.config import Config, make_config

FORMAT = "icgd-checkpoint/1"
NAME = "checkpoint.safetensors"
MAY_CHANGE = (
    "train_steps", "save_every_steps", "keep_every_steps", "log_every_steps", "device", "threads",
    "tensorboard", "compile",
)  # fmt: skip
"""Settings that do not change what a step computes, up to rounding: a run may go on with others."""


@dataclass(frozen=True)
class Checkpoint:
    """What was stored.

    step     steps done
    running  sum and number of the losses since the last one that was logged, and that one
    """

    step: int
    running: tuple[float, int, float]
    config: Config
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    random: Tensor


def save_checkpoint(
    directory: Path, step: int, config: Config, model: nn.Module, optimizer: torch.optim.Optimizer,
    *, running: tuple[float, int, float] = (0.0, 0, math.nan), keep: bool = False,
) -> Path:  # fmt: skip
    """Write beside the last one, then replace it; `keep` leaves a second copy under the step's name."""
    tensors = {f"model.{k}": v.detach().cpu().contiguous() for k, v in model.state_dict().items()}
    tensors |= {f"optimizer.{k}": v for k, v in _flat(optimizer).items()}
    tensors["random"] = torch.get_rng_state()
    metadata = {
        "format": FORMAT, "step": str(step), "config": config.to_json(),
        "running": json.dumps(running),
    }  # fmt: skip
    target = directory / NAME
    _replace(target, tensors, metadata)
    if keep:
        _replace(directory / f"step_{step}.safetensors", tensors, metadata)
    return target


def export_weights(run: Path, target: Path) -> None:
    """A trained model as a small file: weights and configuration, without what going on would need.

    It can be evaluated, and `--from` can begin with it; a run cannot go on from it. Where it was trained is
    left out.
    """
    checkpoint = load_checkpoint(run)
    config = checkpoint.config.model_copy(update={"out_dir": Config().out_dir})
    tensors = {f"model.{k}": v for k, v in checkpoint.model.items()}
    tensors["random"] = checkpoint.random
    metadata = {
        "format": FORMAT, "step": str(checkpoint.step), "config": config.to_json(),
        "running": json.dumps(checkpoint.running),
    }  # fmt: skip
    _replace(target, tensors, metadata)


def _replace(target: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, str(temporary), metadata=metadata)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidFile(
            f"{target} cannot be written: {reason}. The checkpoint before it is whole; free space and start "
            "the same command again."
        ) from error
    finally:
        if temporary.exists():
            temporary.unlink()


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint with every doubt; `path` is the file or the directory of a run."""
    path = path / NAME if path.is_dir() else path
    if not path.is_file():
        raise InvalidFile(
            f"There is no checkpoint {path}. Train one: icgd train CONFIG --set out_dir=DIR."
        )
    try:
        with safe_open(str(path), framework="pt") as stored:
            metadata = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InvalidFile(f"{path} is not a readable checkpoint ({error}).") from error
    if metadata.get("format") != FORMAT:
        raise InvalidFile(
            f"{path} has format {metadata.get('format')!r}; this version reads {FORMAT!r}."
        )
    try:
        step, config = int(metadata["step"]), make_config(json.loads(metadata["config"]), str(path))
        total, count, last = json.loads(metadata["running"])
    except (KeyError, ValueError) as error:
        raise InvalidFile(f"{path} does not say what was trained ({error}).") from error
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}}
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        if kind in parts:
            parts[kind][rest] = value
    running = (float(total), int(count), float(last))
    return Checkpoint(step, running, config, parts["model"], parts["optimizer"], tensors["random"])


def restore(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put everything back as it was."""
    if not checkpoint.optimizer and optimizer.param_groups[0].get("betas"):
        raise InvalidFile(
            "The checkpoint holds weights only: no run can go on from it. Begin a new one with its weights: "
            "icgd train CONFIG --from FILE --set out_dir=DIR."
        )
    load_weights(checkpoint, model)
    made = optimizer.state_dict()
    state: dict[int, dict[str, Any]] = {}
    for name, value in checkpoint.optimizer.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**made, "state": state})
    torch.set_rng_state(checkpoint.random)


def load_weights(checkpoint: Checkpoint, model: nn.Module) -> None:
    """The weights alone."""
    expected = model.state_dict()
    strange = sorted(set(expected) ^ set(checkpoint.model))
    if strange:
        raise InvalidFile(
            f"The checkpoint does not fit its model: weight {strange[0]!r} is on one side only."
        )
    for name, value in checkpoint.model.items():
        if value.shape != expected[name].shape:
            raise InvalidFile(
                f"Weight {name!r} of the checkpoint has shape {tuple(value.shape)}, the model "
                f"{tuple(expected[name].shape)}."
            )
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
