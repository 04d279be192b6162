"""What a training takes: the model, its optimizer, and what one step keeps for the gradient."""

from __future__ import annotations

from icgd.base.preflight import Part, require_room
from icgd.lab.models.config import ModelConfig
from icgd.lab.models.sizes import NUMBER, model_parts, n_blocks
from icgd.lab.training.config import Config

KEPT_WIDTH, KEPT_HIDDEN = 12.0, 4.0
"""Numbers a block keeps per token and unit of its width, and of its hidden width."""
KEPT_SCORES = {"softmax": 0.3, "relu": 3.0, "linear": 3.0}
"""Numbers kept per head and pair of tokens; PyTorch's softmax attention keeps hardly any."""


def step_parts(config: Config) -> list[Part]:
    """Prompts of a step, and what every application of a block keeps until the gradient is known."""
    model, t = config.model, config.training
    curve = t.curriculum.points
    points = t.n_points if curve is None else max(curve.start, curve.end)
    tokens = (2 if model.layout == "interleaved" else 1) * points
    applied = n_blocks(model) + model.n_layer * (_loops_kept(model) - 1)
    rows = t.batch_size * tokens
    per_token = KEPT_WIDTH * model.n_embd + KEPT_HIDDEN * model.hidden
    scores = KEPT_SCORES[model.attention] * t.batch_size * model.n_head * tokens**2
    blamed = {
        "training.batch_size": t.batch_size / 64,
        "model.d_mlp": model.hidden / 1024,
        "training.n_points" if curve is None else "training.curriculum.points.end": points / 41,
        "model.loops": _loops_kept(model) / 12,
        "model.n_head": model.n_head / 8,
        "model.n_layer": model.n_layer / 12,
        "model.n_embd": model.n_embd / 128,
    }
    name = max(blamed, key=lambda key: blamed[key])
    return [
        Part(name, _value(config, name), NUMBER * applied * (rows * per_token + scores)),
        Part(
            "task.n_dims",
            config.task.n_dims,
            NUMBER * 3 * t.batch_size * points * config.task.n_dims,
        ),
        *_prompt_parts(config, t.batch_size),
    ]


def _loops_kept(model: ModelConfig) -> int:
    return min(model.loops, model.window + 1) if model.truncate else model.loops


def _value(config: Config, name: str) -> object:
    value: object = config
    for field in name.split("."):
        value = getattr(value, field)
    return value


def _prompt_parts(config: Config, prompts: int) -> list[Part]:
    """The function of every prompt, which a task draws anew."""
    task, each = config.task, NUMBER * 2.0 * prompts
    hidden, d = task.hidden_layer_size or 1, task.n_dims
    inner = max(0, (task.n_layers or 1) - 1) * hidden
    parts = [Part("task.hidden_layer_size", hidden, each * hidden * (d + inner))]
    if task.depth is not None:
        parts.append(Part("task.depth", task.depth, each * 4 * 2 ** min(task.depth, 1000)))
    if task.n_features is not None:
        n = task.n_features
        parts.append(Part("task.n_features", n, NUMBER * 3.0 * n * (d + n)))
    return parts


def check_training(config: Config) -> None:
    """Refuse a training whose first step would not fit."""
    copies = 2.5 if config.training.optimizer == "sgd" else 4.5
    require_room("A training step", [*model_parts(config.model, copies), *step_parts(config)])
