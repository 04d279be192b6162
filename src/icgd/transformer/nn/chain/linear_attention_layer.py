"""One layer of linear self-attention, f(Z) = Z + V Z (Z^T W Z) / n, on tokens that are rows.

Token i asks with W z_i, token s is known by z_s itself and answers with V z_s. The divisor n is the number
of data tokens and not the length of the prompt, so that tokens with nothing to say change nothing.
"""

from __future__ import annotations

from torch import Tensor

from icgd.transformer.layout import Layout
from icgd.transformer.nn.attention import attention
from icgd.transformer.nn.feedforward import frozen
from icgd.transformer.nn.frozen_layer import FrozenLayer
from icgd.transformer.nn.symbolic import once_fixed
from icgd.transformer.nn.views import HeadView, Interest, StageOutline


class LinearAttentionLayer(FrozenLayer):
    """Linear self-attention with literal matrices V and W.

    Statement: [LSA] Theorem 3.2

    V, W       (width, width)
    n_data     the divisor n
    n_speaking the first tokens of a prompt, the only ones whose keys can meet a query as compiled

    Differs from the paper: tokens are rows.
    """

    def __init__(
        self, layout: Layout, V: Tensor, W: Tensor, *, n_data: int, n_speaking: int
    ) -> None:
        super().__init__()
        shape = (layout.width, layout.width)
        self.layout, self.n_data, self.n_speaking = layout, n_data, n_speaking
        self.V, self.W = frozen(V, shape, V.dtype), frozen(W, shape, W.dtype)
        self.radius = float("inf")
        self._compiled = [p.data.clone() for p in self.parameters()]

    @property
    def like(self) -> Tensor:
        """See FrozenLayer."""
        return self.V

    @once_fixed
    def is_plain(self) -> bool:
        """Whether every weight is the one that was compiled."""
        now = list(self.parameters())
        return all(bool((p == was.to(p)).all()) for p, was in zip(now, self._compiled, strict=True))

    def layouts(self) -> dict[str, Layout]:
        """See FrozenLayer: its tokens are the prompt's own."""
        return {}

    def stages(self) -> list[StageOutline]:
        """See FrozenLayer."""
        title = "Linear attention of the last token to the whole prompt"
        return [StageOutline("attention", "linear", title, self.layout)]

    def views(self, tokens: Tensor, interest: Interest) -> list[HeadView]:
        """What the last token asks of the prompt (T, width), and the weight it gives each answer."""
        score = ((tokens[-1:] @ self.W.T) @ tokens.mT)[:, : interest.tokens]
        return [
            HeadView(
                "attention", "z", "tokens", score, [len(tokens) - 1], None, score / self.n_data
            )
        ]

    def forward(self, tokens: Tensor) -> Tensor:
        """f(Z): every token asks every token, (..., T, width)."""
        return tokens + self.answers(tokens, tokens)

    def last(self, tokens: Tensor) -> Tensor:
        """The last token of f(Z) alone, (..., 1, width), asking only tokens that may have an answer."""
        asking = tokens[..., -1:, :]
        # With other weights than the compiled ones chain tokens may speak as well.
        speaking = tokens[..., : self.n_speaking, :] if self.is_plain() else tokens
        return asking + self.answers(asking, speaking)

    def answers(self, asking: Tensor, speaking: Tensor) -> Tensor:
        """V Z (Z^T W z) / n for every asking token z."""
        answers = attention(asking @ self.W.T, speaking, speaking @ self.V.T, kind="linear")
        return answers * (speaking.shape[-2] / self.n_data)

    def dense_parameters(self, n_columns: int) -> int:
        """See FrozenLayer."""
        return self.V.numel() + self.W.numel()

    def dense_flops(self, n_columns: int) -> int:
        """See FrozenLayer."""
        D, T = self.layout.width, n_columns
        return 4 * D * D * T + 4 * D * T * T
