"""The one attention kernel, for compiled and trained transformers alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter

AttentionKind = Literal["softmax", "relu", "linear"]


def attention(
    q: Float[Tensor, "*batch n_query d_key"],
    k: Float[Tensor, "*batch n_token d_key"],
    v: Float[Tensor, "*batch n_token d_value"],
    *,
    mask: Bool[Tensor, "*#batch n_query n_token"] | None = None,
    kind: AttentionKind | Callable[[Tensor], Tensor] = "softmax",
) -> Float[Tensor, "*batch n_query d_value"]:
    """Attention without a 1/sqrt(d) factor: the temperature belongs to the weights.

    kind   softmax: weights exp(score) / sum;  relu: relu(score) / n visible;
           linear: score / n visible;  a callable: f(score) / n visible
    mask   True where a query may look. A query that may look nowhere is an error, never a zero.

    >>> eye = torch.eye(2, dtype=torch.float64)
    >>> attention(eye, eye, eye, kind="linear").tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    scores = q @ k.transpose(-2, -1)
    if mask is not None:
        blind = ~mask.any(dim=-1)
        if bool(blind.any()):
            row = tuple(int(i) for i in blind.nonzero()[0])
            raise AssumptionViolated(
                f"Query row {row} of the attention mask sees no token at all. A fully masked row has no "
                "defined output; let every query see at least one token."
            )
    if kind == "softmax":
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return torch.softmax(scores, dim=-1) @ v
    if kind == "relu":
        weights = scores.relu()
    elif kind == "linear":
        weights = scores
    elif callable(kind):
        weights = kind(scores)
    else:
        raise InvalidParameter("kind", kind, "be 'softmax', 'relu', 'linear' or a callable")
    if mask is None:
        return weights @ v / k.shape[-2]
    return weights.masked_fill(~mask, 0.0) @ v / mask.sum(dim=-1, keepdim=True)
