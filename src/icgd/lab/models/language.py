"""Models of text: the laboratory's models of a series whose members are tokens of a vocabulary."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from icgd.lab.models.build import MODELS
from icgd.lab.models.config import ModelConfig


class LanguageModel(nn.Module):
    """A standard, looped or AlgoFormer model that reads tokens and scores the next one.

    A token is the one-hot vector that a model of series reads in, and the scores are its predictions:
    read-in and read-out are the embedding and the head. What differs from such a model is cost alone: a row of
    the embedding is looked up, and scores are made only where they are asked for. And the positions are
    told, so that they can be counted anew where another sentence begins.
    """

    def __init__(self, config: ModelConfig, n_vocabulary: int) -> None:
        super().__init__()
        series_config = config.model_copy(update={"layout": "series"})
        self.config, self.n_vocabulary = series_config, n_vocabulary
        self.series = MODELS[config.kind](series_config, n_vocabulary, n_vocabulary)

    def forward(
        self,
        tokens: Int[Tensor, "batch n"],
        positions: Int[Tensor, "batch n"],
        asked: Bool[Tensor, "batch n"],
        window: int = 0,
    ) -> list[Float[Tensor, "n_asked n_vocabulary"]]:
        """Scores of the token after each one that is asked, after loops max(T - window, 1) .. T."""
        prompt, loops = self.series.prompt, self.config.loops
        P = nn.functional.embedding(tokens, prompt.read_in.weight.T) + prompt.read_in.bias
        states = self.series.states(P + prompt.positions[positions], loops, max(loops - window, 1))
        return [self.series.read_out(h[asked]) for h in states]

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Initial weights; embedding and head with the deviation of the stacks, as in GPT-2."""
        self.series.reset(generator)
        for part in (self.series.prompt.read_in, self.series.read_out):
            nn.init.normal_(part.weight, 0.0, self.config.init_std, generator)
            nn.init.zeros_(part.bias)
