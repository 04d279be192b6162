"""Prompts as tokens: three layouts, read-in with positions, and which tokens are asked.

interleaved   x_1 y_1 x_2 y_2 ... x_n: a token per x and per y, the narrower of them padded by zeros; the
              prediction of y_i is read at x_i. The last y is left out: nothing comes after it.
concatenated  [x_1; y_1; 1] ... [x_{n-1}; y_{n-1}; 1] [x_n; 0; 0]: a token per pair, and only the last one
              asks. Earlier tokens show their own y, so that what could be read there is no prediction:
              a model says 0 at positions it is not asked, and they enter no loss.
series        x_1 x_2 ... x_n: every token is asked what follows.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from icgd.errors import InvalidParameter
from icgd.lab.models.block import Rows
from icgd.lab.models.config import ModelConfig
from icgd.lab.tasks.batch import PromptKind


class Prompt(nn.Module):
    """From a batch of prompts to vectors of the model's width, one per token.

    rows   the tokens that are asked; None: all of them
    """

    def __init__(self, config: ModelConfig, d_x: int, d_y: int) -> None:
        super().__init__()
        for name, d in (("d_x", d_x), ("d_y", d_y)):
            if d < 1:
                raise InvalidParameter(name, d, "be >= 1")
        self.layout, self.n_positions, self.d_x, self.d_y = (
            config.layout,
            config.n_positions,
            d_x,
            d_y,
        )
        self.init_std = config.init_std
        self.rows: Rows = {
            "interleaved": slice(0, None, 2),
            "concatenated": slice(-1, None),
            "series": None,
        }[config.layout]
        d_token = {"interleaved": max(d_x, d_y), "concatenated": d_x + d_y + 1, "series": d_x}
        self.read_in = nn.Linear(d_token[config.layout], config.n_embd)
        self.positions = nn.Parameter(torch.zeros(config.max_tokens, config.n_embd))

    def forward(
        self,
        xs: Float[Tensor, "batch n d_x"],
        ys: Float[Tensor, "batch n d_y"],
        kind: PromptKind,
    ) -> Float[Tensor, "batch token width"]:
        """Tokens, read in, with their positions added."""
        self._check(xs, ys, kind)
        tokens = self.tokens(xs, ys)
        read: Tensor = self.read_in(tokens)
        return read + self.positions[: tokens.shape[1]]

    def tokens(self, xs: Tensor, ys: Tensor) -> Tensor:
        """The tokens as they are read in."""
        if self.layout == "series":
            return xs
        n_batch, n, d_x = xs.shape
        d_token = self.read_in.in_features
        if self.layout == "interleaved":
            tokens = xs.new_zeros(n_batch, 2 * n - 1, d_token)
            tokens[:, 0::2, :d_x] = xs
            tokens[:, 1::2, : self.d_y] = ys[:, :-1]
            return tokens
        tokens = xs.new_ones(n_batch, n, d_token)
        tokens[:, :, :d_x] = xs
        tokens[:, :-1, d_x : d_x + self.d_y] = ys[:, :-1]
        tokens[:, -1, d_x:] = 0.0
        return tokens

    def asked(self, ys: Tensor) -> Tensor:
        """The targets of the tokens that are asked."""
        return ys[:, -1:] if self.layout == "concatenated" else ys

    def placed(self, answers: Tensor, n: int) -> Tensor:
        """Answers of the tokens that are asked, as predictions of all n positions."""
        if self.layout != "concatenated":
            return answers
        return torch.cat((answers.new_zeros(answers.shape[0], n - 1, self.d_y), answers), dim=1)

    def reset(self, generator: torch.Generator | None) -> None:
        """Positions as in GPT-2; the read-in as PyTorch's nn.Linear has it."""
        nn.init.normal_(self.positions, 0.0, self.init_std, generator)
        reset_linear(self.read_in, generator)

    def _check(self, xs: Tensor, ys: Tensor, kind: str) -> None:
        wanted = "series" if self.layout == "series" else "pairs"
        if kind != wanted:
            raise InvalidParameter(
                "kind",
                kind,
                f"be {wanted!r} for a model with layout={self.layout!r}",
                remedy="Series need layout='series', pairs 'interleaved' or 'concatenated'.",
            )
        shapes = (("xs", xs, self.d_x), ("ys", ys, self.d_y))
        for name, values, d in shapes:
            if values.dim() != 3 or values.shape[-1] != d or values.shape[:2] != xs.shape[:2]:
                raise InvalidParameter(
                    name,
                    tuple(values.shape),
                    f"have the shape (batch, points, {d}), as {xs.shape[:2]}",
                )
        if not 1 <= xs.shape[1] <= self.n_positions:
            raise InvalidParameter(
                "xs",
                tuple(xs.shape),
                f"have 1 to {self.n_positions} points",
                remedy="Longer prompts need a model with larger n_positions.",
            )


def reset_linear(linear: nn.Linear, generator: torch.Generator | None) -> None:
    """PyTorch's own initial weights of nn.Linear, from an explicit generator."""
    bound = linear.in_features**-0.5
    for parameter in linear.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator)
