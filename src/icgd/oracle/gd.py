"""Exact (proximal) gradient descent on linear models by autograd, and their exact minimisers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.problems import LinearModel


def gd_steps(problem: LinearModel, w: Tensor, X: Tensor, y: Tensor, lr: float) -> Iterator[Tensor]:
    """w after every step of torch.optim.SGD on the smooth part, followed by the proximal map.

    Statement: [COT] Lemma A.3

    Differs from the paper: the gradient is that of the smooth part f, where A.3 prints grad L.
    """
    point = w.detach().clone().requires_grad_(True)
    optimizer = torch.optim.SGD([point], lr=lr)
    while True:
        # Autocast of the caller would make an oracle of fewer digits.
        with torch.enable_grad(), torch.autocast(X.device.type, enabled=False):
            optimizer.zero_grad()
            problem.smooth_part(point, X, y).backward()
            optimizer.step()
        with torch.no_grad():
            if problem.penalty == "l1":
                point.copy_(prox_l1(point, problem.spec.n_features, lr * problem.spec.lam))
        yield point.detach().clone()


def gd_step(problem: LinearModel, w: Tensor, X: Tensor, y: Tensor, lr: float) -> Tensor:
    """One exact step from w."""
    return next(gd_steps(problem, w, X, y, lr))


def prox_l1(w: Tensor, d: int, cut: float) -> Tensor:
    """argmin_v cut |v|_1 + |v - w|^2 / 2 on the first d entries: w minus its projection on a box."""
    shrunk = w[..., :d] - w[..., :d].clamp(-cut, cut)
    return torch.cat([shrunk, w[..., d:]], dim=-1)


def minimiser(problem: LinearModel, X: Tensor, y: Tensor, *, steps: int = 200) -> Tensor:
    """The true minimiser: scikit-learn's coordinate descent for the lasso, Newton's method else.

    Raises AssumptionViolated where there is no single one (a singular Hessian: collinear features
    without a penalty), or where Newton's method finds none (separable classes).
    """
    X, y = X.double(), y.double()
    if problem.penalty == "l1" and problem.spec.lam:
        return _lasso(problem, X, y)
    w = torch.zeros(X.shape[1] + problem.spec.intercept, dtype=torch.float64)
    value = float(problem.smooth_part(w, X, y))
    for _ in range(steps):
        point = w.clone().requires_grad_(True)
        with torch.enable_grad():
            (grad,) = torch.autograd.grad(problem.smooth_part(point, X, y), point)
        hessian = torch.autograd.functional.hessian(lambda v: problem.smooth_part(v, X, y), w)
        if not bool(hessian.isfinite().all()):
            break  # the iterates ran away until the objective overflowed
        size = torch.linalg.eigvalsh(hessian)
        if not float(size[0]) > 1e-12 * max(1.0, float(size[-1])):
            if bool(w.any()):
                break  # not at the start: the iterates run away
            rank = problem.rank_on(X)
            raise AssumptionViolated(
                f"{problem!r} has no single minimiser on these data: its features have rank {rank} of {len(w)} "
                "to machine precision. Use lam > 0 or remove collinear features."
                if rank < len(w)
                else f"{problem!r} bends too little on these data to tell a minimiser; the smallest curvature "
                f"is {float(size[0]):.2g}. Use lam > 0 or scale the features."
            )
        try:
            move = torch.linalg.solve(hessian, grad)
        except RuntimeError:  # torch's LinAlgError
            break  # flat in some direction: the iterates run away
        if float(move.norm()) <= 1e-8 * max(1e-8, float(w.norm())):
            # Newton's method squares its error: after this move nothing but rounding is left.
            return w - move
        step = 1.0
        while step > 1e-10 and not float(problem.smooth_part(w - step * move, X, y)) < value:
            step /= 2
        # Where the objective is flat to rounding its gradient still shows the way: Newton's own step.
        w = w - (step if step > 1e-10 else 1.0) * move
        value = float(problem.smooth_part(w, X, y))
    raise AssumptionViolated(
        f"{problem!r} has no minimiser on these data (separable classes?). Use lam > 0."
    )


def _lasso(problem: LinearModel, X: Tensor, y: Tensor) -> Tensor:
    from sklearn.linear_model import Lasso

    solver = Lasso(
        alpha=problem.spec.lam, fit_intercept=problem.spec.intercept, tol=1e-15, max_iter=100_000
    )
    with warnings.catch_warnings():
        # It stops where rounding does, which is what this tolerance asks for.
        warnings.simplefilter("ignore")
        solver.fit(X.numpy(), y.numpy())
    w = torch.as_tensor(solver.coef_, dtype=torch.float64)
    if problem.spec.intercept:
        w = torch.cat([w, torch.tensor([float(solver.intercept_)], dtype=torch.float64)])
    return w
