"""Tasks by name: the configuration of a task, and the task it describes."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt

from icgd.errors import InvalidParameter
from icgd.lab.tasks.base import Task
from icgd.lab.tasks.chain import MLPChain
from icgd.lab.tasks.distributions import AnyVectors, Gaussian, Sparse
from icgd.lab.tasks.linear import (
    LinearClassification,
    LinearRegression,
    LogisticRegression,
    NoisyLinearRegression,
    PoissonRegression,
    QuadraticRegression,
    SparseLinearRegression,
)
from icgd.lab.tasks.networks import DecisionTree, NetworkRegression, ReluTwoLayerRegression
from icgd.lab.tasks.representation import Autoregression, RepresentationRegression

TASKS: dict[str, type[Task]] = {
    kind.name: kind
    for kind in (
        LinearRegression,
        SparseLinearRegression,
        NoisyLinearRegression,
        QuadraticRegression,
        LinearClassification,
        LogisticRegression,
        PoissonRegression,
        ReluTwoLayerRegression,
        DecisionTree,
        NetworkRegression,
        RepresentationRegression,
        Autoregression,
        MLPChain,
    )
}
"""Every task under its name."""

_FIELDS = {"n_dims": "d_x", "n_outputs": "d_y", "data": "inputs"}
"""Names of settings that differ from the tasks' own; the former are those users know."""


class TaskConfig(BaseModel):
    """Which task, and what differs from its defaults (None: the task's own).

    name                 one of `TASKS`
    n_dims, n_outputs    dimensions of inputs and targets
    data, weights, noise distributions of inputs, of what differs between prompts, and of what is added
    noise_std            short for normal noise; 0: none
    sparsity             short for sparse weights with so many that are not zero
    other settings       options of some tasks, described there; for any other task they are an error
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "linear_regression"
    n_dims: PositiveInt = 20
    n_outputs: PositiveInt | None = None
    data: AnyVectors | None = None
    weights: AnyVectors | None = None
    noise: AnyVectors | None = None
    noise_std: NonNegativeFloat | None = None
    sparsity: PositiveInt | None = None
    scale: PositiveFloat | None = None
    hidden_layer_size: PositiveInt | None = None
    n_layers: PositiveInt | None = None
    depth: PositiveInt | None = None
    scaling: Literal["function", "fixed", "none"] | None = None
    bias: bool | None = None
    observe: Literal["sample", "mean"] | None = None
    slope: NonNegativeFloat | None = None
    n_features: PositiveInt | None = None
    representation_init: Literal["gaussian", "orthogonal"] | None = None
    representation_seed: int | None = None
    order: PositiveInt | None = None
    gain: PositiveFloat | None = None
    limit: PositiveFloat | None = None


def build_task(config: TaskConfig, *, dtype: torch.dtype = torch.float32) -> Task:
    """The task that a configuration describes.

    >>> build_task(TaskConfig(name="sparse_linear_regression", n_dims=5, sparsity=2)).weights
    Sparse(n_nonzero=2, std=1.0, kind='sparse')
    """
    if config.name not in TASKS:
        near = difflib.get_close_matches(config.name, list(TASKS), 1)
        remedy = f"Did you mean {near[0]!r}?" if near else ""
        raise InvalidParameter(
            "task.name", config.name, f"be one of {', '.join(TASKS)}", remedy=remedy
        )
    kind = TASKS[config.name]
    options: dict[str, Any] = {
        _FIELDS.get(key, key): getattr(config, key)
        for key in type(config).model_fields
        if key not in ("name", "noise_std", "sparsity") and getattr(config, key) is not None
    }
    _short("noise_std", config.noise_std, "noise", options)
    _short("sparsity", config.sparsity, "weights", options)
    taken = {field.name for field in dataclasses.fields(kind) if field.init}
    for key in options:
        if key not in taken:
            known = ", ".join(sorted(taken - {"d_x", "d_y", "inputs", "weights", "noise", "dtype"}))
            raise InvalidParameter(
                f"task.{key}",
                options[key],
                f"be left out: {config.name} has no such option",
                remedy=f"It has {known}." if known else "",
            )
    return kind(dtype=dtype, **options)


def _short(name: str, value: float | None, field: str, options: dict[str, Any]) -> None:
    """Write a short form of a distribution as the distribution."""
    if value is None:
        return
    if field in options:
        raise InvalidParameter(f"task.{name}", value, f"be left out where task.{field} is given")
    if name == "sparsity":
        options[field] = Sparse(int(value))
    else:
        options[field] = Gaussian(std=value) if value else None
