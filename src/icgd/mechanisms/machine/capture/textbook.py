"""The loop body that every PyTorch tutorial shows, for those who give model, loss and optimizer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def training_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[..., Tensor]
) -> Callable[..., Tensor]:
    """`step(*inputs, target)`: one update of the model by the optimizer on one batch; returns the loss.

    loss  of (model(*inputs), target): a function such as torch.nn.functional.mse_loss, or a module
    """

    def step(*batch: Tensor) -> Tensor:
        *inputs, target = batch
        optimizer.zero_grad()
        prediction = model(*inputs)
        value = loss(prediction, target)
        value.backward()
        optimizer.step()
        return value.detach()

    return step
