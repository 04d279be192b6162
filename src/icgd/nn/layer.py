"""One transformer layer: feed-forward, grid attention, feed-forward."""

from __future__ import annotations

from torch import Tensor, nn

from icgd.nn.feedforward import DenseFeedForward, FeedForward
from icgd.nn.grid_attention import DenseGridAttention, GridAttention


class Layer(nn.Module):
    """FFN -> softmax attention -> FFN with linear skips, in compact named form.

    `radius` is the range |s| <= radius in which every head is certified.
    """

    def __init__(
        self, pre: FeedForward, attention: GridAttention, post: FeedForward, radius: float
    ) -> None:
        super().__init__()
        self.pre, self.attention, self.post = pre, attention, post
        self.radius = radius

    def dense(self, n_columns: int) -> DenseLayer:
        """The literal matrices for tokens that come in `n_columns` equal columns."""
        return DenseLayer(self.pre.dense(), self.attention.dense(n_columns), self.post.dense())


class DenseLayer(nn.Module):
    """The same layer as literal matrices."""

    def __init__(
        self, pre: DenseFeedForward, attention: DenseGridAttention, post: DenseFeedForward
    ) -> None:
        super().__init__()
        self.pre, self.attention, self.post = pre, attention, post

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: (..., column, entry) of the stacked visible blocks."""
        return self.post(self.attention(self.pre(tokens)))
