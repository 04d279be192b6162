"""Running a linear model's program in chunks until its weights are provably near the minimiser."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.estimators.landscape import Landscape, Standing
from icgd.estimators.safe_numbers import SMALLEST_NORMAL, TINY, length
from icgd.mechanisms import compile
from icgd.problems import GD, LinearModel
from icgd.transformer.program import Program, Run
from icgd.transformer.runtime.cost import Cost
from icgd.verification.bounds.cot_linear import step_bound

FIRST_CHUNK = 64
LEAST_CHUNK = 16
RESTARTS = 64
TOO_FAST = 1.25
"""lr * beta above which a run starts again with a smaller lr; 2 is where descent turns unstable."""
WIDEST_EXPONENT = 256.0
"""The exponential head's weights underflow a little further out."""


@dataclass(frozen=True)
class Task:
    """One problem, or several on the same rows: X (n, d) or (b, n, d), y (n,) or (b, n)."""

    problem: LinearModel
    X: Tensor
    y: Tensor
    start: Tensor
    radius: float
    target_radius: float

    def lanes(self) -> list[tuple[Landscape, Tensor]]:
        """Every problem with its start."""
        if self.X.dim() == 2:
            return [(Landscape(self.problem, self.X, self.y), self.start)]
        each = zip(self.X, self.y, self.start, strict=True)
        return [(Landscape(self.problem, x, y), w) for x, y, w in each]


@dataclass(frozen=True)
class Outcome:
    """A finished descent.

    standing   the worst of its problems'
    needed     the distance at which weights count as converged
    converged  whether all problems have: in distance, or in `fit` where no distance can be proved
    rank       to machine precision, of the features (and intercept) of the problem with the lowest
    collinear  whether that is less than there are, and there is no penalty
    """

    program: Program
    run: Run
    standing: Standing
    needed: float
    converged: bool
    fit: bool
    rank: int
    collinear: bool
    too_fast: bool = False

    @property
    def n_steps(self) -> int:
        """Steps taken."""
        return self.run.cost.rounds


def descend(task: Task, limit: int, tol: float) -> Outcome:
    """Run until the distance to the minimiser is at most tol, or for `limit` steps; tol = 0 for all.

    Where features are large the distance has to be smaller still, until predictions have settled as
    well (Landscape.needed). Where the lasso has no certified curvature, and so no provable distance, its
    duality gap must prove that predictions are within tol of those of all minimisers.
    lr is 1/beta with the curvature at the start, which for squares and the logistic loss is the largest
    there is. The exponential bends more further out: where lr turns out too large, the run starts again
    with a smaller one. A head that leaves its range makes it start again with twice the range.
    """
    lanes = task.lanes()
    lr, radius = _first_lr(lanes), task.radius
    exponential = task.problem.spec.loss.name == "poisson"
    for attempt in range(RESTARTS):
        program = compile(task.problem, GD(lr=lr), radius=radius, target_radius=task.target_radius)
        try:
            outcome = _attempt(task, [lane for lane, _ in lanes], program, limit, tol)
        except AssumptionViolated:
            if attempt == RESTARTS - 1:
                raise
            radius *= 2
            if exponential:
                # It may as well be that the steps are too long.
                lr, radius = lr / 2, min(radius, WIDEST_EXPONENT)
            continue
        if not outcome.too_fast:
            return outcome
        lr = min(lr / 2, 1.0 / outcome.standing.beta)
    raise AssumptionViolated(
        f"No step size down to {lr:.3g} makes gradient descent on {task.problem!r} stable. "
        "Standardise the features."
    )


def _first_lr(lanes: list[tuple[Landscape, Tensor]]) -> float:
    """1 / beta at the start; 1 where features are all 0 and any step size does."""
    beta = max(lane.beta(w) for lane, w in lanes)
    largest = max(float(lane.rows.abs().max()) for lane, _ in lanes)
    if beta >= SMALLEST_NORMAL and math.isfinite(1 / beta):
        return 1 / beta
    if largest == 0:
        return 1.0
    raise AssumptionViolated(
        f"The curvature of the objective underflows: the largest feature is {largest:.3g}, and its square is "
        "no ordinary number. Scale the features."
    )


