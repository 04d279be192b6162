"""One transformer layer: feed-forward, attention, feed-forward."""

from __future__ import annotations

from torch import Tensor, nn

from icgd.transformer.layout import Layout
from icgd.transformer.nn.chain.attention_layer import AttentionLayer, DenseAttention
from icgd.transformer.nn.feedforward import DenseFeedForward, FeedForward
from icgd.transformer.nn.frozen_layer import FrozenLayer
from icgd.transformer.nn.views import Grid, StageOutline


class Layer(FrozenLayer):
    """FFN -> softmax attention -> FFN with linear skips, in compact named form.

    `radius` is the range |s| <= radius in which every head is certified.
    """

    def __init__(
        self, pre: FeedForward, attention: AttentionLayer, post: FeedForward, radius: float
    ) -> None:
        super().__init__()
        self.pre, self.attention, self.post = pre, attention, post
        self.radius = radius

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Names of the blocks it sees, in the order in which they are stacked."""
        return tuple(dict.fromkeys(slot.name.split("/")[0] for slot in self.pre.source))

    @property
    def like(self) -> Tensor:
        """See FrozenLayer."""
        return self.attention.like

    def layouts(self) -> dict[str, Layout]:
        """See FrozenLayer."""
        return self.attention.layouts()

    def stages(self) -> list[StageOutline]:
        """See FrozenLayer."""
        return [
            StageOutline(
                "pre",
                "feed_forward",
                "Feed-forward: gates that pick what this step needs",
                self.pre.target,
                tuple(self.pre.parts),
            ),
            StageOutline(
                "attention",
                "softmax",
                "Softmax heads over grid tokens: they multiply",
                self.attention.layout,
            ),
            StageOutline(
                "post",
                "feed_forward",
                "Feed-forward: activation, and the block that is written",
                self.post.target,
                tuple(self.post.parts),
            ),
        ]

    def grids(self) -> dict[str, Grid]:
        """See FrozenLayer."""
        return self.attention.grids()

    def dense_parameters(self, n_columns: int) -> int:
        """See FrozenLayer."""
        total = self.attention.dense_parameters(n_columns)
        for s, n_units, t in self._feed_forward_shapes():
            total += s * n_units + n_units + n_units * t + t + s * t
        return total

    def dense_flops(self, n_columns: int) -> int:
        """See FrozenLayer; two operations per entry of a matrix."""
        total = self.attention.dense_flops(n_columns)
        for s, n_units, t in self._feed_forward_shapes():
            total += n_columns * (s * n_units + n_units * t + s * t)
        return 2 * total

    def _feed_forward_shapes(self) -> list[tuple[int, int, int]]:
        return [
            (ffn.source.width, sum(group.size for group in ffn.unit_groups()), ffn.target.width)
            for ffn in (self.pre, self.post)
        ]

    def dense(self, n_columns: int) -> DenseLayer:
        """The literal matrices for blocks of `n_columns` tokens."""
        return DenseLayer(self.pre.dense(), self.attention.dense(n_columns), self.post.dense())


class DenseLayer(nn.Module):
    """The same layer as literal matrices."""

    def __init__(
        self, pre: DenseFeedForward, attention: DenseAttention, post: DenseFeedForward
    ) -> None:
        super().__init__()
        self.pre, self.attention, self.post = pre, attention, post

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: (..., column, entry) of the stacked visible blocks."""
        return self.post(self.attention(self.pre(tokens)))
