"""The verdict on a looped program: its weights, step by step, beside those of the exact algorithm.

Bounds are recursions of Euclidean norms, from what one product promises (`certificate`: error per unit of
sum |v|) and rounding. Gradient descent with lr lambda_max <= 2 brings no two points apart, so errors add
up; Schulz' iteration passes an error on by at most |I - U X^T| + |I - X^T U|, at the iterates themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from icgd.constructions.network_data import check_steps
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.problems.regression import RepresentationRegression
from icgd.program import Program, Run
from icgd.program.progress import progress_reporter
from icgd.reference.least_squares import newton_schulz
from icgd.runtime.choose_executor import ExecutorName
from icgd.verification.check_table import ShortCheck
from icgd.verification.weight_arithmetic import worst

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class LoopRecord:
    """One loop: distance to the exact algorithm's weights, and its bound."""

    round: int
    error: float
    global_bound: float


@dataclass(frozen=True, repr=False)
class LoopCheck(ShortCheck):
    """The verdict on a looped program.

    max_error     largest |w - w_exact| after any loop, both started at 0
    global_bound  bound on it after the last loop
    max_round_error, round_bound  largest growth of the error in one loop, and what one loop may add
    paper_bound   NaN: the paper promises "arbitrarily close", which is no number
    """

    max_error: float
    max_round_error: float
    round_bound: float
    global_bound: float
    paper_bound: float
    passed: bool
    rounds: list[LoopRecord]
    run: Run | None
    exact_weights: Tensor
    notes: list[str] = field(default_factory=list)

    def table(self) -> Table:
        """The verdict for the terminal."""
        from icgd.verification.check_table import rows_table

        return rows_table(
            self.passed,
            [("weights against the exact algorithm", self.max_error, self.global_bound)],
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a result file."""
        keys = ("max_error", "global_bound", "passed", "notes")
        return {key: getattr(self, key) for key in keys}


@dataclass(frozen=True)
class Exact:
    """Exact weights after every loop, what one loop may add to the error, and the bound on all of it."""

    weights: list[Tensor]
    fresh: list[float]
    bounds: list[float]


def verify_loop(
    program: Program, X: Any, Y: Any, *, steps: int | None = None,
    executor: ExecutorName = "structured",
    progress: bool | Callable[[int, int], None] = False,
) -> LoopCheck:  # fmt: skip
    """Run the program and the exact algorithm side by side."""
    n_steps = check_steps(steps)
    kind = str(program.config["construction"])
    if kind not in EXACT:
        raise InvalidParameter(
            "program", kind, f"be one of {', '.join(EXACT)}",
            remedy="Hold run.history against the exact algorithm, or run icgd verify --paper ALGO.",
        )  # fmt: skip
    problems = program.codec.problems(X, Y, None)
    features, targets, _ = problems[0]
    if len(problems) != 1 or features.dim() != 2:
        raise InvalidParameter(
            "X",
            tuple(features.shape),
            "be one problem",
            remedy="Verify the problems of a batch one by one.",
        )
    exact = EXACT[kind](program, features.double(), targets.double(), n_steps)
    records: list[LoopRecord] = []
    notes: list[str] = []
    with progress_reporter(progress, n_steps) as report:

        def on_step(done: int, weights: Tensor) -> None:
            want = exact.weights[done - 1]
            error = float((weights.double().reshape(want.shape) - want).abs().max())
            records.append(LoopRecord(done, error, exact.bounds[done - 1]))
            if report is not None:
                report(done, n_steps)

        run = program.run(X, Y, steps=n_steps, executor=executor, record=on_step)
    if not program.certificate.rigorous:
        notes.append(
            f"The certificate of {program.certificate.name} holds to leading order in c: bounds that use it "
            "are estimates."
        )
    size = max(float(w.abs().max()) for w in exact.weights)
    vacuous = not exact.bounds[-1] <= size
    if vacuous:
        notes.append(
            f"The bound exceeds the largest weight ({size:.2g}): it is vacuous, so nothing is shown. Take "
            "fewer steps, a smaller radius, mode='spectral' or float64."
        )
    errors = [r.error for r in records]
    grown = [b - a for a, b in zip([0.0, *errors], errors, strict=False)]
    return LoopCheck(
        max_error=worst(errors),
        max_round_error=max(0.0, *grown),
        round_bound=max(exact.fresh),
        global_bound=exact.bounds[-1],
        paper_bound=math.nan,
        passed=not vacuous and all(r.error <= r.global_bound for r in records),
        rounds=records,
        run=run,
        exact_weights=exact.weights[-1],
        notes=notes,
    )


def _rate(program: Program, width: int, n: int, reach: float) -> float:
    """Error of a product per unit of sum |v|: its certificate, and rounding of s and of the sum."""
    u = torch.finfo(program.dtype).eps / 2
    exact = program.config["construction"] == "linear_attention_cot"
    promised = 0.0 if exact else program.certificate.sup_error
    return promised + u * (2 * width + 2 * n + 16) * reach


def descent(program: Program, phi: Tensor, Y: Tensor, steps: int) -> Exact:
    """Gradient descent on residuals: weights are read off them, at the cost of 1 / the least singular value."""
    Y = Y if Y.dim() == 2 else Y.unsqueeze(-1)
    n, width = phi.shape
    lr, lam = (
        float(program.config["optimizer"]["lr"]),
        float(program.config["problem"].get("lam", 0.0)),
    )
    problem = getattr(program.codec, "problem", None)
    if isinstance(problem, RepresentationRegression):
        phi = problem.phi(phi)
        width = phi.shape[1]
    singular = torch.linalg.svdvals(phi)
    if lr * (float(singular[0]) ** 2 / n + lam) > 2:
        raise AssumptionViolated(
            f"lr * lambda_max = {lr * (float(singular[0]) ** 2 / n + lam):.3g} is above 2: exact gradient "
            "descent diverges, and so does every bound. Lower lr."
        )
    used = singular[singular > singular[0] * max(n, width) * 2.0**-52]
    u = torch.finfo(program.dtype).eps / 2
    reach = float((phi @ phi.T).abs().max()) / n
    rate = lr * _rate(program, width, n, reach)
    A = phi.new_zeros(Y.shape[1], width)
    made, fresh, bounds, error = [], [], [], 0.0
    for _ in range(steps):
        r = phi @ A.T - Y
        largest = float(r.abs().max()) + error
        one = rate * (float(r.abs().sum(dim=0).max()) + n * error) + 8 * u * (
            largest + float(Y.abs().max())
        )
        A = A - lr * (r.T @ phi / n + lam * A)
        error += math.sqrt(n) * one
        made.append(
            A[0]
            if program.config["problem"].get("n_outputs", Y.shape[1]) == 1 and A.shape[0] == 1
            else A
        )
        # Reading w off the residuals is least squares, which rounds by its condition number.
        reading = 8 * u * width * float(singular[0] / used[-1]) * (1 + float(A.abs().max()))
        fresh.append(math.sqrt(n) * one / float(used[-1]))
        bounds.append(error / float(used[-1]) + reading)
    return Exact(made, fresh, bounds)


def prefixes(program: Program, X: Tensor, y: Tensor, steps: int) -> Exact:
    """One weight vector per prefix; the bound is the worst of all prefixes."""
    Y = y if y.dim() == 2 else y.unsqueeze(-1)
    lr, (n, d) = float(program.config["optimizer"]["lr"]), X.shape
    u = torch.finfo(program.dtype).eps / 2
    weights = X.new_zeros(n, Y.shape[1], d)
    made, fresh, bounds, error = [], [], [], torch.zeros(n, dtype=torch.float64)
    size = X.abs().cumsum(dim=0).max(dim=1).values  # sum_j |x_j| up to each example
    for _ in range(steps):
        new, one = weights.clone(), torch.zeros(n, dtype=torch.float64)
        for i in range(1, n):
            part, told = X[:i], Y[:i]
            r = part @ weights[i].T - told
            new[i] = weights[i] - lr * r.T @ part / i
            reach = (
                float(r.abs().max())
                + float(told.abs().max())
                + float(error[i]) * float(part.norm(dim=1).max())
            )
            scale = lr * float(size[i - 1]) / i
            one[i] = math.sqrt(d) * scale * _rate(program, d, n, 1.0 + reach) + 16 * u * float(
                new[i].abs().max()
            )
            curve = float(torch.linalg.eigvalsh(part.T @ part / i)[-1])
            error[i] = max(1.0, abs(1 - lr * curve)) * error[i] + one[i]
        weights = new
        made.append(weights[:, 0] if Y.shape[1] == 1 else weights)
        fresh.append(float(one.max()))
        bounds.append(float(error.max()) + 1e-300)
    return Exact(made, fresh, bounds)


def newton(program: Program, X: Tensor, y: Tensor, steps: int) -> Exact:
    """Schulz' iteration on U = X M, the rows M x_i that the tokens hold; w = U^T y."""
    Y = y if y.dim() == 2 else y.unsqueeze(-1)
    n, d = X.shape
    u = torch.finfo(program.dtype).eps / 2
    iterates = newton_schulz(X, float(program.config["optimizer"]["alpha"]))
    M = next(iterates)
    error, made, fresh, bounds = 0.0, [], [], []
    rate = _rate(program, d, n, 1.0)
    largest = float(X.abs().sum(dim=0).max())
    # The first product, alpha sum_s x_s <x_s, x_i>, has numbers as large as |x|^2.
    start = (
        rate
        * float(program.config["optimizer"]["alpha"])
        * largest
        * float(X.square().sum(dim=1).max())
    )
    error = math.sqrt(n * d) * start
    for _ in range(steps):
        U = X @ M
        left = float(torch.linalg.matrix_norm(torch.eye(n, dtype=X.dtype) - U @ X.T, 2))
        right = float(torch.linalg.matrix_norm(torch.eye(d, dtype=X.dtype) - X.T @ U, 2))
        column = float(U.abs().sum(dim=0).max()) + n * error
        one = math.sqrt(n * d) * (rate * column + 16 * u * (float(U.abs().max()) + error))
        # Beyond this the quadratic term takes over, and no bound holds any more.
        hopeless = not error * float(X.norm()) < 1.0
        error = math.inf if hopeless else (left + right) * error + error**2 * float(X.norm()) + one
        M = next(iterates)
        w = (X @ M).T @ Y
        made.append(w[:, 0] if y.dim() == 1 or Y.shape[1] == 1 else w.T)
        reading = 8 * u * n * float((X @ M).abs().max()) * float(Y.abs().sum())
        fresh.append(one * float(Y.norm()))
        bounds.append(error * float(Y.norm()) + reading)
    return Exact(made, fresh, bounds)


EXACT: dict[str, Callable[[Program, Tensor, Tensor, int], Exact]] = {
    "looped_regression": descent,
    "looped_autoregression": descent,
    "linear_attention_cot": descent,
    "looped_newton": newton,
    "looped_decoder": prefixes,
}
