"""Exact full-batch gradient descent on a network: torch.nn, autograd and torch.optim.SGD."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from icgd.oracle.sgd import network_weights, torch_network
from icgd.problems import NetworkSpec, Weights


def mean_network_loss(spec: NetworkSpec, network: nn.Module, X: Tensor, Y: Tensor) -> Tensor:
    """1/n sum_i sum_k l(o_i[k], y_i[k]), which is 1/(2n) sum |o - y|^2 for the squared loss."""
    if spec.loss.name == "squared":
        return 0.5 * nn.functional.mse_loss(network(X), Y, reduction="sum") / X.shape[0]
    return spec.loss.of(network(X), Y).sum(dim=-1).mean()


def network_gd_steps(
    spec: NetworkSpec, weights: Weights, X: Tensor, Y: Tensor, lr: float, box: float | None = None
) -> Iterator[Weights]:
    """The weights after every step, put back into the box [-box, box] if there is one.

    Statement: [DEEP] Lemma 1
    Statement: [DEEP] Lemma 15

    Differs from the paper: the gradient is autograd's, not the printed decomposition.
    """
    network = torch_network(spec, weights)
    optimizer = torch.optim.SGD(network.parameters(), lr=lr)
    while True:
        # Autocast of the caller would make an oracle of fewer digits.
        with torch.enable_grad(), torch.autocast(X.device.type, enabled=False):
            optimizer.zero_grad()
            mean_network_loss(spec, network, X, Y).backward()
            optimizer.step()
        if box is not None:
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter.clamp_(-box, box)
        yield network_weights(network)


def network_gd_step(
    spec: NetworkSpec, weights: Weights, X: Tensor, Y: Tensor, lr: float, box: float | None = None
) -> Weights:
    """One exact step from the given weights."""
    return next(network_gd_steps(spec, weights, X, Y, lr, box))


def network_gradient(spec: NetworkSpec, weights: Weights, X: Tensor, Y: Tensor) -> Weights:
    """The gradient of the mean loss, in the shape of the weights."""
    network = torch_network(spec, weights)
    with torch.enable_grad(), torch.autocast(X.device.type, enabled=False):
        mean_network_loss(spec, network, X, Y).backward()
    return [
        (_gradient(m.weight), None if m.bias is None else _gradient(m.bias))
        for m in network
        if isinstance(m, nn.Linear)
    ]


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad.detach().clone()
