"""Exact (proximal) gradient descent on a linear model beside a recorded run."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from icgd.oracle.gd import gd_steps
from icgd.problems import LinearModel
from icgd.transformer.mask_rules import Step
from icgd.transformer.program import Program
from icgd.transformer.runtime.recording.recorder import RoundNumbers


class LinearModelWalk:
    """torch.optim.SGD on all rows and the proximal map, one step a round."""

    loss_title = "objective on all rows, after the step"

    def __init__(self, program: Program, X: Tensor, y: Tensor, init: Tensor) -> None:
        self.problem: LinearModel = program.problem
        self.X, self.y = X, y
        self._w = init
        self._path = gd_steps(self.problem, init, X, y, program.optimizer.lr)

    def begin_round(self, round_: int) -> None:
        """See Exact."""
        self._w = next(self._path)

    def block(self, step: Step) -> Mapping[str, Tensor]:
        """See Exact: w, and the intercept apart from it."""
        d = self.problem.spec.n_features
        bias = {"bias": self._w[d]} if self.problem.spec.intercept else {}
        return {"weight": self._w[:d], **bias}

    def numbers(self, weights: Tensor) -> RoundNumbers:
        """See Exact."""
        ours = weights[(0,) * (weights.dim() - self._w.dim())]
        losses = [float(self.problem.objective(w, self.X, self.y)) for w in (ours, self._w)]
        return RoundNumbers(float((ours - self._w).abs().max()), *losses)
