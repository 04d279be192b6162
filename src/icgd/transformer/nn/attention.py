"""The one attention kernel, for compiled and trained transformers alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from icgd.errors import AssumptionViolated, InvalidParameter

AttentionKind = Literal["softmax", "relu", "linear"]


def attention(
    q: Float[Tensor, "*batch n_query d_key"],
    k: Float[Tensor, "*batch n_token d_key"],
    v: Float[Tensor, "*batch n_token d_value"],
    *,
    mask: Bool[Tensor, "*#batch n_query n_token"] | None = None,
    kind: AttentionKind | Callable[[Tensor], Tensor] = "softmax",
    causal: bool = False,
) -> Float[Tensor, "*batch n_query d_value"]:
    """Attention without a 1/sqrt(d) factor: the temperature belongs to the weights.

    kind   softmax: weights exp(score) / sum;  relu: relu(score) / n visible;
           linear: score / n visible;  a callable: f(score) / n visible
    mask   True where a query may look. A query that may look nowhere is an error, never a zero.
    causal query i looks at tokens 0..i, and its "n visible" is i + 1; as with that mask, but faster

    >>> eye = torch.eye(2, dtype=torch.float64)
    >>> attention(eye, eye, eye, kind="linear").tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    if causal:
        return _causal(q, k, v, mask, kind)
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
    weights = _unnormalised(scores, kind)
    if mask is None:
        return weights @ v / k.shape[-2]
    return weights.masked_fill(~mask, 0.0) @ v / mask.sum(dim=-1, keepdim=True)


def _unnormalised(scores: Tensor, kind: AttentionKind | Callable[[Tensor], Tensor]) -> Tensor:
    if kind == "relu":
        return scores.relu()
    if kind == "linear":
        return scores
    if callable(kind):
        return kind(scores)
    raise InvalidParameter("kind", kind, "be 'softmax', 'relu', 'linear' or a callable")


def _causal(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    kind: AttentionKind | Callable[[Tensor], Tensor],
) -> Tensor:
    """Every query sees itself at least, so that no row is blind and nothing has to be checked."""
    n = k.shape[-2]
    if mask is not None:
        raise InvalidParameter(
            "mask", tuple(mask.shape), "be None if causal=True", remedy="Pass mask & mask.tril()."
        )
    if q.shape[-2] != n:
        raise InvalidParameter(
            "causal",
            True,
            f"come with as many queries as tokens ({q.shape[-2]} and {n})",
            remedy="Pass a mask that says what each query sees.",
        )
    if kind == "softmax":
        return functional.scaled_dot_product_attention(q, k, v, scale=1.0, is_causal=True)
    weights = _unnormalised(q @ k.transpose(-2, -1), kind).tril()
    return weights @ v / torch.arange(1, n + 1, dtype=v.dtype, device=v.device).unsqueeze(-1)
