"""A softmax block that makes a gradient step without a table: four layers, error in the largest norm.

    FF1        every example writes its own gradient g(x_i, y_i, w) into a spare coordinate
    attention  all scores 0: the mean over tokens, times -lr (n+1)/n, is added to w
    FF2        clears the spare coordinate
    MLP        projects w onto a box
The gradient of an empirical risk is a mean of functions of one token each. Nothing else of a context is
needed, so the first layer may be any feed-forward fit of g, and its error is the error of the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.attention import attention
from icgd.transformer.nn.feedforward import DenseFeedForward

F64 = torch.float64
PointGradient = Callable[[Tensor, Tensor, Tensor], Tensor]
"""d/dw of the loss of one example (x, y) at the weight w, entry by entry."""

TOKEN = Layout([Slot("x", ()), Slot("y", ()), Slot("w", ()), Slot("t", ()), Slot("grad", ())])
INPUTS = ("x", "y", "w")
SHRINK = 1e-5
"""Weight of the squares of the coefficients in the fit: keeps them below 1 or so."""
NODES = 15
PROBES = 33
CLOSED = 2.0
"""A unit is at most |a|_1 + |b| <= 2 on the cube; minus this for t = 0, it is off."""


def tanh_gradient(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """Of 1/2 (tanh(w x) - y)^2."""
    guess = torch.tanh(w * x)
    return (guess - y) * x * (1 - guess.square())


def ridge_units(n_knots: int) -> tuple[Tensor, Tensor]:
    """relu(a . z + b): n_knots bends along each of 3 n_knots directions spread over half a sphere.

    |a|_1 = 1, so that |a . z| <= 1 on the cube; the first unit is the constant 1.
    """
    if not (isinstance(n_knots, int) and n_knots >= 1):
        raise InvalidParameter("n_knots", n_knots, "be an integer >= 1")
    n_directions = 3 * n_knots
    turn = torch.arange(n_directions, dtype=F64) + 0.5
    height, angle = turn / n_directions, math.pi * (1 + math.sqrt(5)) * turn
    flat = (1 - height.square()).sqrt()
    a = torch.stack([flat * angle.cos(), flat * angle.sin(), height], dim=1)
    a = a / a.abs().sum(1, keepdim=True)
    b = 1 - 2 * torch.arange(n_knots, dtype=F64) / n_knots
    return (
        torch.cat([a.new_zeros(1, 3), a.repeat_interleave(n_knots, dim=0)]),
        torch.cat([b.new_ones(1), b.repeat(n_directions)]),
    )


class MeanGradientBlock:
    """Gradient descent on a scalar weight, by FF, one softmax head, FF and an MLP.

    Statement: [DEEP] Theorem 6
    Statement: [DEEP] Theorem 3

    w <- Proj(w - lr (1/n) sum_i g(x_i, y_i, w) + e),   |e| <= lr sup |fit - g|.

    gradient   g, of one example             n_examples  n, which the weight of the mean needs
    n_knots    3 n_knots^2 + 1 units in FF1  radius      of the box: all numbers within [-1, 1]

    `fit_error` is the largest miss on a grid of the cube: no proof between its points.

    Differs from the paper: no contextual mapping and no table; one scalar weight (any number of weights need
    as many spare coordinates and values of that rank); mean over examples of the given loss.

    >>> block = MeanGradientBlock(tanh_gradient, 2, lr=0.5, n_knots=4)
    >>> block.n_layers, block.n_units
    (4, 49)
    """

    n_layers = 4

    def __init__(
        self, gradient: PointGradient, n_examples: int, *, lr: float, n_knots: int = 8
    ) -> None:
        if not (isinstance(n_examples, int) and n_examples >= 1):
            raise InvalidParameter("n_examples", n_examples, "be an integer >= 1")
        if not (math.isfinite(lr) and lr > 0):
            raise InvalidParameter("lr", lr, "be a finite number > 0")
        self.n_examples, self.lr = n_examples, lr
        a, b = ridge_units(n_knots)
        self.n_units = len(b)
        nodes = torch.cos(math.pi * torch.arange(NODES, dtype=F64) / (NODES - 1))
        at = torch.cartesian_prod(nodes, nodes, nodes)
        hidden = torch.relu(at @ a.T + b)
        square = hidden.T @ hidden + SHRINK * torch.eye(len(b), dtype=F64)
        c = torch.linalg.solve(square, hidden.T @ gradient(*at.unbind(-1)))
        probes = torch.cartesian_prod(*[torch.linspace(-1, 1, PROBES, dtype=F64)] * 3)
        miss = torch.relu(probes @ a.T + b) @ c - gradient(*probes.unbind(-1))
        self.fit_error = float(miss.abs().max())
        self.layers = (self._examples(a, b, c), self._clear(), self._project())

    def _examples(self, a: Tensor, b: Tensor, c: Tensor) -> DenseFeedForward:
        """FF1: c . relu(a . [x; y; w] + b - 2 (1 - t)) into the spare coordinate."""
        W_in = torch.zeros(TOKEN.width, len(b), dtype=F64)
        for row, name in enumerate(INPUTS):
            W_in[_column(name)] = a[:, row]
        W_in[_column("t")] = CLOSED
        W_out = torch.zeros(len(b), TOKEN.width, dtype=F64)
        W_out[:, _column("grad")] = c
        return _adding(W_in, b - CLOSED, W_out)

    def _clear(self) -> DenseFeedForward:
        """FF2: takes back what stands in the spare coordinate, exactly."""
        W_in = torch.zeros(TOKEN.width, 2, dtype=F64)
        W_in[_column("grad")] = torch.tensor([1.0, -1.0], dtype=F64)
        return _adding(W_in, torch.zeros(2, dtype=F64), -W_in.T)

    def _project(self) -> DenseFeedForward:
        """MLP: w - relu(w - 1) + relu(-w - 1)."""
        W_in = torch.zeros(TOKEN.width, 2, dtype=F64)
        W_in[_column("w")] = torch.tensor([1.0, -1.0], dtype=F64)
        return _adding(W_in, -torch.ones(2, dtype=F64), -W_in.T)

    def attend(self, tokens: Tensor) -> Tensor:
        """w += -lr (n+1)/n * the mean of the spare coordinate."""
        blind = tokens[..., :1] * 0
        mean = attention(blind, blind, tokens[..., _column("grad"), None]).squeeze(-1)
        after = tokens.clone()
        after[..., _column("w")] -= self.lr * (self.n_examples + 1) / self.n_examples * mean
        return after

    def tokens(self, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        """Prompts from x (batch, n+1), the test input last, y (batch, n) and w (batch,)."""
        n = self.n_examples
        if x.shape[-1] != n + 1 or y.shape[-1] != n:
            must = f"be n+1 = {n + 1} inputs and n = {n} targets"
            raise InvalidParameter("x, y", (tuple(x.shape), tuple(y.shape)), must)
        for name, value in (("x", x), ("y", y), ("w", w)):
            size = float(value.abs().max())
            if not size <= 1:
                raise AssumptionViolated(
                    f"`{name}` must lie in [-1, 1], where the gradient was fitted. Got {size:g} in size. "
                    "Scale the data."
                )
        tokens = x.new_zeros(*x.shape, TOKEN.width)
        tokens[..., _column("x")] = x
        tokens[..., :n, _column("y")] = y
        tokens[..., _column("w")] = w.unsqueeze(-1)
        tokens[..., :n, _column("t")] = 1.0
        return tokens

    def __call__(self, tokens: Tensor) -> Tensor:
        """One step: four layers."""
        examples, clear, project = self.layers
        return project(clear(self.attend(examples(tokens))))

    def run(self, tokens: Tensor, steps: int) -> list[Tensor]:
        """The weights that token 1 holds after 1, 2, ..., `steps` steps."""
        path = []
        for _ in range(steps):
            tokens = self(tokens)
            path.append(tokens[..., 0, _column("w")])
        return path


def _column(name: str) -> int:
    return TOKEN.slice(name).start


def _adding(W_in: Tensor, b_in: Tensor, W_out: Tensor) -> DenseFeedForward:
    d = TOKEN.width
    return DenseFeedForward(W_in, b_in, W_out, b_in.new_zeros(d), torch.eye(d, dtype=F64))
