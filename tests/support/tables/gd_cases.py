"""Full-batch gradient descent written out with autograd, data, and programs of method "forward_mode"."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import torch

import icgd

F64 = torch.float64
LR, BOX = 0.3, 1.5
SHAPES = {2: (3, 4, 1), 3: (3, 4, 4, 1), 4: (2, 3, 3, 3, 1)}
ACT = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": torch.nn.functional.softplus,
    "gelu": torch.nn.functional.gelu,
}


# -- the oracle -----------------------------------------------------------------------------------


def half_square(o, y):
    return (o - y).square() / 2


def huber_one(o, y):
    return torch.nn.functional.huber_loss(o, y, reduction="none", delta=1.0)


def logistic(o, y):
    return torch.nn.functional.softplus(o) - y * o


def gd(act, weights, X, Y, steps, *, lr=LR, box=BOX, loss=half_square):
    """The weights after every step."""
    flat = [p.clone().requires_grad_(True) for pair in weights for p in pair if p is not None]
    per_layer = len(flat) // len(weights)
    found = []
    for _ in range(steps):
        a = X
        for j in range(len(weights)):
            part = flat[j * per_layer : (j + 1) * per_layer]
            z = a @ part[0].T + (part[1] if per_layer == 2 else 0.0)
            a = ACT[act](z) if j < len(weights) - 1 else z
        total = loss(a, Y).sum() / len(X)
        grads = torch.autograd.grad(total, flat)
        with torch.no_grad():
            for p, g in zip(flat, grads, strict=True):
                p -= lr * g
                if box is not None:
                    p.clamp_(-box, box)
        found.append([p.detach().clone() for p in flat])
    return found


def tensors(weights):
    return [p for pair in weights for p in pair if p is not None]


def apart(weights, exact):
    return max(float((p - q).abs().max()) for p, q in zip(tensors(weights), exact, strict=True))


# -- cases ----------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def program(widths, act="softplus", attention=None, *, bias=False, n_relu=200, box=BOX, **more):
    loss = more.pop("loss", "squared")
    net = icgd.Network(widths, act, bias=bias, loss=loss)
    return icgd.compile(
        net, icgd.GD(LR, box=box), method="forward_mode", attention=attention, n_relu=n_relu, **more
    )


def data(widths, seed=0, n=20, bias=False):
    draw = torch.Generator().manual_seed(seed)
    X = 2 * torch.rand(n, widths[0], generator=draw, dtype=F64) - 1
    Y = 2 * torch.rand(n, widths[-1], generator=draw, dtype=F64) - 1
    init = [
        (
            (torch.randn(b, a, generator=draw, dtype=F64) / a**0.5).clamp(-1.4, 1.4),
            0.3 * torch.randn(b, generator=draw, dtype=F64) if bias else None,
        )
        for a, b in pairwise(widths)
    ]
    return X, Y, init
