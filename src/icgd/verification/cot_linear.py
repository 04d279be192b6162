"""Is this program one that fits a linear model by (proximal) gradient descent, as it claims?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import AssumptionViolated
from icgd.oracle import gd_step, gd_steps, minimiser
from icgd.problems import LinearModel
from icgd.transformer.program import Program, Run
from icgd.transformer.program.progress import progress_reporter
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.verification.bounds.cot_linear import StepBound, linear_model_codec, step_bound
from icgd.verification.bounds.linear_model_theory import lasso_bound, strongly_convex_bound
from icgd.verification.probes.cot_linear import LinearModelProbe, run_linear_model_probes
from icgd.verification.verdict.judgement import (
    Outcome,
    Part,
    Sight,
    doubts,
    infinite_bounds,
    outcome,
    sight,
)
from icgd.verification.verdict.linear_model_table import linear_model_table
from icgd.verification.verdict.observation import NOBODY, Watched
from icgd.verification.verdict.round_record import records_growth
from icgd.verification.verdict.verdict import Verdict
from icgd.verification.weight_arithmetic import worst

REMEDY = "Raise n_grid, compile with a smaller radius or in float64, or standardise the data."


@dataclass(frozen=True)
class StepRecord:
    """One step: distances to exact gradient descent and to the minimiser, with their bounds.

    error         |w - w_gd| since the start (Euclidean, like all distances here)
    step_error    |one transformer step - one exact step from the same w|
    global_bound  sum of the step bounds: steps are non-expansive while lr <= 2 / beta
    distance      |w - w*|; for the lasso F(w) - F(w*), as in the theorem
    theorem       the theorem's bound on `distance`, with the certified eps
    """

    step: int
    error: float
    step_error: float
    step_bound: float
    global_bound: float
    distance: float
    theorem: float
    objective: float
    sight: Sight

    @property
    def number(self) -> int:
        """See Judged."""
        return self.step

    @property
    def near_kink(self) -> int:
        """See Judged: no linear model has a kink that decides."""
        return 0

    @property
    def round_error(self) -> float:
        """The same under the name networks use."""
        return self.step_error

    @property
    def round_bound(self) -> float:
        """The same under the name networks use."""
        return self.step_bound


@dataclass(frozen=True)
class Constants:
    """What the bounds are made of, on these data; see verification/bounds/linear_model_theory.py."""

    alpha: float
    beta: float
    kappa: float
    lr: float
    B_w: float
    C0: float


@dataclass(frozen=True, repr=False)
class LinearModelCheck(Verdict):
    """The verdict on a linear model's program.

    max_error        largest |w - w_gd| at any step, against autograd and torch.optim from the same w
    max_round_error  largest error of one step; round_bound bounds it, rigorously
    global_bound     bound on |w - w_gd| after the last step
    paper_bound      the theorem's bound on the distance to the true minimiser, after the last step
    distance         that distance (for the lasso the gap F(w) - F(w*))
    ratio            smallest theorem bound / distance met: how close the theorem is to being tight
    """

    max_error: float
    max_round_error: float
    round_bound: float
    global_bound: float
    paper_bound: float
    distance: float
    ratio: float
    verdict: Outcome
    rounds: list[StepRecord]
    probes: list[LinearModelProbe]
    constants: Constants
    run: Run | None
    gd_weights: Tensor
    minimiser: Tensor | None
    notes: list[str] = field(default_factory=list)

    def table(self) -> Table:
        """The verdict for the terminal."""
        return linear_model_table(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a result file."""
        keys = (
            "max_error",
            "max_round_error",
            "round_bound",
            "global_bound",
            "paper_bound",
            "distance",
            "ratio",
            "passed",
            "verdict",
            "resolution",
            "notes",
        )
        return {
            **{key: getattr(self, key) for key in keys},
            "constants": asdict(self.constants),
            "probes": [asdict(probe) for probe in self.probes],
        }


