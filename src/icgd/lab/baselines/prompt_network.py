"""Networks trained on the prompt: what a user without a transformer would do with the examples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import InvalidParameter
from icgd.lab.baselines.prefix import Baseline, Prefix
from icgd.lab.tasks.batch import Batch
from icgd.problems.regression import positive


@dataclass(frozen=True)
class NetworkFit:
    """Predictions of networks after every epoch of their training.

    epochs     (E, B, P, d_y): after epoch 1, 2, .. E, at P positions
    positions  (P,): which positions, counted from 0
    targets    (B, P, d_y)
    """

    epochs: Tensor
    positions: Tensor
    targets: Tensor

    @property
    def last(self) -> Tensor:
        """(B, P, d_y): after the last epoch."""
        return self.epochs[-1]

    @property
    def best_epochs(self) -> Tensor:
        """(P,): the epoch, from 0, with the least squared error over all prompts at each position."""
        return (self.epochs - self.targets).square().sum((1, 3)).argmin(0)

    @property
    def best(self) -> Tensor:
        """(B, P, d_y): after the best epoch of each position, one for all prompts.

        An oracle's choice: it looks at the targets to be predicted, which no predictor may. It is the largest
        R2 (pooled over prompts) that stopping early can reach.
        """
        at = self.best_epochs[None, None, :, None].expand(1, *self.epochs.shape[1:])
        return self.epochs.gather(0, at).squeeze(0)


@dataclass(frozen=True)
class PromptNetwork(Baseline):
    """An N-layer ReLU network per prompt and position, trained on the examples before it.

    Statement: [DEEP] Appendix G

    n_layers, hidden_layer_size  weight matrices, and width of the hidden layers
    n_epochs    full-batch steps on the mean squared error
    lr          of Adam
    seed        of the initial weights: N(0, 2 / fan_in), the last layer N(0, 1 / fan_in), biases 0
    weight_decay  of Adam, added to the gradient

    Calling it gives the predictions after the last epoch; `fit` gives all epochs, and the best one.

    Differs from the paper: it names the widths, the loss and 100 epochs, not the optimizer, its rate, batches
    or initial weights. It takes the highest R2 of all epochs, which is an oracle's choice: `NetworkFit.best`
    does so position by position, for all prompts together, and `NetworkFit.last` does not choose.
    """

    n_layers: int = 3
    hidden_layer_size: int = 200
    n_epochs: int = 100
    lr: float = 5e-3
    weight_decay: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("n_layers", "hidden_layer_size", "n_epochs"):
            whole_number(name, getattr(self, name))
        whole_number("seed", self.seed, 0)
        positive("lr", self.lr)
        positive("weight_decay", self.weight_decay, zero=True)

    def predict(self, prefix: Prefix) -> Tensor:
        """After the last epoch."""
        return torch.stack([self._train(prefix, i)[-1] for i in range(prefix.n_positions)], 1)

    def fit(self, batch: Batch, positions: Sequence[int] | None = None) -> NetworkFit:
        """Train for some positions (counted from 0; all unless given) and keep every epoch."""
        prefix = self.prefix(batch)
        chosen = list(range(prefix.n_positions)) if positions is None else list(positions)
        for i in chosen:
            if not 0 <= i < prefix.n_positions:
                raise InvalidParameter("positions", i, f"lie in 0 .. {prefix.n_positions - 1}")
        epochs = torch.stack([self._train(prefix, i) for i in chosen], 2).to(batch.ys.dtype)
        return NetworkFit(epochs, torch.tensor(chosen), batch.ys[:, chosen])

    def _train(self, prefix: Prefix, i: int) -> Tensor:
        """(E, B, d_y): the predictions at position i. All prompts' networks are trained side by side."""
        X, Y = (part.detach().float() for part in prefix.examples(i))
        n_prompts, n_examples = X.shape[:2]
        if not n_examples:
            return prefix.ys.new_zeros(self.n_epochs, n_prompts, Y.shape[2])
        # The query goes through the network with the examples and stays out of the loss.
        inputs = torch.cat([X, prefix.xs[:, i : i + 1].detach().float()], 1)
        parameters = self._start(n_prompts, X.shape[2], Y.shape[2], i, X.device)
        flat = [p for layer in parameters for p in layer]
        optimizer = torch.optim.Adam(flat, self.lr, weight_decay=self.weight_decay, fused=True)
        seen = []
        with torch.enable_grad():
            for epoch in range(self.n_epochs + 1):
                outputs = _forward(parameters, inputs)
                seen.append(outputs[:, -1].detach())
                if epoch < self.n_epochs:
                    optimizer.zero_grad(set_to_none=True)
                    # A sum over prompts of means over examples: gradients do not mix networks, and
                    # neither does Adam, which works number by number.
                    (outputs[:, :-1] - Y).square().mean((1, 2)).sum().backward()
                    optimizer.step()
        return torch.stack(seen[1:]).double()

    def _start(
        self, n_prompts: int, n_in: int, n_out: int, i: int, device: torch.device
    ) -> list[tuple[Tensor, Tensor]]:
        # A stream per position: a longer prompt does not change what shorter ones start from.
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + i)
        widths = [n_in, *[self.hidden_layer_size] * (self.n_layers - 1), n_out]
        layers = []
        for layer, (a, b) in enumerate(itertools.pairwise(widths), 1):
            std = math.sqrt((1 if layer == self.n_layers else 2) / a)
            W = std * torch.randn(n_prompts, a, b, generator=generator)
            bias = torch.zeros(n_prompts, 1, b, device=device)
            layers.append((W.to(device).requires_grad_(), bias.requires_grad_()))
        return layers


def _forward(parameters: list[tuple[Tensor, Tensor]], inputs: Tensor) -> Tensor:
    hidden = inputs
    for layer, (W, b) in enumerate(parameters, 1):
        hidden = torch.baddbmm(b, hidden, W)
        if layer < len(parameters):
            hidden = hidden.relu()
    return hidden
