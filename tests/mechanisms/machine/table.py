"""Models, losses and optimizers that programs of the machine are tried on."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

f64 = torch.float64
ACTIVATIONS = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"),
    "softplus": nn.Softplus,
}


def smoothed(z, y):
    """Cross-entropy with smoothed labels."""
    return functional.cross_entropy(z, y, label_smoothing=0.1)


LOSSES = {
    "mse": (functional.mse_loss, "real"),
    "l1": (functional.l1_loss, "real"),
    "huber": (functional.huber_loss, "real"),
    "cross_entropy": (functional.cross_entropy, "class"),
    "cross_entropy_soft": (functional.cross_entropy, "share"),
    "cross_entropy_smoothed": (smoothed, "class"),
    "bce": (functional.binary_cross_entropy_with_logits, "binary"),
    "poisson": (functional.poisson_nll_loss, "count"),
}
OPTIMIZERS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9, "nesterov": True},
    "dampening": {"momentum": 0.9, "dampening": 0.3},
    "decay": {"weight_decay": 1e-2, "momentum": 0.5},
    "maximize": {"maximize": True},
}


class Residual(nn.Module):
    """Residual sums around two small networks, with a forward of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 16)
        self.inner = nn.ModuleList([nn.Linear(16, 16) for _ in range(2)])
        self.leave = nn.Linear(16, 3)

    def forward(self, x):
        h = self.enter(x)
        for layer in self.inner:
            h = h + torch.tanh(layer(h))
        return self.leave(h)


class Shared(nn.Module):
    """One layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.again, self.leave = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x):
        h = torch.relu(self.again(torch.relu(self.enter(x))))
        return self.leave(torch.relu(self.again(h)))


def mlp(activation="tanh", widths=(8, 16, 16, 3), seed=0):
    """Linear layers with an activation between them."""
    torch.manual_seed(seed)
    layers = []
    for k, (n, m) in enumerate(pairwise(widths)):
        layers += [ACTIVATIONS[activation]()] if k else []
        layers.append(nn.Linear(n, m))
    return nn.Sequential(*layers).to(f64)


def data(kind="real", n_rows=24, n_in=8, n_out=3, seed=0):
    """Rows and targets of a kind."""
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n_rows, n_in, generator=g, dtype=f64)
    Z = X @ torch.randn(n_in, n_out, generator=g, dtype=f64)
    targets = {
        "real": lambda: torch.sin(Z),
        "class": lambda: Z.argmax(1),
        "share": lambda: torch.softmax(Z, 1),
        "binary": lambda: (Z > 0).to(f64),
        "count": lambda: torch.poisson(torch.exp(0.3 * Z.clamp(max=4)), generator=g),
    }
    return X, targets[kind]()


def trained(model, optimizer, loss, X, Y, batches):
    """PyTorch's own training on these rows, batch by batch: the losses."""
    losses = []
    for rows in batches:
        optimizer.zero_grad()
        value = loss(model(X[rows]), Y[rows])
        value.backward()
        optimizer.step()
        losses.append(float(value.detach()))
    return losses


def apart(weights, model):
    """Largest difference between a state_dict and a model."""
    return max(float((weights[n] - p.detach()).abs().max()) for n, p in model.state_dict().items())
