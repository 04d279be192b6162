"""Problems, compiled programs and their checks that the rows of Section 3 of [COT] share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from icgd.mechanisms import compile as compile_program
from icgd.oracle import minimiser
from icgd.problems import GD, GLM, Lasso, LinearModel, Ridge
from icgd.transformer.gadgets.heads.spectral_theory import Temperature
from icgd.transformer.program import Program
from icgd.verification.bounds.cot_linear import step_bound
from icgd.verification.bounds.linear_model_theory import steps_for_distance
from icgd.verification.cot_linear import LinearModelCheck, StepRecord, verify_linear_model

TOLERANCE = 1e-9
"""What Theorems 3.1 and 3.2 are run for: the number of steps follows from their inverse."""

HARD_STEPS, LASSO_STEPS = 30, 200


@dataclass(frozen=True)
class Case:
    """A model with data, its minimiser, and eta = 1/beta on the region that descent can visit."""

    name: str
    problem: LinearModel
    X: Tensor
    y: Tensor
    best: Tensor
    alpha: float
    beta: float

    @property
    def reach(self) -> float:
        """|w.x| while |w - w*| <= |w*|."""
        return 2 * float(self.best.norm()) * float(self.X.norm(dim=1).max())

    def program(self, temperature: Temperature) -> Program:
        """The compiled layer at eta = 1/beta."""
        lr, y = GD(lr=1 / self.beta), max(1.0, float(self.y.abs().max()))
        if temperature == "spectral":
            return compile_program(self.problem, lr, radius=8.0, target_radius=y)
        # The nearest level: the range just fits, so that 512 levels are as fine as they can be.
        link = self.problem.spec.loss.form == "link"
        return compile_program(
            self.problem,
            lr,
            temperature="hard",
            n_grid=512,
            target_radius=y,
            radius=self.reach + (0.0 if link else y),
        )


def made(name: str, problem: LinearModel, X: Tensor, y: Tensor) -> Case:
    """A case with its constants."""
    best = minimiser(problem, X, y)
    reach = 2 * float(best.norm()) * float(X.norm(dim=1).max())
    return Case(name, problem, X, y, best, *problem.constants_on(X, reach))


def design(n: int, d: int, seed: int) -> Tensor:
    """Features whose Gram matrix has condition number 2: few steps show the whole descent."""
    generator = torch.Generator().manual_seed(seed)
    Q, _ = torch.linalg.qr(torch.randn(n, d, generator=generator, dtype=torch.float64))
    V, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    return (Q * torch.linspace(n, n / 2, d, dtype=torch.float64).sqrt()) @ V


@cache
def case(name: str, n: int = 24, d: int = 3, seed: int = 0) -> Case:
    """One of "identity", "logistic", "poisson", "ridge", "lasso", with a modest minimiser."""
    generator = torch.Generator().manual_seed(1 + seed)
    X = design(n, d, seed)
    truth = torch.linspace(0.6, -0.4, d, dtype=torch.float64)
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    target = X @ truth + 0.2 * noise
    if name == "logistic":
        # Each example four times with both labels, or w* and with it kappa would be large.
        ones = (4 * torch.sigmoid(0.5 * X @ truth)).round().clamp(1, 3)
        y = (torch.arange(4).repeat_interleave(n) < ones.repeat(4)).double()
        return made(name, GLM(d, name), X.repeat(4, 1), y)
    if name == "poisson":
        # Mean counts, for the same reason: for this model kappa grows like exp(2 |w.x|).
        rate = torch.exp(0.2 * X @ truth) * (1 + 0.1 * noise)
        return made(name, GLM(d, name), X, rate.relu())
    if name == "identity":
        return made(name, GLM(d, name), X, target)
    return made(name, Ridge(d, lam=0.3) if name == "ridge" else Lasso(d, lam=0.1), X, target)


@cache
def checked(name: str, temperature: Temperature, steps: int | None = None) -> LinearModelCheck:
    """A case run on its compiled layer, step by step against exact descent and the minimiser.

    Without a number of steps, as many as the theorem needs for TOLERANCE.
    """
    its = case(name)
    program = its.program(temperature)
    if steps is None:
        at_best = step_bound(program, "structured")(its.best, its.X, its.y)
        eps = 2 * float(at_best.norm())
        kappa, B_w = its.beta / its.alpha, 2 * float(its.best.norm())
        steps = steps_for_distance(TOLERANCE, eps, kappa, B_w)
    return verify_linear_model(program, its.X, its.y, steps=steps, probe_sets=0)


def below(check: LinearModelCheck) -> bool:
    """Measured <= bound at every step: to exact descent, and to the minimiser by the theorem."""
    return check.passed and all(
        r.step_error <= r.step_bound and r.error <= r.global_bound and r.distance <= r.theorem
        for r in check.rounds
    )


def tightness(*checks: LinearModelCheck) -> float:
    """The smallest theorem bound / measured distance met."""
    return min(check.ratio for check in checks)


def tightest(check: LinearModelCheck) -> StepRecord:
    """The step at which the theorem's bound comes closest to what was measured."""
    return min(
        check.rounds, key=lambda r: r.theorem / r.distance if r.distance > 1e-12 else math.inf
    )


def scalar_path(
    problem: LinearModel, eta: float, steps: int, *, value: float = 1.0, radius: float = 16.0
) -> tuple[list[float], float]:
    """w after every step of a compiled layer on the one example x = y = value, from 0, and its eps."""
    X = torch.full((1, 1), value, dtype=torch.float64)
    program = compile_program(problem, GD(lr=eta), radius=radius)
    history = program.run(X, X[0], steps=steps, record="weights").history
    assert history is not None
    allowed = step_bound(program, "structured")
    eps = max(float(allowed(w, X, X[0]).norm()) for w in (torch.zeros_like(X[0]), *history))
    return [float(w) for w in history], eps
