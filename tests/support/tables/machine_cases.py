"""Models, losses and data for the machine, small enough to be compiled by the dozen."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import icgd

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky": lambda: nn.LeakyReLU(0.1),
    "elu": nn.ELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "softplus": nn.Softplus,
}


def soft_labels(prediction: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy against probabilities."""
    return functional.cross_entropy(prediction, target.softmax(dim=1))


def smoothed(prediction: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy against smoothed indices."""
    return functional.cross_entropy(prediction, target, label_smoothing=0.1)


def bce(prediction: Tensor, target: Tensor) -> Tensor:
    """Against yes and no."""
    return functional.binary_cross_entropy_with_logits(prediction, (target > 0).to(target.dtype))


def poisson(prediction: Tensor, target: Tensor) -> Tensor:
    """Against counts."""
    return functional.poisson_nll_loss(prediction, target.square())


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
    "huber": functional.huber_loss,
    "cross_entropy": functional.cross_entropy,
    "soft": soft_labels,
    "smoothed": smoothed,
    "bce": bce,
    "poisson": poisson,
}
INDICES = ("cross_entropy", "smoothed")


def data(loss: str, n_rows: int = 8) -> tuple[Tensor, Tensor]:
    """Rows of two numbers, and what the loss compares with."""
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(n_rows, 2, generator=generator, dtype=torch.float64)
    if loss in INDICES:
        return X, torch.randint(0, 2, (n_rows,), generator=generator)
    return X, torch.randn(n_rows, 2, generator=generator, dtype=torch.float64)


def model(activation: str) -> nn.Module:
    """2-3-2."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), ACTIVATIONS[activation](), nn.Linear(3, 2)).double()


@cache
def trained(activation: str, loss: str) -> tuple[nn.Module, Any]:
    """A model, and a program that trains it with momentum in batches of four."""
    net = model(activation)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    X, y = data(loss)
    return net, icgd.compile(net, optimizer, loss=LOSSES[loss], example=(X[:4], y[:4]))
