"""Exact least-squares algorithms beside a recorded loop: weights, and what tokens should hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from icgd.oracle.least_squares import (
    newton_matrix,
    newton_schulz,
    prefix_gd,
)
from icgd.problems.regression import RepresentationRegression
from icgd.transformer.mask_rules import Step
from icgd.transformer.program import Program
from icgd.transformer.runtime.recording.recorder import RoundNumbers

Slots = Mapping[str, Tensor]
Maker = Callable[[int], tuple[Tensor, Slots]]


class LoopWalk:
    """The exact algorithm of a loop, one step a round."""

    loss_title = "1/2 mean squared residual on all examples, after the loop"

    def __init__(
        self,
        program: Program,
        X: Tensor,
        y: Tensor,
        start: Tensor | None,
        begin: Callable[[Program, Tensor, Tensor, Tensor], Maker],
    ) -> None:
        batch = (0,) * (X.dim() - 2)
        self.X, self.Y = _features(program, X[batch].double()), y[batch].double()
        self.Y = self.Y if self.Y.dim() == 2 else self.Y.unsqueeze(-1)
        self._weights = self.X.new_zeros(self.Y.shape[1], self.X.shape[1])
        if start is not None:
            self._weights = start.double().reshape(self._weights.shape)
        self._make = begin(program, self.X, self.Y, self._weights)
        self._slots: Slots = {}

    def begin_round(self, round_: int) -> None:
        """See Exact."""
        self._weights, self._slots = self._make(round_)

    def block(self, step: Step) -> Slots:
        """See Exact."""
        return self._slots

    def numbers(self, weights: Tensor) -> RoundNumbers:
        """See Exact."""
        exact = self._weights
        ours = weights.double()[(0,) * max(0, weights.dim() - exact.dim())].reshape(exact.shape)
        apart = float((ours - exact).abs().max())
        if exact.dim() == 3:  # one weight vector per prefix: the last one has seen the most
            return RoundNumbers(apart, self._loss(ours[-1]), self._loss(exact[-1]))
        return RoundNumbers(apart, self._loss(ours), self._loss(exact))

    def _loss(self, A: Tensor) -> float:
        return float(0.5 * (self.X @ A.T - self.Y).square().sum(dim=-1).mean())


def _features(program: Program, X: Tensor) -> Tensor:
    problem = program.problem
    return problem.phi(X) if isinstance(problem, RepresentationRegression) else X


def _descent(
    program: Program, X: Tensor, Y: Tensor, start: Tensor, hold: Callable[[Tensor], Slots]
) -> Maker:
    lr, lam = program.optimizer.lr, getattr(program.problem, "lam", 0.0)
    state = {"A": start}

    def make(round_: int) -> tuple[Tensor, Slots]:
        A = state["A"]
        state["A"] = A = A - lr * ((X @ A.T - Y).T @ X / len(X) + lam * A)
        return A, hold(A)

    return make


def descent(program: Program, X: Tensor, y: Tensor, start: Tensor | None) -> LoopWalk:
    """Gradient descent, weights alone."""

    def begin(program: Program, X: Tensor, Y: Tensor, start: Tensor) -> Maker:
        return _descent(program, X, Y, start, lambda A: {})

    return LoopWalk(program, X, y, start, begin)


def residual_descent(program: Program, X: Tensor, y: Tensor, start: Tensor | None) -> LoopWalk:
    """Gradient descent; tokens of examples hold residuals."""

    def begin(program: Program, X: Tensor, Y: Tensor, start: Tensor) -> Maker:
        return _descent(program, X, Y, start, lambda A: {"r": _on_x_tokens(X @ A.T - Y)})

    return LoopWalk(program, X, y, start, begin)


def chain(program: Program, X: Tensor, y: Tensor, start: Tensor | None) -> LoopWalk:
    """Gradient descent; every token of the chain of thought holds weights."""

    def begin(program: Program, X: Tensor, Y: Tensor, start: Tensor) -> Maker:
        return _descent(program, X, Y, start, lambda A: {"w": A})

    return LoopWalk(program, X, y, start, begin)


def newton(program: Program, X: Tensor, y: Tensor, start: Tensor | None) -> LoopWalk:
    """Newton's iteration; tokens of examples hold M_k x."""
    return LoopWalk(program, X, y, start, _newton)


def preconditioned(program: Program, X: Tensor, y: Tensor, start: Tensor | None) -> LoopWalk:
    """Gradient descent with Newton's matrix in front."""
    return LoopWalk(program, X, y, start, _preconditioned)


def prefixes(program: Program, X: Tensor, y: Tensor, start: Tensor | None) -> LoopWalk:
    """One weight vector per prefix, on its x token."""
    return LoopWalk(program, X, y, start, _prefixes)


def exact_path(steps: int) -> Callable[[Program, Tensor, Tensor, Tensor | None], LoopWalk]:
    """The walk of any construction that has an exact algorithm and nothing more."""

    def begin(program: Program, X: Tensor, Y: Tensor, start: Tensor) -> Maker:
        exact = program.construction.apply("exact", program, X, Y, X[:1], steps)
        return lambda round_: (exact.weights[round_ - 1].reshape(start.shape), {})

    return lambda program, X, y, start: LoopWalk(program, X, y, start, begin)


def _newton(program: Program, X: Tensor, Y: Tensor, start: Tensor) -> Maker:
    """Newton's iteration; tokens of examples hold M_k x."""
    path = newton_schulz(X, program.optimizer.alpha)
    next(path)  # M_0

    def make(round_: int) -> tuple[Tensor, Slots]:
        M = next(path)
        return (M @ (X.T @ Y)).T, {"u": _on_x_tokens(X @ M)}

    return make


def _preconditioned(program: Program, X: Tensor, Y: Tensor, start: Tensor) -> Maker:
    """Gradient descent with Newton's matrix in front."""
    o = program.optimizer
    lr, M = o.lr, newton_matrix(X, o.alpha, o.newton_steps)
    state = {"A": start}

    def make(round_: int) -> tuple[Tensor, Slots]:
        A = state["A"]
        state["A"] = A - lr * (M @ (X.T @ (X @ A.T - Y))).T
        return state["A"], {}

    return make


def _prefixes(program: Program, X: Tensor, Y: Tensor, start: Tensor) -> Maker:
    """One weight vector per prefix, on its x token; the first token marks the beginning."""
    lr = program.optimizer.lr

    def make(round_: int) -> tuple[Tensor, Slots]:
        weights = prefix_gd(X, Y, lr, round_)
        if weights.dim() == 2:
            weights = weights.unsqueeze(1)
        unknown = X.new_full((1, X.shape[1]), torch.nan)
        slots = {
            f"w{a + 1}": torch.cat([unknown, _on_x_tokens(weights[:, a])])
            for a in range(weights.shape[1])
        }
        return weights, slots

    return make


def _on_x_tokens(values: Tensor) -> Tensor:
    """One row per token of x_1 y_1 .. x_N y_N; what y tokens hold is not told."""
    rows = values.new_full((2 * len(values), *values.shape[1:]), torch.nan)
    rows[0::2] = values
    return rows
