"""The largest curvature of a network's mean loss: L_f, to which error propagation is compared."""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.oracle.network_gd import mean_network_loss
from icgd.oracle.sgd import torch_network
from icgd.problems import NetworkSpec, Weights


def sharpest(
    spec: NetworkSpec, weights: Weights, X: Tensor, Y: Tensor, *, rounds: int = 40
) -> float:
    """|largest eigenvalue| of the Hessian by power iteration with autograd; a lower estimate of it."""
    network = torch_network(
        spec, [(W.double(), None if b is None else b.double()) for W, b in weights]
    )
    parameters = list(network.parameters())
    with torch.enable_grad():
        loss = mean_network_loss(spec, network, X.double(), Y.double())
        grads = torch.autograd.grad(loss, parameters, create_graph=True)
        flat = torch.cat([g.reshape(-1) for g in grads])
        generator = torch.Generator().manual_seed(0)
        v = torch.randn(flat.numel(), generator=generator, dtype=torch.float64)
        size = 0.0
        for _ in range(rounds):
            v = v / v.norm().clamp(min=1e-300)
            product = torch.autograd.grad(
                flat @ v, parameters, retain_graph=True, materialize_grads=True
            )
            v = torch.cat([m.reshape(-1) for m in product])
            size = float(v.norm())
    return size
