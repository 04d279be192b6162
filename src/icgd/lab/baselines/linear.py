"""Linear predictors fitted on the prefix: least squares, ridge, lasso, averaging."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import InvalidParameter
from icgd.lab.baselines.prefix import Baseline, Prefix
from icgd.lab.tasks.base import Task
from icgd.lab.tasks.distributions import Gaussian, Vectors
from icgd.problems.regression import positive


@dataclass(frozen=True)
class _Linear(Baseline):
    def predict(self, prefix: Prefix) -> Tensor:
        """W_i^T x_i."""
        return torch.einsum("bnpo,bnp->bno", self.weights(prefix), prefix.xs)

    @abstractmethod
    def weights(self, prefix: Prefix) -> Tensor:
        """(B, n, p, d_y): the weights fitted for every position."""


@dataclass(frozen=True)
class LeastSquares(_Linear):
    """The solution of least norm: w_i = X^+ y over the examples before i.

    >>> from icgd.lab.tasks.batch import Batch
    >>> xs = torch.tensor([[[1.0], [2.0], [3.0]]])
    >>> LeastSquares()(Batch(xs, 2 * xs)).flatten()
    tensor([0., 4., 6.])
    """

    def weights(self, prefix: Prefix) -> Tensor:
        """Pseudoinverses, position by position."""
        solved = [_no_weights(prefix)]
        for i in range(1, prefix.n_positions):
            X, Y = prefix.examples(i)
            solved.append(torch.linalg.pinv(X) @ Y if X.shape[1] else solved[0])
        return torch.stack(solved, 1)


@dataclass(frozen=True)
class Ridge(_Linear):
    """w_i = (X^T X + lam I)^{-1} X^T y; with lam = 0 least squares of least norm.

    lam  for w ~ N(0, tau^2 I) and noise N(0, sigma^2), lam = sigma^2 / tau^2 gives the posterior mean, which
         has the least squared error of all predictors
    """

    lam: float = 0.0

    def __post_init__(self) -> None:
        positive("lam", self.lam, zero=True)

    def weights(self, prefix: Prefix) -> Tensor:
        """The normal equations of all positions at once."""
        if self.lam == 0:
            return LeastSquares().weights(prefix)
        S = prefix.sums(torch.einsum("bnp,bnq->bnpq", prefix.xs, prefix.xs))
        c = prefix.sums(torch.einsum("bnp,bno->bnpo", prefix.xs, prefix.ys))
        return torch.linalg.solve(S + self.lam * torch.eye(S.shape[-1]).to(S), c)


def optimal_ridge(task: Task) -> Ridge:
    """The best predictor for a task with normal weights and normal noise that is linear in `task.features`.

    >>> from icgd.lab.tasks import LinearRegression
    >>> optimal_ridge(LinearRegression(5, noise=Gaussian(std=0.5))).lam
    0.25
    """
    weights, noise = task.weights, task.noise
    if task.name not in LINEAR_TASKS:
        raise InvalidParameter("task", task.name, f"be one of {', '.join(LINEAR_TASKS)}")
    noise = Gaussian(std=0.0) if noise is None else noise
    if not (_centred(weights) and _centred(noise)):
        raise InvalidParameter(
            "task",
            task,
            "have weights N(0, tau^2 I) and noise N(0, sigma^2 I)",
            remedy="Pass Ridge(lam) a penalty of your choice.",
        )
    tau = weights.std * float(getattr(task, "scale", 1.0))
    features = None if task.name in INPUT_TASKS else task.features
    return Ridge(noise.std**2 / tau**2, features=features)


def _centred(distribution: Vectors) -> TypeGuard[Gaussian]:
    """Whether it is N(0, std^2 I)."""
    if not isinstance(distribution, Gaussian):
        return False
    return not (distribution.mean or distribution.decay or distribution.scales)


INPUT_TASKS = ("linear_regression", "noisy_linear_regression")
LINEAR_TASKS = (*INPUT_TASKS, "representation_regression")


@dataclass(frozen=True)
class Lasso(_Linear):
    """argmin_w 1/(2m) |y - X w|^2 + alpha |w|_1 over the m examples before i, by scikit-learn.

    One fit per prompt, position and output: 64 prompts of 41 points in 20 dimensions take about 10 s.
    """

    alpha: float = 0.01
    max_iter: int = 100_000
    tol: float = 1e-4

    def __post_init__(self) -> None:
        positive("alpha", self.alpha)
        positive("tol", self.tol)
        whole_number("max_iter", self.max_iter)

    def weights(self, prefix: Prefix) -> Tensor:
        """Coordinate descent, each position starting from the one before."""
        from sklearn import linear_model

        fitted = _no_weights(prefix).unsqueeze(1).repeat(1, prefix.n_positions, 1, 1)
        n_outputs = prefix.ys.shape[2]
        for b in range(len(prefix.xs)):
            model = linear_model.Lasso(
                alpha=self.alpha,
                fit_intercept=False,
                max_iter=self.max_iter,
                tol=self.tol,
                warm_start=n_outputs == 1,
            )
            for i in range(1, prefix.n_positions):
                chosen = prefix.usable[i]
                X, Y = (
                    prefix.xs[b, chosen].detach().cpu().numpy(),
                    prefix.ys[b, chosen].detach().cpu(),
                )
                if not len(X):
                    continue
                for o in range(n_outputs):
                    fit = model.fit(X, Y[:, o].numpy())
                    fitted[b, i, :, o] = torch.from_numpy(fit.coef_.copy())
        return fitted


@dataclass(frozen=True)
class Averaging(_Linear):
    """w_i = 1/m sum y_j x_j over the m examples before i: one step of gradient descent from 0."""

    def weights(self, prefix: Prefix) -> Tensor:
        """Means of products."""
        products = prefix.sums(torch.einsum("bnp,bno->bnpo", prefix.xs, prefix.ys))
        return products / prefix.counts()[None, :, None, None]


def _no_weights(prefix: Prefix) -> Tensor:
    n_prompts, _, n_features = prefix.xs.shape
    return prefix.xs.new_zeros(n_prompts, n_features, prefix.ys.shape[2])
