"""How far weights can be from the minimiser, proved from numbers at those weights alone.

Nothing here looks at the way the weights were found, so the bounds hold whatever the transformer did.
Symbols, at weights w with the exact next step v = prox(w - lr grad f(w)):
    G      |w - v| / lr, the size of the gradient (mapping); 0 at a minimiser only
    alpha  smallest curvature of f at w over ALL directions of a subspace that holds w - w*; 0 if none
           is certified, and then there is no bound on the distance
    beta   largest curvature
    R      largest |[x_i; 1]|
Squares, l2    the Hessian is constant:  |w - w*| <= G / alpha.
Lasso          v has a subgradient of size <= c G, c = max(1, lr beta - 1), so |v - w*| <= c G / alpha and
               |w - w*| <= c G / alpha + lr G. The subspace is that of the features which are non-zero in w
               or v or can be in w* (duality.py): proximal steps leave the span of the examples, so that
               span is of no use here. More such features than examples: alpha = 0.
Logistic, log  the Hessian changes with w, but |l'''| <= l'': along a segment of length t it shrinks at
               most by exp(-R t). The slope of f in any direction u from w is therefore at least
               -G + alpha (1 - exp(-R t)) / R after t, and 0 at w*, so that
               |w - w*| <= -log(1 - R G / alpha) / R     if R G < alpha; else nothing is known yet.
No penalty     With independent features w* is the only minimiser. With independent examples, fewer than
               features, it is the minimiser of least norm: f depends on the part P w of w in the span of the
               examples only, where alpha is that of the span; |w - P w| is added. Else nothing is proved.
The objective is within G |w - w*| of its minimum (f is convex), the lasso's within its duality gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.estimators.duality import DualityGap, duality_gap
from icgd.estimators.safe_numbers import (
    SMALLEST_NORMAL,
    TINY,
    UNIT,
    certified_square,
    column_lengths,
    least_singular_value,
    length,
)
from icgd.problems import LinearModel
from icgd.problems.rank import visible_rank

GROWTH = {"squared": 0.0, "logistic": 1.0, "poisson": 1.0}
"""Bound on |l'''| / l'' of a loss."""

SMALL = 1e-6
"""Share of rms(y) below which a tolerance is taken to be in the units of y."""


@dataclass(frozen=True)
class Standing:
    """Where weights stand.

    distance   bound on |w - w*|, infinite where nothing can be proved
    visible    the same in the directions that rounding leaves visible: equal to `distance` unless
               unpenalised features are dependent to machine precision
    gap        bound on F(w) - F(w*), infinite where nothing can be proved
    fit        bound on the root mean square of X w - X w* by the duality gap; infinite but for the lasso
    move       length of the exact next step
    rounding   bound on the rounding in `move`; below it steps mean nothing
    alpha      smallest curvature, 0 if none is certified
    beta       largest curvature
    objective  F(w)
    """

    distance: float
    visible: float
    gap: float
    fit: float
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
        if spec.penalty == "l1" and spec.intercept:
            raise InvalidParameter(
                "problem",
                problem,
                "have no intercept for a duality gap",
                remedy="Centre X and y instead: the minimiser is the same.",
            )
        self.rows = torch.cat([X, X.new_ones(len(X), 1)], dim=1) if spec.intercept else X
        longest = float(column_lengths(self.rows.T).max()) if len(X) else 0.0
        self.reach = longest * (1 + (self.rows.shape[1] + 4) * UNIT)
        self.growth = GROWTH[spec.loss.name]
        self._penalised = spec.lam > 0
        self._sparse = spec.penalty == "l1" and self._penalised
        self.rank = self.rows.shape[1] if self._penalised else visible_rank(self.rows)

    @property
    def collinear(self) -> bool:
        """Whether features are dependent to machine precision with no penalty to choose between them.

        Gradient descent from 0 never leaves the span of the examples, so it finds the minimiser of least
        norm. Where the examples are dependent as well, rounding decides what that is.
        """
        return self.rank < self.rows.shape[1]

    def standing(self, w: Tensor, lr: float, rounding: float = 0.0) -> Standing:
        """What can be said about weights w; `rounding` bounds the error of computing a step."""
        problem = self.problem
        before = w - lr * problem.gradient(w, self.X, self.y)
        following = problem.prox(before, lr)
        move, beta = length(w - following), self.beta(w)
        G = (move + rounding + TINY) / lr
        dual, fit = None, math.inf
        if self._sparse:
            spec = problem.spec
            dual = duality_gap(self.X, self.y, w, spec.lam)
            fit, moves = dual.predictions, before.abs() >= lr * spec.lam * (1 - 4 * UNIT) - rounding
            alpha = self._sparse_alpha(dual.can_be_nonzero | (w != 0) | moves)
            distance = self._sparse_distance(G, alpha, lr, beta)
        elif self._penalised:
            alpha = self._penalised_alpha(w)
            distance = self._reached(G, alpha)
            if not problem.spec.intercept:
                # The penalty bends the whole objective by lam, however far away the minimiser is.
                distance = min(distance, G / problem.spec.lam * (1 + 4 * UNIT))
        else:
            alpha, outside = self._span_alpha(w)
            distance = self._reached(G, alpha) + outside
        distance = max(distance * (1 + 32 * UNIT), TINY) if distance == distance else math.inf
        return Standing(
            distance=distance,
            visible=self._visible(w, G, distance),
            gap=self._gap(G, distance, dual),
            fit=fit,
            move=move,
            rounding=rounding,
            alpha=alpha,
            beta=beta,
            objective=float(problem.objective(w, self.X, self.y)),
        )

    def _sparse_distance(self, G: float, alpha: float, lr: float, beta: float) -> float:
        if alpha == math.inf:
            return 0.0  # w = 0 is the minimiser
        return max(1.0, lr * beta - 1) * G / alpha + lr * G if alpha else math.inf

    def settled(self, standing: Standing, tol: float) -> bool:
        """Whether weights have converged: in distance, or, where there is no curvature, in fit."""
        return standing.visible <= self.needed(tol) or self.fits(standing, tol)

    def fits(self, standing: Standing, tol: float) -> bool:
        """Whether, with no certified curvature, the fit is still proved: the minimiser may not be unique."""
        return standing.alpha == 0 and standing.fit <= self._allowed(tol)

    def needed(self, tol: float) -> float:
        """The distance at which weights count as converged: tol, or less for predictions to settle.

        A distance t moves predictions by at most t * largest singular value / sqrt(n) (root mean
        square). That must be within tol of their size: of rms(y) for squares, of 1 for the scores of the
        others. A tol below SMALL * rms(y) can only have been meant in the units of small targets.
        """
        allowed = self._allowed(tol)
        # Targets that are all 0 are met by weights 0: nothing has to settle.
        return min(tol, allowed / self._spread) if self._spread > 0 and allowed > 0 else tol

    @cached_property
    def _spread(self) -> float:
        """The largest root mean square of predictions at weights of length 1."""
        if self.rows.numel() == 0:
            return 0.0
        return float(torch.linalg.svdvals(self.rows)[0]) / math.sqrt(len(self.rows))

    def _allowed(self, tol: float) -> float:
        """By how much predictions may still move, in root mean square."""
        size = 1.0 if self.growth else length(self.y) / math.sqrt(len(self.y))
        return max(tol * size, min(tol, SMALL * size))

    def beta(self, w: Tensor) -> float:
        """The largest curvature at w."""
        hessian = self._hessian(w)
        return float(torch.linalg.eigvalsh(hessian)[-1]) if len(hessian) else 0.0

    def _reached(self, G: float, alpha: float) -> float:
        if alpha == 0:
            return math.inf
        R = self.growth * self.reach
        z = R * G / alpha
        if z < SMALLEST_NORMAL:
            return G / alpha
        return -math.log1p(-z) / R if z < 1 else math.inf

    def _visible(self, w: Tensor, G: float, distance: float) -> float:
        """The distance to the least-norm minimiser of features whose invisible directions are dropped."""
        if not self.collinear or math.isfinite(distance):
            return distance
        basis = torch.linalg.svd(self.rows, full_matrices=False).Vh[: self.rank]
        return self._reached(G, certified_square(least_singular_value(self._root(w) @ basis.T)))

    def _gap(self, G: float, distance: float, dual: DualityGap | None) -> float:
        if dual is not None:
            return dual.objective
        return max(G * distance * (1 + 4 * UNIT), TINY)

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

    # -- curvature ----------------------------------------------------------------------------------

    def _sparse_alpha(self, support: Tensor) -> float:
        """The smallest curvature over all weights on these features; infinite if there are none."""
        if not bool(support.any()):
            return math.inf
        root = self.rows[:, support] / math.sqrt(len(self.rows))
        return certified_square(least_singular_value(root) * (1 - 4 * UNIT))

    def _penalised_alpha(self, w: Tensor) -> float:
        alpha = certified_square(least_singular_value(self._root(w)))
        # An intercept is not penalised.
        return alpha if self.problem.spec.intercept else max(alpha, self.problem.spec.lam)

    def _span_alpha(self, w: Tensor) -> tuple[float, float]:
        """Without a penalty: the smallest curvature in the span of the examples, and how far w is from it."""
        used = (self.rows != 0).any(dim=0)
        outside = length(w[~used])
        root = self._root(w)[:, used]
        if root.shape[1] == 0:
            return math.inf, outside
        if root.shape[1] <= root.shape[0]:
            return certified_square(least_singular_value(root)), outside
        alpha = certified_square(least_singular_value(root.T))
        if alpha == 0:
            return 0.0, outside
        spanning, v = self.rows[:, used].T, w[used]
        # Any combination of the examples bounds the distance to their span; least squares finds a good one.
        mix = torch.linalg.lstsq(spanning, v.unsqueeze(1)).solution.squeeze(1)
        rounding = (len(mix) + 3) * UNIT * (spanning.abs() @ mix.abs() + v.abs())
        return alpha, outside + length((v - spanning @ mix).abs() + rounding)

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