def _attempt(
    task: Task, lanes: list[Landscape], program: Program, limit: int, tol: float
) -> Outcome:
    lr = program.optimizer.lr
    bound = step_bound(program, "structured")
    needed = min(lane.needed(tol) for lane in lanes)

    def standings(w: Tensor) -> list[Standing]:
        error = bound(w, task.X, task.y) + _underflow(task, lr)
        errors = error if error.dim() == 2 else [error]
        each = zip(lanes, w if w.dim() == 2 else [w], errors, strict=True)
        return [lane.standing(v, lr, length(e)) for lane, v, e in each]

    run, chunk, w = None, min(FIRST_CHUNK, limit), task.start
    before = _worst(standings(w))
    while True:
        part = program.run(task.X, task.y, init=w, steps=chunk)
        run, w = part if run is None else _joined(run, part), part.weights
        each = standings(w)
        now = _worst(each)
        done = run.cost.rounds
        too_fast = _too_fast(before, now, lr, chunk)
        pairs = list(zip(lanes, each, strict=True))
        settled = tol > 0 and all(lane.settled(s, tol) for lane, s in pairs)
        if too_fast or settled or (tol > 0 and now.stalled) or done >= limit:
            fit = any(lane.fits(s, tol) for lane, s in pairs)
            rank, collinear = min(ln.rank for ln in lanes), any(ln.collinear for ln in lanes)
            return Outcome(program, run, now, needed, settled, fit, rank, collinear, too_fast)
        chunk = min(_next_chunk(done, chunk, before, now, needed), limit - done)
        before = now


def _underflow(task: Task, lr: float) -> float:
    """What an entry of a step, ours and the oracle's, can lose to underflow, which no relative bound counts."""
    n, d = task.X.shape[-2:]
    largest = float(task.X.abs().max())
    # s of an example: d products and the head's own scaling. The step: n products, the penalty, the sum.
    score = (d + 16) * TINY * max(1.0, task.radius)
    return 2 * (lr * (largest * score + (n + 8) * TINY) + 8 * TINY)


def _too_fast(before: Standing, now: Standing, lr: float, chunk: int) -> bool:
    """Whether lr must have been above 1/beta on the way.

    At lr <= 1/beta every step is at most as long as the one before it and lowers the objective by at
    least its length squared / (2 lr). An orbit that goes round and round does not, though the curvature
    where it happens to stop may look harmless.
    """
    if lr * now.beta > TOO_FAST:
        return True
    slack = 1e-10 * (1 + abs(before.objective))
    fallen = before.objective - now.objective >= chunk * now.move**2 / (2 * lr) - slack
    return not (fallen and now.move <= before.move + before.rounding + now.rounding)


def _next_chunk(done: int, chunk: int, before: Standing, now: Standing, tol: float) -> int:
    """As many steps again as were made, or fewer if the rate of the last chunk says they will do."""
    if not 0 < now.move < before.move or not 0 < tol < now.visible < math.inf:
        return done
    per_step = math.log(before.move / now.move) / chunk
    return max(LEAST_CHUNK, min(done, math.ceil(1.05 * math.log(now.visible / tol) / per_step)))


def _worst(each: list[Standing]) -> Standing:
    if len(each) == 1:
        return each[0]
    return Standing(
        distance=max(s.distance for s in each),
        visible=max(s.visible for s in each),
        gap=max(s.gap for s in each),
        fit=max(s.fit for s in each),
        move=max(s.move for s in each),
        rounding=max(s.rounding for s in each),
        alpha=min(s.alpha for s in each),
        beta=max(s.beta for s in each),
        objective=sum(s.objective for s in each),
    )


def _joined(first: Run, then: Run) -> Run:
    """Two runs, the second started where the first ended, as the one run they are."""
    a, b = first.cost, then.cost
    cost = Cost(
        a.rounds + b.rounds,
        a.blocks + b.blocks,
        max(a.live_blocks_max, b.live_blocks_max),
        a.dense_flops + b.dense_flops,
        a.structured_flops + b.structured_flops,
    )
    return replace(then, cost=cost, range_use=max(first.range_use, then.range_use))
