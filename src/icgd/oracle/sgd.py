"""Exact SGD by PyTorch's own machinery: torch.nn, autograd and torch.optim.SGD, nothing of ours."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from icgd.problems import NetworkSpec, Weights

MODULES: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "gelu": nn.GELU,
}


def torch_network(spec: NetworkSpec, weights: Weights) -> nn.Sequential:
    """The network as a torch.nn.Sequential holding copies of the weights."""
    modules: list[nn.Module] = []
    for layer, (W, b) in enumerate(weights, 1):
        linear = nn.Linear(
            W.shape[1], W.shape[0], bias=b is not None, dtype=W.dtype, device=W.device
        )
        with torch.no_grad():
            linear.weight.copy_(W)
            if b is not None:
                linear.bias.copy_(b)
        modules.append(linear)
        kind = spec.output if layer == spec.n_layers else spec.activation
        if kind != "linear":
            modules.append(MODULES[kind]())
    return nn.Sequential(*modules)


def network_weights(network: nn.Sequential) -> Weights:
    """Copies of a network's weights."""
    return [
        (m.weight.detach().clone(), None if m.bias is None else m.bias.detach().clone())
        for m in network
        if isinstance(m, nn.Linear)
    ]


def sgd_round(spec: NetworkSpec, weights: Weights, x: Tensor, y: Tensor, lr: float) -> Weights:
    """The weights after one example, from the given ones."""
    (after,) = sgd_rounds(spec, weights, x.unsqueeze(0), y.unsqueeze(0), lr)
    return after


def sgd_rounds(
    spec: NetworkSpec, weights: Weights, X: Tensor, Y: Tensor, lr: float
) -> Iterator[Weights]:
    """The weights after every example: one step of torch.optim.SGD on 1/2 |o - y|^2 each.

    Statement: [COT] Definition 2.3

    Differs from the paper: the gradient comes from autograd, not from the printed recursion.
    """
    network = torch_network(spec, weights)
    optimizer = torch.optim.SGD(network.parameters(), lr=lr)
    for x, y in zip(X, Y, strict=True):
        # Autocast of the caller would make an oracle of fewer digits.
        with torch.enable_grad(), torch.autocast(X.device.type, enabled=False):
            optimizer.zero_grad()
            loss = 0.5 * (network(x) - y).square().sum()
            loss.backward()
            optimizer.step()
        yield network_weights(network)


def sgd_epochs(
    spec: NetworkSpec, weights: Weights, X: Tensor, Y: Tensor, lr: float, epochs: int
) -> Iterator[Weights]:
    """The same, so many times over the rows, which are not copied; plain SGD keeps nothing but its weights."""
    for _ in range(epochs):
        for after in sgd_rounds(spec, weights, X, Y, lr):
            yield after
            weights = after
