"""Series and chains with everything about them computed by plain loops, for tests of looped constructions."""

from __future__ import annotations

from itertools import pairwise

import torch

import icgd

F64 = torch.float64
SLOPE = 0.1


class SeriesCase:
    """A noisy series, and everything about it computed by plain loops."""

    def __init__(self, d, q, n_steps, hidden, seed=0, batch=None):
        g = torch.Generator().manual_seed(seed)
        widths = [q * d, *hidden]
        self.layers = []
        for a, b in pairwise(widths):
            W = torch.randn(b, a, generator=g, dtype=F64) * (2 / a) ** 0.5
            self.layers.append((W, 0.3 * torch.randn(b, generator=g, dtype=F64)))
        self.d, self.q, self.n_steps = d, q, n_steps
        A = torch.randn(d, widths[-1], generator=g, dtype=F64)
        A = 0.5 * A / torch.linalg.matrix_norm(A, 2)
        many = []
        for _ in range(batch or 1):
            x = [torch.randn(d, generator=g, dtype=F64) for _ in range(q)]
            while len(x) < n_steps + 1:
                x.append(A @ self.phi(torch.cat(x[-q:])) + torch.randn(d, generator=g, dtype=F64))
            many.append(torch.stack(x[: n_steps + 1]))
        self.x = torch.stack(many) if batch else many[0]

    def phi(self, window):
        for W, b in self.layers:
            z = W @ window + b
            window = torch.where(z >= 0, z, SLOPE * z)
        return window

    def pairs(self, x=None):
        """Representations, successors, and the representation that asks."""
        x = self.x if x is None else x
        f = [
            self.phi(torch.cat(list(x[t - self.q + 1 : t + 1]))) for t in range(self.q - 1, len(x))
        ]
        return torch.stack(f[:-1]), x[self.q :], f[-1]

    def problem(self, **more):
        series = self.x if self.x.dim() == 3 else self.x[None]
        sizes = [float(f.norm(dim=-1).max()) for x in series for f in self.pairs(x)[::2]]
        radius = {"x_radius": 1.01 * max(sizes), **more}
        return icgd.Autoregression(self.d, self.q, self.n_steps, self.layers, **radius)

    def lr(self, factor=1.0):
        series = self.x if self.x.dim() == 3 else self.x[None]
        sharpest = []
        for x in series:
            f = self.pairs(x)[0]
            sharpest.append(float(torch.linalg.eigvalsh(f @ f.T)[-1]) / len(f))
        return factor / max(sharpest)

    def compiled(self, mode="spectral", factor=1.0, **options):
        return icgd.compile(self.problem(), icgd.GD(self.lr(factor)), mode=mode, **options)


def descend(f, y, lr, steps):
    A = torch.zeros(y.shape[1], f.shape[1], dtype=F64)
    for _ in range(steps):
        A = A - lr * (A @ f.T - y.T) @ f / len(f)
    return A


def off(left, right):
    return float((left - right).abs().max())


def leaky(z, slope=SLOPE):
    return torch.where(z >= 0, z, slope * z)


class ChainCase:
    """Chains of one network and another chain to continue."""

    def __init__(self, d, n_layers, n_chains, seed=0, *, slope=SLOPE, batch=None):
        g = torch.Generator().manual_seed(seed)
        self.d, self.n_layers, self.n_chains, self.slope = d, n_layers, n_chains, slope
        many = []
        for _ in range(batch or 1):
            W = torch.randn(n_layers, d, d, generator=g, dtype=F64) * (2 / d) ** 0.5
            states = [torch.randn(n_chains + 1, d, generator=g, dtype=F64)]
            for layer in W:
                states.append(leaky(states[-1] @ layer.T, slope))
            many.append(torch.stack(states, dim=1))
        made = torch.stack(many) if batch else many[0]
        self.chains, self.test = made[..., :-1, :, :], made[..., -1, :, :]
        self.radius = 1.01 * float(made.norm(dim=-1).max())

    def start(self, phase):
        """s^0 .. s^l of the chain to continue."""
        return self.test[..., : phase + 1, :]

    def pairs(self, phase, chains=None):
        """States of a phase and what the activation was applied to after them."""
        chains = self.chains if chains is None else chains
        return chains[:, phase], leaky(chains[:, phase + 1], 1 / self.slope)

    def lr(self, phase, factor=1.0):
        many = self.chains if self.chains.dim() == 4 else self.chains[None]
        sharpest = [float(torch.linalg.eigvalsh(h.T @ h)[-1]) / len(h) for h in many[:, :, phase]]
        return factor / max(sharpest)

    def compiled(self, phase, mode="spectral", factor=1.0, **options):
        problem = icgd.MLPChain(
            self.d, self.n_layers, self.n_chains, self.slope, x_radius=self.radius
        )
        return icgd.compile(problem, icgd.GD(self.lr(phase, factor)), mode=mode, **options)

    def exact(self, phase, lr, steps):
        """The next state after so many steps of gradient descent."""
        A = descend(*self.pairs(phase), lr, steps)
        return leaky(A @ self.test[phase], self.slope)