def verify_linear_model(
    program: Program,
    X: Any,
    Y: Any,
    *,
    init: Any = None,
    steps: int | None = None,
    executor: ExecutorName = "structured",
    probe_sets: int = 1,
    seed: int = 0,
    progress: bool | Callable[[int, int], None] = False,
    watched: Watched = NOBODY,
) -> LinearModelCheck:
    """Probes, then a run step by step against exact (proximal) gradient descent and the minimiser."""
    n_steps = whole_number("steps", steps)
    bound = step_bound(program, executor)
    problems = linear_model_codec(program).problems(X, Y, init)
    lanes = [_Lane(bound, x, y, w) for x, y, w in problems]
    probes = run_linear_model_probes(program, n_sets=probe_sets, seed=seed)
    records: list[StepRecord] = []
    growth = records_growth(n_steps, "steps", n_steps)
    single = len(lanes) == 1

    with progress_reporter(progress, n_steps) as report:

        def on_step(done: int, weights: Tensor) -> None:
            each = [weights] if single and weights.dim() == 1 else list(weights)
            for lane, w in zip(lanes, each, strict=True):
                lane.after_step(w.double())
            records.append(_worst([lane.records[-1] for lane in lanes]))
            growth.after_round(done, (records, [lane.records for lane in lanes]))
            exact = [lane.gd for lane in lanes]
            watched.note(done, weights, exact[0] if single else torch.stack(exact))
            if report is not None:
                report(done, n_steps)

        run: Run | None = None
        stopped = ""
        try:
            run = program.run(
                X, Y, init=init, steps=n_steps, executor=executor, record=watched.recording(on_step)
            )
        except AssumptionViolated as left:
            # A sound program that leaves its range is the caller's to mend; a broken one is a verdict.
            if all(probe.passed for probe in probes):
                raise
            stopped = f"The run stopped after {len(records)} steps: {left}"
    estimated = []
    if not program.certificate.rigorous:
        estimated.append(
            f"The certificate of {program.certificate.name} rests on a sampled constant: bounds that use it "
            "are estimates."
        )
    return _verdict(lanes, records, probes, run, stopped, estimated)


def _verdict(
    lanes: list[_Lane],
    records: list[StepRecord],
    probes: list[LinearModelProbe],
    run: Run | None,
    stopped: str,
    estimated: list[str],
) -> LinearModelCheck:
    notes = list(dict.fromkeys([*estimated, *(note for lane in lanes for note in lane.notes)]))
    if stopped:
        notes.append(stopped)
    idle = [lane for lane in lanes if lane.records and lane.says_nothing()]
    if idle:
        c = idle[0].constants
        notes.append(
            f"The theorem's bound is vacuous here: after {len(records)} steps it is not below the distance "
            f"at the start (kappa = {c.kappa:.3g})."
        )
    open_questions = [
        *doubts(records, ["w"], remedy=REMEDY, what="step"),
        *infinite_bounds("probes", [probe.bound for probe in probes]),
    ]
    sound = run is not None and all(probe.passed for probe in probes)
    sound &= all(lane.within for lane in lanes)
    last = records[-1] if records else None
    ratios = [
        r.theorem / r.distance
        for lane in lanes
        for r in lane.records
        if r.distance > lane.floor and math.isfinite(r.theorem)
    ]
    gd = [lane.gd for lane in lanes]
    return LinearModelCheck(
        max_error=worst(r.error for r in records),
        max_round_error=worst(r.step_error for r in records),
        round_bound=worst(r.step_bound for r in records),
        global_bound=last.global_bound if last else math.nan,
        paper_bound=last.theorem if last else math.nan,
        distance=last.distance if last else math.nan,
        ratio=min(ratios, default=math.nan),
        verdict=outcome(sound=bool(sound), doubts=open_questions),
        rounds=records,
        probes=probes,
        constants=lanes[0].constants,
        run=run,
        gd_weights=gd[0] if len(gd) == 1 else torch.stack(gd),
        minimiser=lanes[0].best if len(lanes) == 1 else None,
        notes=[*open_questions, *notes],
    )


