"""Data and weights of a network as a user gives them, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.problems import NetworkSpec, Weights
from icgd.problems.arrays import plain_tensor


def as_tensor(name: str, value: Any, like: Tensor) -> Tensor:
    """A finite floating tensor on the program's device, or a clear complaint."""
    tensor = plain_tensor(name, value).to(device=like.device, dtype=like.dtype)
    if not bool(torch.isfinite(tensor).all()):
        where = tuple((~torch.isfinite(tensor)).nonzero()[0].tolist())
        raise InvalidParameter(
            name, float(tensor[where]), "be finite", remedy=f"The first bad entry is at {where}."
        )
    return tensor


def refuse_query(query: Any) -> None:
    """For prompts without room for examples that ask."""
    if query is not None:
        raise InvalidParameter(
            "query",
            type(query).__name__,
            "be left out: this program's prompt holds training data only",
            remedy="Predict with run.predict(X_new).",
        )


def check_epochs(epochs: object) -> int:
    """A whole number of passes over the data; one unless told."""
    return whole_number("epochs", 1 if epochs is None else epochs)


def check_rows(x: Tensor, y: Tensor) -> None:
    """As many targets as examples."""
    if y.shape[:-1] != x.shape[:-1]:
        raise InvalidParameter(
            "Y", tuple(y.shape), f"have one row per row of X, shape {(*x.shape[:-1], y.shape[-1])}"
        )


def checked_examples(
    name: str, value: Any, width: int, like: Tensor, radius: float, option: str = "radius"
) -> Tensor:
    """Examples (n, width) or (b, n, width) within the certified range, or a clear complaint."""
    tensor = as_tensor(name, value, like)
    if tensor.dim() == 1 and width == 1:
        tensor = tensor.unsqueeze(-1)
    if tensor.dim() not in (2, 3) or tensor.shape[-1] != width:
        raise InvalidParameter(
            name, tuple(tensor.shape), f"have shape (n, {width}) or (b, n, {width})"
        )
    if tensor.numel() == 0:
        raise InvalidParameter(name, tuple(tensor.shape), "hold at least one example")
    largest = float(tensor.abs().max())
    if largest > radius:
        raise AssumptionViolated(
            f"`{name}` holds a value of size {largest:.6g}, outside the certified range "
            f"[-{radius:g}, {radius:g}]. Standardise the data or recompile "
            f"with {option} >= {largest:.6g}."
        )
    return tensor


def _counted(value: Any) -> str:
    """How much of what kind was given in the place of weights."""
    kind = type(value).__name__
    return f"{kind} of {len(value)}" if isinstance(value, (list, tuple)) else kind


def checked_weights(
    spec: NetworkSpec, name: str, value: Any, batch: Sequence[int], like: Tensor
) -> Weights:
    """Weights of the network's shapes, copied: training must never touch the caller's tensors."""
    if not isinstance(value, (list, tuple)) or len(value) != spec.n_layers:
        raise InvalidParameter(
            name,
            _counted(value),
            f"be a list of {spec.n_layers} pairs (W, b)",
            remedy="For example net.init(seed=0).",
        )
    weights: Weights = []
    for i, pair in enumerate(value):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise InvalidParameter(f"{name}[{i}]", type(pair).__name__, "be a pair (W, b)")
        W, b = pair
        shape = (*batch, spec.widths[i + 1], spec.widths[i])
        matrix = _shaped(f"{name}[{i}] W", W, shape, like)
        if spec.bias and b is None:
            raise InvalidParameter(f"{name}[{i}] b", None, f"have shape {shape[:-1]}")
        if not spec.bias and b is not None:
            raise InvalidParameter(
                f"{name}[{i}] b", "a tensor", "be None in a network without bias"
            )
        vector = _shaped(f"{name}[{i}] b", b, shape[:-1], like) if spec.bias else None
        weights.append((matrix, vector))
    return weights


def _shaped(name: str, value: Any, shape: tuple[int, ...], like: Tensor) -> Tensor:
    tensor = as_tensor(name, value, like)
    if tuple(tensor.shape) != shape:
        raise InvalidParameter(name, tuple(tensor.shape), f"have shape {shape}")
    return tensor.clone()


def matching_weights(
    spec: NetworkSpec, x: Tensor, weights: Any, like: Tensor
) -> tuple[Tensor, Weights]:
    """Weights to predict with, and the examples once per problem."""
    try:
        batch = tuple(np.shape(weights[0][0])[:-2])
    except (TypeError, IndexError, KeyError):
        batch = tuple(x.shape[:-2])  # not weights at all: the next check says so
    if x.dim() == 2 and batch:
        x = x.expand(*batch, *x.shape)  # the same rows for every problem
    if tuple(x.shape[:-2]) != batch:
        raise InvalidParameter(
            "X",
            tuple(x.shape),
            f"have one batch entry per problem, shape {(*batch, *x.shape[-2:])}",
        )
    return x, checked_weights(spec, "weights", weights, x.shape[:-2], like)


def split_problems(x: Tensor, y: Tensor, weights: Weights) -> list[tuple[Tensor, Tensor, Weights]]:
    """One (x, y, weights) per problem of a batch."""
    if x.dim() == 2:
        return [(x, y, weights)]
    return [
        (x[i], y[i], [(W[i], None if b is None else b[i]) for W, b in weights])
        for i in range(x.shape[0])
    ]
