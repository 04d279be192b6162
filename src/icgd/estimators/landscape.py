"""How far weights can be from the minimiser, proved from numbers at those weights alone.

Nothing here looks at the way the weights were found, so the bound holds whatever the transformer did.
Symbols, at weights w with the exact next step v = prox(w - lr grad f(w)):
    G      |w - v| / lr, the size of the gradient (mapping); 0 at the minimiser w* only
    alpha  smallest, beta largest eigenvalue of the Hessian of f at w, on a subspace that holds w - w*
    R      largest |[x_i; 1]|
Squares, l2    the Hessian is constant:  |w - w*| <= G / alpha.
Lasso          v has a subgradient of size <= G (lr <= 2/beta), so |v - w*| <= G / alpha and
               |w - w*| <= G / alpha + lr G, alpha on the features that can be non-zero at w*.
Logistic, log  the Hessian changes with w, but |l'''| <= l'': along a segment of length t it shrinks at
               most by exp(-R t). The slope of f in any direction u from w is therefore at least
               -G + alpha (1 - exp(-R t)) / R after t, and 0 at w*, so that
               |w - w*| <= -log(1 - R G / alpha) / R     if R G < alpha; else nothing is known yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.problems import LinearModel

UNIT = 2.0**-53
GROWTH = {"squared": 0.0, "logistic": 1.0, "poisson": 1.0}
"""Bound on |l'''| / l'' of a loss."""

SMALL = 1e-6
"""Share of rms(y) below which a tolerance is taken to be in the units of y."""


@dataclass(frozen=True)
class Standing:
    """Where weights stand.

    distance   bound on |w - w*|, infinite where nothing can be proved
    move       length of the exact next step
    rounding   bound on the rounding in `move`; below it steps mean nothing
    alpha      smallest curvature, 0 if there is no telling it from 0
    beta       largest curvature
    objective  F(w)
    """

    distance: float
    move: float
    rounding: float
    alpha: float
    beta: float
    objective: float

    @property
    def stalled(self) -> bool:
        """Whether steps are so small that rounding decides them: more of them help no further."""
        return self.move <= self.rounding

    @property
    def kappa(self) -> float:
        """The condition number here."""
        return max(1.0, self.beta / self.alpha) if self.alpha > 0 else math.inf


class Landscape:
    """The objective of one problem on its data, seen from any weights."""

    def __init__(self, problem: LinearModel, X: Tensor, y: Tensor) -> None:
        self.problem, self.X, self.y = problem, X, y
        spec = problem.spec
        self.rows = torch.cat([X, X.new_ones(len(X), 1)], dim=1) if spec.intercept else X
        self.reach = float(self.rows.norm(dim=1).max())
        self.basis, self.dropped = (None, False) if spec.lam else _row_space(self.rows)
        self.growth = GROWTH[spec.loss.name]
        self._sparse = bool(spec.penalty == "l1" and spec.lam)

    @property
    def collinear(self) -> bool:
        """Whether features are linearly dependent with no penalty to choose between them.

        Gradient descent from 0 never leaves the span of the examples, so it finds the minimiser of
        least norm, and within that span the bound still holds. If directions were `dropped` from it for
        being as small as rounding, the data may not be dependent at all, and nothing is proved.
        """
        return self.basis is not None and len(self.basis) < self.rows.shape[1]

    def standing(self, w: Tensor, lr: float, rounding: float = 0.0) -> Standing:
        """What can be said about weights w; `rounding` bounds the error of computing a step."""
        problem = self.problem
        following = problem.prox(w - lr * problem.gradient(w, self.X, self.y), lr)
        move = float((w - following).norm())
        alpha = self._alpha(w, following)
        G = (move + rounding) / lr
        return Standing(
            self._reached(G, alpha) + (lr * G if self._sparse else 0.0), move, rounding, alpha,
            self.beta(w), float(problem.objective(w, self.X, self.y)),
        )  # fmt: skip

    def needed(self, tol: float) -> float:
        """The distance at which weights count as converged: tol, or less for predictions to settle.

        A distance t moves predictions by at most t * largest singular value / sqrt(n) (root mean
        square). That must be within tol of their size: of rms(y) for squares, of 1 for the scores of the
        others. A tol below SMALL * rms(y) can only have been meant in the units of small targets.
        """
        n = len(self.rows)
        spread = (
            float(torch.linalg.svdvals(self.rows)[0]) / math.sqrt(n) if self.rows.numel() else 0.0
        )
        size = 1.0 if self.growth else float(self.y.norm()) / math.sqrt(n)
        allowed = max(tol * size, min(tol, SMALL * size))
        # Targets that are all 0 are met by weights 0: nothing has to settle.
        return min(tol, allowed / spread) if spread > 0 and size > 0 else tol

    def beta(self, w: Tensor) -> float:
        """The largest curvature at w."""
        hessian = self._hessian(w)
        return float(torch.linalg.eigvalsh(hessian)[-1]) if len(hessian) else 0.0

    def _reached(self, G: float, alpha: float) -> float:
        if alpha == 0:
            return math.inf
        R = self.growth * self.reach
        z = R * G / alpha
        if z == 0:
            return G / alpha
        return -math.log1p(-z) / R if z < 1 else math.inf

    def _bend(self, w: Tensor) -> Tensor:
        """l'' of every example."""
        scores = self.problem.scores(w, self.X)
        with torch.enable_grad():
            point = scores.detach().requires_grad_(True)
            slope = self.problem.spec.loss.slope_of(point, self.y)
            (bend,) = torch.autograd.grad(slope.sum(), point)
        return bend

    def _hessian(self, w: Tensor) -> Tensor:
        spec = self.problem.spec
        hessian = self.rows.T @ (self._bend(w).unsqueeze(1) * self.rows) / len(self.rows)
        if spec.penalty == "l2":
            hessian.diagonal()[: spec.n_features].add_(spec.lam)
        if not bool(hessian.isfinite().all()):
            raise AssumptionViolated(
                f"The curvature of the {spec.loss.name} loss overflows on these data (largest |x| = "
                f"{self.reach:.3g}). Standardise the features."
            )
        return hessian

    def _alpha(self, w: Tensor, following: Tensor) -> float:
        root = self._root(w)
        if self._sparse:
            root = root[:, self._can_be_nonzero(w) | (w != 0) | (following != 0)]
        elif self.basis is not None:
            root = root @ self.basis.T
        return _least(root) ** 2 if root.shape[1] else math.inf

    def _root(self, w: Tensor) -> Tensor:
        """A with A^T A at most the Hessian.

        Rounding moves eigenvalues of the Hessian by UNIT times the largest, and so may raise a small one
        many times over. Singular values of A move by UNIT times the largest of A, and their squares
        are what is wanted.
        """
        spec, bend = self.problem.spec, self._bend(w)
        if self.growth:
            # l'' as computed may be too large, from rounding in the scores and in g (1 - g).
            scores = self.problem.scores(w, self.X)
            off = 2 * self.rows.shape[1] * UNIT * (self.rows.abs() @ w.abs())
            bend = bend * torch.exp(-self.growth * off) - 8 * UNIT * spec.loss.slope(scores).abs()
        root = (bend.clamp(min=0) / len(self.rows)).sqrt().unsqueeze(1) * self.rows
        if spec.penalty == "l2" and spec.lam:
            d = spec.n_features
            root = torch.cat([root, math.sqrt(spec.lam) * torch.eye(d, root.shape[1]).to(root)])
        return root

    def _can_be_nonzero(self, w: Tensor) -> Tensor:
        """Features that may be non-zero at the lasso's minimiser, by the duality gap.

        The optimal dual point lies within sqrt(2 gap) / (n lam) of theta, a scaled residual; where
        |x_j.theta| stays below 1 on that whole ball, w*_j = 0.
        """
        X, y, n = self.X, self.y, len(self.y)
        cut = n * self.problem.spec.lam
        residual = y - X @ w
        scale = max(cut, float((X.T @ residual).abs().max()))
        theta = residual / scale
        primal = 0.5 * residual.square().sum() + cut * w.abs().sum()
        dual = 0.5 * y.square().sum() - 0.5 * (cut * theta - y).square().sum()
        slack = 8 * n * UNIT * y.square().sum()
        radius = torch.sqrt(2 * ((primal - dual).clamp(min=0) + slack)) / cut
        return (X.T @ theta).abs() + X.norm(dim=0) * radius >= 1


def _row_space(rows: Tensor) -> tuple[Tensor | None, bool]:
    """An orthonormal basis of the span of the rows, None for all of space; whether any was dropped.

    The rank is that of columns of length 1: a feature in small units is not a dependent one.
    """
    used = (rows != 0).any(dim=0)
    sizes = torch.linalg.svdvals(_unit(rows[:, used]))
    rank = int((sizes > max(rows.shape) * 2 * UNIT * sizes[0]).sum()) if len(sizes) else 0
    if rank == rows.shape[1]:
        return None, False
    return torch.linalg.svd(rows, full_matrices=False).Vh[:rank], rank < len(sizes)


def _unit(matrix: Tensor) -> Tensor:
    return matrix / _lengths(matrix)


def _lengths(matrix: Tensor) -> Tensor:
    """Of the columns, 1 for those that are 0."""
    # Twice, as the squares of a tiny column underflow.
    top = matrix.abs().amax(dim=0)
    top = torch.where(top > 0, top, torch.ones_like(top))
    return top * (matrix / top).norm(dim=0).clamp(min=1)


def _least(root: Tensor) -> float:
    """The smallest singular value, less what rounding can have added to it.

    With more columns than rows it is the smallest on the span of the rows.
    """
    slack = (max(root.shape) + 8 * root.shape[1]) * UNIT
    values = torch.linalg.svdvals(root)
    least = float(values[-1] - slack * values[0])
    if root.shape[1] <= root.shape[0]:
        # |A v| >= least(A / lengths) * min(lengths) |v| is better where features differ in units.
        lengths = _lengths(root)
        values = torch.linalg.svdvals(root / lengths)
        least = max(least, float((values[-1] - slack * values[0]) * lengths.min()))
    return max(0.0, least)