class _Lane:
    """One problem: exact descent beside the transformer, the minimiser, the bounds."""

    def __init__(self, bound: StepBound, X: Tensor, y: Tensor, w: Tensor) -> None:
        self.bound, self.spec, self.lr = bound, bound.spec, bound.lr
        self.problem = LinearModel.of(bound.spec)
        self.X, self.y = X.double(), y.double()
        self.before = w.double().clone()
        self.gd = self.before
        self._oracle = gd_steps(self.problem, self.before, self.X, self.y, self.lr)
        self._sum = self._eps = 0.0
        self.records: list[StepRecord] = []
        self.notes: list[str] = []
        self.within = True
        self.best: Tensor | None = None
        self._best_value, self.floor = math.nan, 0.0
        self._minimise()
        self.constants = self._constants()
        self._from_zero = not bool(w.any())

    def _minimise(self) -> None:
        try:
            self.best = minimiser(self.problem, self.X, self.y)
        except AssumptionViolated as none:
            self.notes.append(str(none))
            return
        self._best_value = float(self.problem.objective(self.best, self.X, self.y))

    def _reach(self) -> float:
        """|s| on everything between the start, the minimiser and what gradient descent visits."""
        size = float(self.before.norm())
        if self.best is not None:
            # Non-expansive steps stay within |w_0 - w*| of w*.
            size = float(self.best.norm()) + float((self.best - self.before).norm())
        rows = self.X.square().sum(dim=1) + self.spec.intercept
        return max(1e-3, size * math.sqrt(float(rows.max())))

    def _constants(self) -> Constants:
        alpha, beta = self.problem.constants_on(self.X, self._reach(), float(self.y.abs().max()))
        zero = torch.zeros_like(self.before)
        C0 = float(self.problem.gradient(zero, self.X, self.y).norm())
        best = math.nan if self.best is None else float(self.best.norm())
        kappa = beta / alpha if alpha > 0 else math.inf
        if self.lr * beta > 1 + 1e-9:
            self.notes.append(
                f"lr = {self.lr:.4g} is above 1/beta = {1 / beta:.4g}: the theorem's bound does not apply."
            )
        if alpha > 0 and self.best is not None and self.spec.penalty == "l2":
            # How well the minimiser itself is known.
            grad = float(self.problem.gradient(self.best, self.X, self.y).norm())
            self.floor = 4 * grad / alpha + 4e-16 * best
        elif self.best is not None:
            self.floor = 64 * 2**-53 * max(1.0, abs(self._best_value))
        return Constants(alpha, beta, kappa, self.lr, 2 * best, C0)

    def after_step(self, w: Tensor) -> None:
        """Judge the step that led from the previous weights to these."""
        self.gd = next(self._oracle)
        exact = gd_step(self.problem, self.before, self.X, self.y, self.lr)
        entry = self.bound(self.before, self.X, self.y)
        step = float(entry.norm())
        self._sum += step
        self._eps = max(self._eps, step)
        t = len(self.records) + 1
        distance, theorem = self._distance(w), self._theorem(t)
        value = float(self.problem.objective(w, self.X, self.y))
        seen = sight([Part(self.before, exact, w, entry)])
        record = StepRecord(
            t,
            float((w - self.gd).norm()),
            float((w - exact).norm()),
            step,
            self._sum if self.lr * self.constants.beta <= 2 else math.inf,
            distance,
            theorem,
            value,
            seen,
        )
        self.within &= bool(((w - exact).abs() <= entry).all())
        self.within &= record.error <= record.global_bound and math.isfinite(record.error)
        if math.isfinite(theorem):
            self.within &= distance <= theorem + self.floor
        self.records.append(record)
        self.before = w.clone()

    def says_nothing(self) -> bool:
        """Whether the theorem's bound has not come below where the run started."""
        if self.best is None or self.spec.penalty == "l1":
            return False
        bound = self.records[-1].theorem
        return math.isfinite(bound) and bound >= 0.99 * self.constants.B_w / 2

    def _distance(self, w: Tensor) -> float:
        if self.best is None:
            return math.nan
        if self.spec.penalty == "l1":
            return float(self.problem.objective(w, self.X, self.y)) - self._best_value
        return float((w - self.best).norm())

    def _theorem(self, t: int) -> float:
        """The theorem's bound; step sizes below 1/beta take its place in kappa and beta."""
        c = self.constants
        if self.best is None or self.lr * c.beta > 1 + 1e-9 or not self._from_zero:
            return math.inf
        if self.spec.penalty == "l1":
            return lasso_bound(
                t,
                self._eps,
                C0=c.C0,
                beta=1 / self.lr,
                R=c.B_w,
                lam=self.spec.lam,
                d=self.spec.n_features,
            )
        if c.alpha <= 0:
            return math.inf
        return strongly_convex_bound(t, self._eps, 1 / (self.lr * c.alpha), c.B_w)


def _worst(rows: list[StepRecord]) -> StepRecord:
    if len(rows) == 1:
        return rows[0]
    names = (
        "error",
        "step_error",
        "step_bound",
        "global_bound",
        "distance",
        "theorem",
        "objective",
    )
    columns = {name: worst(getattr(r, name) for r in rows) for name in names}
    return StepRecord(
        rows[0].step,
        **columns,
        sight=Sight.of_all([r.sight for r in rows]),
    )
