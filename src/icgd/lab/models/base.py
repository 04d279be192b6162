"""What every model of the laboratory does: predict, show its iterates, and say its loss."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from icgd.errors import InvalidParameter
from icgd.lab.models.config import ModelConfig
from icgd.lab.models.tokens import Prompt, reset_linear
from icgd.lab.tasks.batch import Batch, PromptKind


class InContextModel(nn.Module, ABC):
    """A causal transformer that reads a prompt and predicts the y of every position it is asked.

    A family of models says how the tokens are transformed (`states`); everything else is here.
    """

    def __init__(self, config: ModelConfig, d_x: int, d_y: int) -> None:
        super().__init__()
        self.config, self.d_x, self.d_y = config, d_x, d_y
        self.prompt = Prompt(config, d_x, d_y)
        self.read_out = nn.Linear(config.n_embd, d_y)

    @abstractmethod
    def states(
        self, P: Float[Tensor, "batch token width"], loops: int, first: int
    ) -> list[Float[Tensor, "batch asked width"]]:
        """Asked tokens after iterations first .. loops (counted from 1), ready for the read-out.

        P   the tokens as read in, with positions
        """

    def forward(
        self, xs: Tensor, ys: Tensor, kind: PromptKind = "pairs", loops: int | None = None
    ) -> Float[Tensor, "batch n d_y"]:
        """Predictions at the last loop; `loops` overrules the configuration's.

        In the concatenated layout only the last position is predicted and all others are 0; see
        `every_position`.
        """
        return self.iterates(xs, ys, kind, loops, window=0)[-1]

    def iterates(
        self,
        xs: Tensor,
        ys: Tensor,
        kind: PromptKind = "pairs",
        loops: int | None = None,
        window: int | None = None,
    ) -> list[Float[Tensor, "batch n d_y"]]:
        """Predictions after every loop that counts in the loss: T0 = max(T - window, 1) .. T.

        loops    T; None: the configuration's
        window   None: the configuration's;  T - 1 or more: every loop
        """
        answers = self._answers(xs, ys, kind, loops, window)
        return [self.prompt.placed(answer, xs.shape[1]) for answer in answers]

    def loss(self, batch: Batch) -> Tensor:
        """Mean squared error over iterates T0 .. T, prompts, positions that count, and coordinates.

        A position counts if the batch counts it and the layout asks it.
        """
        targets = self.prompt.asked(batch.ys)
        counted = self._counted(batch)
        if counted is not None:
            targets = targets[:, counted]
        losses = [
            functional.mse_loss(answer if counted is None else answer[:, counted], targets)
            for answer in self._answers(batch.xs, batch.ys, batch.kind, None, None)
        ]
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()

    @torch.no_grad()
    def every_position(
        self, xs: Tensor, ys: Tensor, kind: PromptKind = "pairs", loops: int | None = None
    ) -> Float[Tensor, "batch n d_y"]:
        """Predictions at all positions in every layout, for curves over the prompt's length.

        In the concatenated layout every position is asked by a prompt that ends there: n calls.
        """
        if self.config.layout != "concatenated":
            return self(xs, ys, kind, loops)
        lengths = range(1, xs.shape[1] + 1)
        ends = [self(xs[:, :n], ys[:, :n], kind, loops)[:, -1] for n in lengths]
        return torch.stack(ends, dim=1)

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Initial weights; stacks as in GPT-2, read-in and read-out as nn.Linear."""
        self.prompt.reset(generator)
        for part in self.children():
            if part not in (self.prompt, self.read_out):
                part.reset(generator)  # type: ignore[operator]
        reset_linear(self.read_out, generator)

    def _answers(
        self, xs: Tensor, ys: Tensor, kind: PromptKind, loops: int | None, window: int | None
    ) -> list[Tensor]:
        loops = self.config.loops if loops is None else loops
        window = self.config.window if window is None else window
        if loops < 1:
            raise InvalidParameter("loops", loops, "be >= 1")
        if window < 0:
            raise InvalidParameter("window", window, "be >= 0")
        states = self.states(self.prompt(xs, ys, kind), loops, max(loops - window, 1))
        return [self.read_out(state) for state in states]

    def _counted(self, batch: Batch) -> Tensor | None:
        if batch.counted is None or self.config.layout != "concatenated":
            return batch.counted
        if not bool(batch.counted[-1]):
            raise InvalidParameter(
                "counted",
                batch.counted.tolist(),
                "hold the last position for layout='concatenated'",
                remedy="It is the only one that layout predicts.",
            )
        return None
