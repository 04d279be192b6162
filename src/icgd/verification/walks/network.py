"""Exact network training beside a recorded run: autograd's activations, error signals and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from icgd.oracle.network_gd import mean_network_loss, network_gd_steps
from icgd.oracle.sgd import network_weights, torch_network
from icgd.problems import NetworkSpec, Weights
from icgd.transformer.mask_rules import Step
from icgd.transformer.program import Program
from icgd.transformer.runtime.recording.recorder import RoundNumbers

MOST_ROWS = 1000
"""Rows on which losses are taken: enough for a curve, whatever the data."""


def loss_title(n_rows: int) -> str:
    """What the loss of a curve is."""
    rows = "all rows" if n_rows <= MOST_ROWS else f"the first {MOST_ROWS:,} rows"
    return f"mean loss on {rows}, after the round"


def weights_apart(ours: Weights, theirs: Weights) -> float:
    """The largest difference of two sets of weights; the first problem of ours where there are many."""
    largest = 0.0
    for mine, exact in zip(ours, theirs, strict=True):
        for a, b in zip(mine, exact, strict=True):
            if a is not None and b is not None:
                a = a[(0,) * (a.dim() - b.dim())]
                apart = float((a.double() - b.double()).abs().max())
                largest = max(largest, apart) if apart == apart else math.inf
    return largest


def _first(weights: Weights, like: Weights) -> Weights:
    return [
        (
            W[(0,) * (W.dim() - V.dim())],
            None if b is None or c is None else b[(0,) * (b.dim() - c.dim())],
        )
        for (W, b), (V, c) in zip(weights, like, strict=True)
    ]


class SgdWalk:
    """torch.optim.SGD, one row a round, with everything a block of the chain of thought holds."""

    def __init__(self, program: Program, X: Tensor, Y: Tensor, init: Weights) -> None:
        self.spec = program.problem.spec
        self.X, self.Y = X, Y
        self.loss_title = loss_title(len(X))
        self._network = torch_network(self.spec, init)
        lr = program.optimizer.lr
        self._optimizer = torch.optim.SGD(self._network.parameters(), lr=lr)
        self._forward: list[dict[str, Tensor]] = []
        self._backward: list[dict[str, Tensor]] = []

    def begin_round(self, round_: int) -> None:
        """One step on the row of this round, keeping what autograd passes through."""
        row = (round_ - 1) % len(self.X)
        before = network_weights(self._network)
        inputs, sums, outputs = list[Tensor](), list[Tensor](), list[Tensor]()
        with torch.enable_grad():
            value = self.X[row].detach().clone().requires_grad_(True)
            for module in self._network:
                if isinstance(module, nn.Linear):
                    inputs.append(value)
                    outputs.append(value)
                value = module(value)
                value.retain_grad()
                if isinstance(module, nn.Linear):
                    sums.append(value)
            outputs = [*outputs[1:], value]
            self._optimizer.zero_grad()
            (0.5 * (value - self.Y[row]).square().sum()).backward()
            self._optimizer.step()
        after = network_weights(self._network)
        self._forward = [
            _slots(out=o.detach(), inp=i.detach(), weight=W, bias=b)
            for o, i, (W, b) in zip(outputs, inputs, before, strict=True)
        ]
        self._backward = [
            _slots(out=z.grad, inp=i.grad, weight=W, bias=b)
            for z, i, (W, b) in zip(sums, inputs, after, strict=True)
        ]

    def block(self, step: Step) -> Mapping[str, Tensor]:
        """See Exact."""
        kind, layer = step.writes
        return {"F": self._forward, "B": self._backward}[kind][layer - 1]

    def numbers(self, weights: Weights) -> RoundNumbers:
        """See Exact."""
        exact = network_weights(self._network)
        return _numbers(self.spec, _first(weights, exact), exact, self.X, self.Y)


class DescentWalk:
    """Gradient descent on all rows: one step a round."""

    def __init__(self, program: Program, X: Tensor, Y: Tensor, init: Weights) -> None:
        self.spec = program.problem.spec
        self.X, self.Y = X, Y
        self.loss_title = loss_title(len(X))
        gd = program.optimizer
        self._path = network_gd_steps(self.spec, init, X, Y, gd.lr, gd.box)
        self._weights = init

    def begin_round(self, round_: int) -> None:
        """See Exact."""
        self._weights = next(self._path)

    def block(self, step: Step) -> Mapping[str, Tensor]:
        """See Exact: the weights, which all tokens hold."""
        named = {f"weight{i}": W for i, (W, _) in enumerate(self._weights, 1)}
        biases = {f"bias{i}": b for i, (_, b) in enumerate(self._weights, 1) if b is not None}
        return {**named, **biases}

    def numbers(self, weights: Weights) -> RoundNumbers:
        """See Exact."""
        return _numbers(self.spec, _first(weights, self._weights), self._weights, self.X, self.Y)


def _slots(**values: Any) -> dict[str, Tensor]:
    return {name: value for name, value in values.items() if value is not None}


def _numbers(
    spec: NetworkSpec, ours: Weights, exact: Weights, X: Tensor, Y: Tensor
) -> RoundNumbers:
    rows, targets = X[:MOST_ROWS], Y[:MOST_ROWS]
    with torch.no_grad():
        losses = [
            float(mean_network_loss(spec, torch_network(spec, weights), rows, targets))
            for weights in (ours, exact)
        ]
    return RoundNumbers(weights_apart(ours, exact), *losses)
