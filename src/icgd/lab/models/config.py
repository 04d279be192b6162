"""What a model is: family, size, attention, token layout, loops."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from icgd.errors import InvalidParameter
from icgd.transformer.nn.attention import AttentionKind

ModelKind = Literal["standard", "looped", "algoformer"]
TokenLayout = Literal["interleaved", "concatenated", "series"]

MOST_HEADS = 1024
"""Larger numbers of heads are not looked at for one that would fit."""
_COUNTS = ("n_layer", "n_head", "n_embd", "n_positions", "loops")


class ModelConfig(BaseModel):
    """A model of the laboratory.

    kind         standard: a stack of blocks;  looped: one stack applied `loops` times;
                 algoformer: pre, a looped stack, post
    n_layer      blocks of a stack; for an algoformer of the looped one
    n_pre, n_post  blocks before and after the loop of an algoformer; None: as many as n_layer
    n_head, n_embd, d_mlp  heads, width, hidden width of the feed-forward part (None: 4 n_embd)
    attention    softmax, or relu or linear: then the mean over the i tokens that token i sees
    layer_norm   False leaves out every LayerNorm
    n_positions  the longest prompt in points (pairs, or members of a series), not in tokens
    layout       of the tokens: see `icgd.lab.models.tokens`
    loops, window  T and dT: the loss is the mean over iterates max(T - dT, 1) .. T
    inject       the loop is given its input anew in every iteration: h + P instead of h
    truncate     iterations before the window carry no gradient: cheaper, and not the loss's gradient
    init_std     deviation of the initial weights of the stacks; GPT-2's 0.02 is small for narrow models, which
                 then stay long where they start: about n_embd ** -0.5 is quicker there
    dropout      must be 0: prompts are drawn anew in every step, there is nothing to overfit

    >>> ModelConfig(n_embd=64, n_head=2).hidden
    256
    >>> ModelConfig(n_embd=64, n_head=3)
    Traceback (most recent call last):
    ...
    icgd.errors.InvalidParameter: `n_head` must divide n_embd = 64. Got 3. For example n_head=2.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: ModelKind = "standard"
    n_layer: int = 3
    n_head: int = 2
    n_embd: int = 64
    d_mlp: int | None = None
    attention: AttentionKind = "softmax"
    layer_norm: bool = True
    n_positions: int = 101
    layout: TokenLayout = "interleaved"
    loops: int = 1
    window: int = 0
    inject: bool = True
    truncate: bool = False
    n_pre: int | None = None
    n_post: int | None = None
    init_std: float = 0.02
    dropout: float = 0.0

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _explained(error) from None

    def model_post_init(self, context: Any) -> None:
        """Check what a type cannot say."""
        for name in (*_COUNTS, "d_mlp", "n_pre", "n_post"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidParameter(name, value, "be >= 1")
        if self.n_embd % self.n_head:
            most = min(self.n_head - 1, self.n_embd, MOST_HEADS)
            fitting = next(n for n in range(most, 0, -1) if self.n_embd % n == 0)
            raise InvalidParameter(
                "n_head",
                self.n_head,
                f"divide n_embd = {self.n_embd}",
                remedy=f"For example n_head={fitting}.",
            )
        if self.window < 0:
            raise InvalidParameter(
                "window", self.window, "be >= 0", remedy="0 counts the last iterate alone."
            )
        if not 0 < self.init_std < 10:
            raise InvalidParameter("init_std", self.init_std, "lie between 0 and 10")
        if self.dropout != 0:
            raise InvalidParameter(
                "dropout",
                self.dropout,
                "be 0",
                remedy="Every step draws new prompts; leave it out.",
            )
        self._check_kind()

    def _check_kind(self) -> None:
        if self.kind == "standard" and (self.loops > 1 or self.window > 0):
            name = "loops" if self.loops > 1 else "window"
            raise InvalidParameter(
                name,
                getattr(self, name),
                "be left out for kind='standard', which has no loop",
                remedy="Use kind='looped' or 'algoformer'.",
            )
        for name in ("n_pre", "n_post"):
            if self.kind != "algoformer" and getattr(self, name) is not None:
                raise InvalidParameter(
                    name,
                    getattr(self, name),
                    f"be left out for kind={self.kind!r}",
                    remedy="Only an algoformer has stacks before and after its loop.",
                )

    @property
    def hidden(self) -> int:
        """Hidden width of the feed-forward part."""
        return 4 * self.n_embd if self.d_mlp is None else self.d_mlp

    @property
    def max_tokens(self) -> int:
        """Tokens of the longest prompt."""
        return 2 * self.n_positions if self.layout == "interleaved" else self.n_positions


def _explained(error: ValidationError) -> InvalidParameter:
    """Pydantic's first complaint as this package's own."""
    first = error.errors()[0]
    own = first.get("ctx", {}).get("error")
    if isinstance(own, InvalidParameter):
        return own
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = ", ".join(ModelConfig.model_fields)
        return InvalidParameter(
            name, first["input"], "be a setting of a model", remedy=f"Known: {known}."
        )
    wanted = first["msg"].removeprefix("Input should ")
    return InvalidParameter(name, first["input"], wanted)
