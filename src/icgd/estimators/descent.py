"""Running a linear model's program in chunks until its weights are provably near the minimiser."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import Tensor

from icgd.constructions import compile
from icgd.errors import AssumptionViolated
from icgd.estimators.landscape import Landscape, Standing
from icgd.problems import GD, LinearModel
from icgd.program import Program, Run
from icgd.runtime.cost import Cost
from icgd.verification.statistics_bound import step_bound

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
    """A finished descent; `standing` is the worst of its problems', `needed` the distance asked for."""

    program: Program
    run: Run
    standing: Standing
    needed: float
    collinear: bool
    dropped: bool
    too_fast: bool = False

    @property
    def n_steps(self) -> int:
        """Steps taken."""
        return self.run.cost.rounds


def descend(task: Task, limit: int, tol: float) -> Outcome:
    """Run until the distance to the minimiser is at most tol, or for `limit` steps; tol = 0 for all.

    Where features are large the distance has to be smaller still, until predictions have settled as
    well (Landscape.needed).
    lr is 1/beta with the curvature at the start, which for squares and the logistic loss is the largest
    there is. The exponential bends more further out: where lr turns out too large, the run starts again
    with a smaller one. A head that leaves its range makes it start again with twice the range.
    """
    lanes = task.lanes()
    beta = max(lane.beta(w) for lane, w in lanes)
    lr, radius = 1.0 / beta if beta > 0 else 1.0, task.radius
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


def _attempt(
    task: Task, lanes: list[Landscape], program: Program, limit: int, tol: float
) -> Outcome:
    lr = float(program.config["optimizer"]["lr"])
    bound = step_bound(program, "structured")
    needed = min(lane.needed(tol) for lane in lanes)

    def standing(w: Tensor) -> Standing:
        rounding = bound(w, task.X, task.y).norm(dim=-1).reshape(-1).tolist()
        each = zip(lanes, w if w.dim() == 2 else [w], rounding, strict=True)
        return _worst([lane.standing(v, lr, error) for lane, v, error in each])

    run, chunk, w = None, min(FIRST_CHUNK, limit), task.start
    before = standing(w)
    while True:
        made = program.run(task.X, task.y, init=w, steps=chunk)
        run, w = made if run is None else _joined(run, made), made.weights
        now = standing(w)
        done = run.cost.rounds
        too_fast = _too_fast(before, now, lr, chunk)
        near = tol > 0 and (now.distance <= needed or now.stalled)
        if too_fast or near or done >= limit:
            collinear = any(lane.collinear for lane in lanes)
            dropped = any(lane.dropped for lane in lanes)
            return Outcome(program, run, now, needed, collinear, dropped, too_fast)
        chunk = min(_next_chunk(done, chunk, before, now, needed), limit - done)
        before = now


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
    if not 0 < now.move < before.move or not 0 < tol < now.distance < math.inf:
        return done
    per_step = math.log(before.move / now.move) / chunk
    return max(LEAST_CHUNK, min(done, math.ceil(1.05 * math.log(now.distance / tol) / per_step)))


def _worst(each: list[Standing]) -> Standing:
    if len(each) == 1:
        return each[0]
    return Standing(
        max(s.distance for s in each), max(s.move for s in each),
        max(s.rounding for s in each), min(s.alpha for s in each), max(s.beta for s in each),
        sum(s.objective for s in each),
    )  # fmt: skip


def _joined(first: Run, then: Run) -> Run:
    """Two runs, the second started where the first ended, as the one run they are."""
    a, b = first.cost, then.cost
    cost = Cost(
        a.rounds + b.rounds, a.blocks + b.blocks, max(a.live_blocks_max, b.live_blocks_max),
        a.dense_flops + b.dense_flops, a.structured_flops + b.structured_flops,
    )  # fmt: skip
    return replace(then, cost=cost, range_use=max(first.range_use, then.range_use))
