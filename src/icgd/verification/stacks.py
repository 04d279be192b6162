"""The verdict on a stack: fits, probes, and a run step by step against exact gradient descent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import AssumptionViolated
from icgd.mechanisms.stacks.backward import StackBuilder
from icgd.mechanisms.stacks.builders import builder_of
from icgd.oracle.network_gd import network_gd_step, network_gd_steps
from icgd.problems import Weights
from icgd.transformer.program import Program, Run
from icgd.transformer.program.progress import progress_reporter
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.transformer.runtime.watch import KinkReport
from icgd.verification.bounds.curvature import sharpest
from icgd.verification.bounds.forward_mode import ForwardBound
from icgd.verification.bounds.stack import ReverseBound, StepBound
from icgd.verification.probes.stack import StackProbe, run_stack_probes
from icgd.verification.probes.stack_fits import check_stack_fits
from icgd.verification.probes.stack_wiring import FitCheck
from icgd.verification.verdict.judgement import (
    Outcome,
    Part,
    doubts,
    infinite_bounds,
    outcome,
    part_names,
    sight,
)
from icgd.verification.verdict.observation import NOBODY, Watched
from icgd.verification.verdict.round_record import RoundRecord, records_growth, worst_record
from icgd.verification.verdict.verdict import Verdict
from icgd.verification.weight_arithmetic import (
    all_within,
    clone,
    distance,
    euclidean,
    largest,
    of_problem,
    parts,
    relative,
    together,
    worst,
)

if TYPE_CHECKING:
    from rich.table import Table

REMEDY = "Raise n_relu, compile with a smaller radius or in float64, or standardise the data."
HOPELESS = 1e6
"""A bound on the whole run above which it is not carried on."""
CURVATURES = 6
"""States at which the largest curvature is looked at, for the corollary's bound."""


