"""Problems for stacks, and their oracle: a plain torch network, its loss, autograd, a clamp for the box."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch.nn import functional

import icgd

F64 = torch.float64
ACTS = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": functional.softplus,
    "gelu": functional.gelu,
    "relu": torch.relu,
    "linear": lambda z: z,
}
SMOOTH = ("tanh", "sigmoid", "softplus", "gelu")


def half_square(o, y):
    return 0.5 * (o - y) ** 2


def oracle(network, init, X, Y, lr, steps, box=None, loss=half_square):
    """Gradient descent on the mean loss by autograd; the list of weights after every step."""
    hidden, last = ACTS[network.spec.activation], ACTS[network.spec.output]
    weights = [[p.clone() for p in pair if p is not None] for pair in init]
    path = []
    for _ in range(steps):
        leaves = [[p.detach().requires_grad_(True) for p in pair] for pair in weights]
        o = X
        for j, pair in enumerate(leaves):
            z = o @ pair[0].T + (pair[1] if len(pair) == 2 else 0)
            o = (last if j == len(leaves) - 1 else hidden)(z)
        loss(o, Y).sum(dim=-1).mean().backward()
        weights = [[(p - lr * p.grad).detach() for p in pair] for pair in leaves]
        if box is not None:
            weights = [[p.clamp(-box, box) for p in pair] for pair in weights]
        path.append(weights)
    return path


def problem(widths, seed=0, n=20, bias=False, box=1.5, scale=0.45):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, widths[0], generator=g, dtype=F64).clamp(-1.5, 1.5)
    Y = 0.5 * torch.tanh(torch.randn(n, widths[-1], generator=g, dtype=F64))
    init = []
    for a, b in pairwise(widths):
        W = scale * torch.randn(b, a, generator=g, dtype=F64)
        vector = 0.2 * torch.randn(b, generator=g, dtype=F64) if bias else None
        init.append((W.clamp(-box, box), vector))
    return X, Y, init


def off(weights, exact):
    pairs = zip(weights, exact, strict=True)
    return max(
        float((a.to(F64) - b).abs().max())
        for pair, other in pairs
        for a, b in zip([p for p in pair if p is not None], other, strict=True)
    )


def errors(network, lr, box, steps, seed=0, dtype=F64, **options):
    """|w - w_GD| after every step of a fresh run."""
    return errors_and_run(network, lr, box, steps, seed, dtype, **options)[0]


def errors_and_run(network, lr, box, steps, seed=0, dtype=F64, **options):
    scale = 0.3 if network.spec.activation == "softplus" else 0.45
    X, Y, init = problem(network.widths, seed, box=box, scale=scale)
    program = compiled(network, lr, box, dtype=dtype, **options)
    cast = [(W.to(dtype), None) for W, _ in init]
    run = program.run(X.to(dtype), Y.to(dtype), init=cast, steps=steps, record="weights")
    exact = oracle(network, init, X, Y, lr, steps, box)
    return [off(w, e) for w, e in zip(run.history, exact, strict=True)], run


def compiled(network, lr, box, **options):
    chosen = {"radius": 5.0, "knots": "uniform", **options}
    return icgd.compile(network, icgd.GD(lr, box=box), method="stack", **chosen)


def activated(widths, act):
    return icgd.Network(widths, act, output=act, bias=False)