@dataclass(frozen=True, repr=False)
class StackCheck(Verdict):
    """The verdict on a stack.

    max_error        largest |w - w_gd| at any step, against autograd and torch.optim from the same w
    max_round_error  largest error of one step; round_bound bounds it
    global_bound     bound on |w - w_gd| after the last step, from step bounds and how steps spread errors
    paper_bound      Corollary 1.1 with the step size where it prints n, at the measured curvature
    sgd_weights      of torch.optim.SGD on all rows at once, from the same start
    fits             every stored part against what it promises on its whole range
    """

    max_error: float
    max_round_error: float
    round_bound: float
    global_bound: float
    paper_bound: float
    verdict: Outcome
    near_kink: KinkReport
    rounds: list[RoundRecord]
    probes: list[StackProbe]
    run: Run | None
    sgd_weights: Weights
    fits: list[FitCheck] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def table(self) -> Table:
        """The verdict for the terminal."""
        from icgd.verification.verdict.check_table import rows_table

        final = self.rounds[-1].error if self.rounds else math.nan
        rows = [
            ("one step from the same weights", self.max_round_error, self.round_bound),
            ("end of the run, global bound", final, self.global_bound),
        ]
        part = max(self.fits, key=lambda fit: (not fit.passed, fit.error))
        rows += [(f"probe {p.name} ({p.executor})", p.error, p.bound) for p in self.probes]
        rows.append((f"{len(self.fits)} stored parts, worst {part.name}", part.error, part.bound))
        return rows_table(self.verdict, rows, resolution=self.resolution)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a result file."""
        keys = (
            "max_error",
            "max_round_error",
            "round_bound",
            "global_bound",
            "paper_bound",
            "passed",
            "verdict",
            "resolution",
            "notes",
        )
        return {
            **{key: getattr(self, key) for key in keys},
            "probes": [asdict(probe) for probe in self.probes],
            "fits": [asdict(fit) for fit in self.fits],
        }


def make_bound(program: Program, executor: ExecutorName) -> StepBound:
    """The step bound of a stack, with the fits it was compiled from."""
    builder, lr = builder_of(program.blueprint), program.optimizer.lr
    u, literal = torch.finfo(program.dtype).eps / 2, executor in ("sparse", "dense")
    if isinstance(builder, StackBuilder):
        return ReverseBound(builder.spec, builder, lr, u, literal=literal)
    return ForwardBound(builder.spec, builder, lr, u, literal=literal)


def verify_stack(
    program: Program,
    X: Any,
    Y: Any,
    *,
    init: Any,
    steps: int | None = None,
    executor: ExecutorName = "structured",
    probe_sets: int = 1,
    seed: int = 0,
    progress: bool | Callable[[int, int], None] = False,
    watched: Watched = NOBODY,
) -> StackCheck:
    """Probes, then a run step by step against exact gradient descent and the corollary."""
    n_steps = whole_number("steps", steps)
    bound = make_bound(program, executor)
    lanes = [_Lane(program, bound, *each, n_steps) for each in program.codec.problems(X, Y, init)]
    fits = check_stack_fits(program)
    probes = run_stack_probes(program, make_bound, n_sets=probe_sets, seed=seed)
    batched = len(lanes) > 1 or lanes[0].X.dim() < torch.as_tensor(X).dim()
    records: list[RoundRecord] = []
    growth = records_growth(n_steps, "steps", n_steps)
    run, stopped = None, ""
    with progress_reporter(progress, n_steps) as report:

        def on_step(done: int, weights: Weights) -> None:
            rows = [
                lane.after_step(of_problem(weights, i) if batched else clone(weights))
                for i, lane in enumerate(lanes)
            ]
            records.append(worst_record(rows))
            growth.after_round(done, records)
            exact = [lane.gd for lane in lanes]
            watched.note(done, weights, together(exact) if batched else exact[0])
            if report is not None:
                report(done, n_steps)

        try:
            run = program.run(
                X, Y, init=init, steps=n_steps, executor=executor, record=watched.recording(on_step)
            )
        except AssumptionViolated as left:
            # A sound program that leaves its range is the caller's to mend; a broken one is a verdict.
            if _all_passed(fits, probes):
                raise
            stopped = f"The run stopped after {len(records)} steps: {left}"
    return _verdict(program, lanes, records, (fits, probes), run, stopped, batched)


class _Lane:
    """One problem: the oracle's own run, exact steps from the stack's state, the bounds."""

    def __init__(
        self, program: Program, bound: StepBound, X: Tensor, Y: Tensor, init: Weights, n_steps: int
    ) -> None:
        self.X, self.Y, self.gd = X, Y, clone(init)
        self.spec, self.bound, self.dtype = program.problem.spec, bound, program.dtype
        self.lr, self.box = program.optimizer.lr, program.optimizer.box
        self._oracle: Iterator[Weights] = network_gd_steps(self.spec, init, X, Y, self.lr, self.box)
        self._before = clone(init)
        self._start, self._apart, self._way = clone(init), 0.0, 0.0
        self._spread: Weights | None = None
        self._global = 0.0
        self._looks = {round(k * n_steps / CURVATURES) for k in range(CURVATURES)}
        self._curvature, self._theorem, self._step = 0.0, 0.0, 0
        self.within = True

    @property
    def drift(self) -> float:
        """Largest distance to exact descent, as a fraction of the way that goes."""
        return relative(self._apart, self._way)

    def after_step(self, weights: Weights) -> RoundRecord:
        """Judge the step that led from the previous weights to these."""
        before = self._before
        if self._step in self._looks:
            self._curvature = max(self._curvature, sharpest(self.spec, before, self.X, self.Y))
        self._step += 1
        self.gd = next(self._oracle)
        exact = network_gd_step(self.spec, before, self.X, self.Y, self.lr, self.box)
        local = self.bound(before, self.X, self.Y)
        kinks = self.bound.kinks
        self._widen(before)
        off = distance(weights, exact)
        self._theorem = (1 + self.lr * self._curvature) * self._theorem + euclidean(weights, exact)
        self._before = weights
        self.within &= all_within(weights, exact, local)
        seen = sight([Part(*tensors) for tensors in parts(before, exact, weights, local)])
        error = distance(weights, self.gd)
        self._apart = worst((self._apart, error))
        self._way = max(self._way, distance(self._start, self.gd))
        return RoundRecord(
            self._step,
            error,
            off,
            largest(local),
            self._global,
            self._theorem,
            kinks,
            distance(before, exact),
            seen,
        )

    def _widen(self, before: Weights) -> None:
        """Carry the uncertainty of the whole run one step on; once it is hopeless it stays infinite."""
        if self._global > HOPELESS:
            self._global = math.inf
            return
        self._spread = self.bound(before, self.X, self.Y, self._spread)
        self._global = largest(self._spread)


def _verdict(
    program: Program,
    lanes: list[_Lane],
    records: list[RoundRecord],
    parts: tuple[list[FitCheck], list[StackProbe]],
    run: Run | None,
    stopped: str,
    batched: bool,
) -> StackCheck:
    fits, probes = parts
    notes = [stopped] if stopped else []
    notes += [
        f"Stored part {f.name} is {f.error:.3g} away from its function and may be {f.bound:.3g}."
        for f in fits
        if not f.passed
    ]
    missed = [probe for probe in probes if not probe.passed]
    if missed:
        notes.append(
            f"{len(missed)} of {len(probes)} probes fail, first {missed[0].name} ({missed[0].executor})."
        )
    if not program.certificate.rigorous:
        notes.append(
            f"The certificate of {program.certificate.name} was measured on a grid, not proven: bounds that "
            "use it are estimates."
        )
    size = max(largest(lane.gd) for lane in lanes)
    vacuous = [r.round for r in records if not r.global_bound <= size]
    if vacuous:
        notes.append(
            f"The global bound exceeds the largest weight ({size:.2g}) from step {vacuous[0]} on: it is "
            "vacuous there."
        )
    kinks = [r.round for r in records if r.near_kink]
    if kinks:
        notes.append(
            f"{len(kinks)} steps met a unit so near its corner that it may have been taken for the other "
            f"side, first step {kinks[0]}; their bound includes the whole signal of that unit."
        )
    finite = all(math.isfinite(r.error) and math.isfinite(r.round_error) for r in records)
    within = all(lane.within for lane in lanes)
    within &= not any(r.error > r.global_bound for r in records)
    if records and not (finite and within):
        notes.append("The run is not within its bounds.")
    spec = program.problem.spec
    open_questions = [
        *doubts(
            records,
            part_names(spec.n_layers, spec.bias),
            remedy=REMEDY,
            what="step",
            drift=worst(lane.drift for lane in lanes),
        ),
        *infinite_bounds("probes", [probe.bound for probe in probes]),
    ]
    sound = run is not None and finite and within and _all_passed(fits, probes)
    gd = [lane.gd for lane in lanes]
    return StackCheck(
        max_error=worst(r.error for r in records),
        max_round_error=worst(r.round_error for r in records),
        round_bound=worst(r.round_bound for r in records),
        global_bound=records[-1].global_bound if records else math.nan,
        paper_bound=records[-1].paper_bound if records else math.nan,
        verdict=outcome(sound=sound, doubts=open_questions),
        near_kink=run.near_kink if run is not None else KinkReport(),
        rounds=records,
        probes=probes,
        run=run,
        sgd_weights=together(gd) if batched else gd[0],
        fits=fits,
        notes=[*open_questions, *notes],
    )


def _all_passed(fits: list[FitCheck], probes: list[StackProbe]) -> bool:
    return all(fit.passed for fit in fits) and all(probe.passed for probe in probes)
