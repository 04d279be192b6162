"""Is this program one that trains a network by SGD, as it claims?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from icgd.errors import AssumptionViolated
from icgd.mechanisms.checked_data import check_epochs
from icgd.oracle import sgd_epochs, sgd_round
from icgd.problems import NetworkSpec, Weights
from icgd.transformer.gadgets.heads.spectral_theory import (
    head_error_polynomial,
    make_geometry,
    pairwise_error_polynomial,
)
from icgd.transformer.program import Program, Run
from icgd.transformer.program.progress import progress_reporter
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.transformer.runtime.watch import KinkReport
from icgd.verification.bounds.cot_rounds import StepErrors, paper_bound, round_error
from icgd.verification.bounds.round import Arithmetic, output_bound, round_bound
from icgd.verification.bounds.whole_run import expansion
from icgd.verification.probes.cot_network import ProbeResult, run_probes
from icgd.verification.probes.grid import GridCheck, check_grid
from icgd.verification.verdict.check_table import check_table
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
from icgd.verification.verdict.prediction_check import PREDICTED_ROWS, PredictionCheck
from icgd.verification.verdict.round_record import RoundRecord, records_growth, worst_record
from icgd.verification.verdict.verdict import Verdict
from icgd.verification.weight_arithmetic import (
    clone,
    distance,
    of_problem,
    parts,
    relative,
    together,
    worst,
)

REMEDY = (
    "With this head's error a query could leave the certified range, or a unit its side of the kink: raise "
    "n_grid or radius, compile in float64, or standardise the data."
)

NO_PREDICTION = PredictionCheck(math.nan, math.nan)


@dataclass(frozen=True, repr=False)
class Check(Verdict):
    """The verdict of `icgd.verify`.

    max_error        largest |W - W_sgd| in any round, against torch.optim.SGD from the same start
    max_round_error  largest error of one round from the same state; round_bound bounds it, rigorously
    global_bound     bound on the error after the last round; rigorous, often vacuous
    paper_bound      the printed L * eps_round; rests on a false claim and decides nothing
    prediction_error largest |prediction - torch's| on some rows with the final weights; prediction_bound
    verdict          "passed": grid, probes, rounds and predictions within bounds that mean something
    run              the run; None if a program that failed its probes could not finish it
    """

    max_error: float
    max_round_error: float
    round_bound: float
    global_bound: float
    paper_bound: float
    prediction_error: float
    prediction_bound: float
    verdict: Outcome
    near_kink: KinkReport
    rounds: list[RoundRecord]
    probes: list[ProbeResult]
    grid: GridCheck
    run: Run | None
    sgd_weights: Weights
    notes: list[str] = field(default_factory=list)

    def table(self) -> Any:
        """A rich table of the verdict."""
        return check_table(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a result file."""
        keys = (
            "max_error",
            "max_round_error",
            "round_bound",
            "global_bound",
            "paper_bound",
            "prediction_error",
            "prediction_bound",
            "passed",
            "verdict",
            "resolution",
        )
        return {
            **{key: getattr(self, key) for key in keys},
            "near_kink": asdict(self.near_kink),
            "notes": self.notes,
            "grid": asdict(self.grid),
            "probes": [asdict(probe) for probe in self.probes],
        }


def verify_network(
    program: Program,
    X: Any,
    Y: Any,
    *,
    init: Any,
    epochs: int | None = None,
    executor: ExecutorName = "structured",
    probe_sets: int = 1,
    seed: int = 0,
    progress: bool | Callable[[int, int], None] = False,
    watched: Watched = NOBODY,
) -> Check:
    """Hold a program against PyTorch's own SGD, against its certificates, and against probes.

    1. the stored grid must keep the promise of the head's certificate;
    2. probe blocks of every step type, every slot filled, queries up to the radius, on the structured
       executor and (where it fits) on the literal matrices;
    3. a training run, round by round against autograd and torch.optim.SGD;
    4. predictions with the weights it ends with, against torch.nn.

    """
    epochs = check_epochs(epochs)
    judge = _Judge(program, X, Y, init, epochs, executor)
    grid = check_grid(program)
    probes = run_probes(program, n_sets=probe_sets, seed=seed)
    with progress_reporter(progress, judge.n_rounds) as report:

        def on_round(done: int, weights: Weights) -> None:
            judge.after_round(weights)
            watched.note(done, weights, judge.exact_weights())
            if report is not None:
                report(done, judge.n_rounds)

        try:
            run = program.run(
                X,
                Y,
                init=init,
                epochs=epochs,
                executor=executor,
                record=watched.recording(on_round),
            )
            predictions = judge.predictions(run)
        except AssumptionViolated as stopped:
            # A sound program that leaves its range is the caller's to mend; a broken one is a verdict.
            if grid.passed and all(probe.passed for probe in probes):
                raise
            return judge.verdict(None, grid, probes, NO_PREDICTION, stopped=str(stopped))
    return judge.verdict(run, grid, probes, predictions)


class _Judge:
    """Walks beside a run, one exact round at a time."""

    def __init__(
        self, program: Program, X: Any, Y: Any, init: Any, epochs: int, executor: ExecutorName
    ) -> None:
        self.spec: NetworkSpec = program.problem.spec
        self.lr = program.optimizer.lr
        self.records: list[RoundRecord] = []
        self._geometry = make_geometry(**program.options)
        self._u = torch.finfo(program.dtype).eps / 2
        pairs = executor == "structured" and program.step.rounding.reads_pairs
        polynomial = pairwise_error_polynomial if pairs else head_error_polynomial
        self._polynomial = polynomial(self._geometry, self._u)
        self._machine = Arithmetic(
            self._head_error, self._u, program.step.slope, exact_zero=executor == "structured"
        )
        problems = program.codec.problems(X, Y, init)
        self._lanes = [_Lane(self, x, y, weights, epochs) for x, y, weights in problems]
        self.n_rows = len(self._lanes[0].X)
        self.n_rounds = epochs * self.n_rows
        self._growth = records_growth(self.n_rounds, "epochs", epochs)
        self._batched = np.ndim(X) == 3
        self._within = True
        self._program, self._executor = program, executor
        self.dtype = program.dtype

    def _head_error(self, s: Tensor) -> Tensor:
        c0, c1, c2 = self._polynomial
        inside = s <= self._geometry.radius * (1 + 4 * self._u)
        return torch.where(inside, c0 + c1 * s + c2 * s * s, torch.inf)

    def after_round(self, weights: Weights) -> None:
        """Compare every problem's weights and keep the worst."""
        rows = [
            lane.after_round(of_problem(weights, i) if self._batched else clone(weights))
            for i, lane in enumerate(self._lanes)
        ]
        self.records.append(worst_record(rows))
        self._growth.after_round(len(self.records), self.records)
        # Every part of every problem against its own bound, not the worst against the worst.
        self._within &= all(lane.within for lane in self._lanes)

    def exact_weights(self) -> Weights:
        """Those of exact SGD after the same rounds."""
        return together([lane.sgd for lane in self._lanes]) if self._batched else self._lanes[0].sgd

    def verdict(
        self,
        run: Run | None,
        grid: GridCheck,
        probes: list[ProbeResult],
        predictions: PredictionCheck,
        *,
        stopped: str = "",
    ) -> Check:
        """Collect the maxima and decide."""
        records = self.records
        # The global bound is rigorous where it says anything; NaN and infinity say nothing.
        within = self._within and not any(r.error > r.global_bound for r in records)
        finite = all(math.isfinite(r.error) and math.isfinite(r.round_error) for r in records)
        sound = grid.passed and all(probe.passed for probe in probes)
        open_questions = [
            *doubts(
                records,
                part_names(self.spec.n_layers, self.spec.bias),
                remedy=REMEDY,
                drift=worst(lane.drift for lane in self._lanes),
            ),
            *infinite_bounds("predictions", [predictions.bound]),
        ]
        sound &= run is not None and within and finite
        sound &= predictions.error <= predictions.bound
        notes = [*open_questions, *self._notes()]
        if run is not None and not predictions.error <= predictions.bound:
            notes.append(
                f"Predictions are off by {predictions.error:.3g} and may be by {predictions.bound:.3g}."
            )
        if stopped:
            notes.append(f"Stopped after {len(records)} rounds: {stopped}")
        return Check(
            max_error=worst(r.error for r in records),
            max_round_error=worst(r.round_error for r in records),
            round_bound=worst(r.round_bound for r in records),
            global_bound=records[-1].global_bound if records else math.nan,
            paper_bound=records[-1].paper_bound if records else math.nan,
            prediction_error=predictions.error,
            prediction_bound=predictions.bound,
            verdict=outcome(sound=bool(sound), doubts=open_questions),
            near_kink=run.near_kink if run is not None else KinkReport(),
            rounds=records,
            probes=probes,
            grid=grid,
            run=run,
            sgd_weights=self.exact_weights(),
            notes=notes,
        )

    def predictions(self, run: Run) -> PredictionCheck:
        """The transformer's own predictions with the final weights, on the first rows of every problem."""
        rows = slice(0, min(PREDICTED_ROWS, self.n_rows))
        X = torch.stack([lane.X[rows] for lane in self._lanes])
        predicted = self._program.predict(
            X if self._batched else X[0], run.weights, executor=self._executor
        ).double()
        predicted = predicted if self._batched else predicted.unsqueeze(0)
        errors, bounds = [], []
        for i, x in enumerate(X):
            weights = of_problem(run.weights, i) if self._batched else run.weights
            for row, got in zip(x, predicted[i], strict=True):
                exact, bound = output_bound(self.spec, weights, row, self._machine)
                errors.append(float((got - exact).abs().max()))
                bounds.append(bound)
        return PredictionCheck.worst(errors, bounds)

    def _notes(self) -> list[str]:
        notes = []
        size = max(float(W.abs().max()) for lane in self._lanes for W, _ in lane.sgd)
        vacuous = [r.round for r in self.records if not r.global_bound <= size]
        if vacuous:
            notes.append(
                f"The global bound exceeds the largest weight ({size:.2g}) from round {vacuous[0]} on: "
                "it is vacuous there."
            )
        above = [r.round for r in self.records if r.error > r.paper_bound]
        if above:
            notes.append(
                f"The paper's bound is violated in {len(above)} rounds, first in {above[0]}."
            )
        kinks = [r.round for r in self.records if r.near_kink]
        if kinks:
            notes.append(
                f"{len(kinks)} rounds met a unit whose ReLU rounding could decide, first round {kinks[0]}; "
                "their bound includes the whole signal of that unit."
            )
        if self.dtype != torch.float64 and kinks:
            notes.append(
                "In float32 rounding decides a ReLU now and then; where it does, the run leaves the oracle by "
                "far more than rounding, within the bound of that round."
            )
        return notes


class _Lane:
    """One problem: the oracle's own run, exact rounds from the transformer's state, the bounds."""

    def __init__(self, judge: _Judge, X: Tensor, Y: Tensor, init: Weights, epochs: int) -> None:
        self.X, self.Y = X, Y
        self._judge = judge
        self._before = clone(init)
        self._oracle = sgd_epochs(judge.spec, init, X, Y, judge.lr, epochs)
        self._round = 0
        self._global = 0.0
        self._eps = 0.0
        self._start, self._apart, self._way = clone(init), 0.0, 0.0
        self.within = True
        self.sgd = init

    @property
    def drift(self) -> float:
        """Largest distance to SGD's own run, as a fraction of the way that one goes."""
        return relative(self._apart, self._way)

    def after_round(self, weights: Weights) -> RoundRecord:
        """Judge the round that led from the previous weights to these."""
        j, before = self._judge, self._before
        row = self._round % len(self.X)
        x, y = self.X[row], self.Y[row]
        self._round += 1
        self.sgd = next(self._oracle)
        exact = sgd_round(j.spec, before, x, y, j.lr)
        local = round_bound(j.spec, before, x, y, j.lr, j._machine)
        bounds = [bound for pair in local.parts for bound in pair[: 1 + j.spec.bias]]
        judged = [
            Part(old, want, got, bound)
            for (old, want, got), bound in zip(parts(before, exact, weights), bounds, strict=True)
        ]
        self._global = local.bound + expansion(j.spec, before, x, y, j.lr, self._global)
        self._eps = max(self._eps, _printed_round_error(j, before, x, y))
        self._before = weights
        self.within &= all(part.within for part in judged)
        error = distance(weights, self.sgd)
        self._apart = worst((self._apart, error))
        self._way = max(self._way, distance(self._start, self.sgd))
        return RoundRecord(
            round=self._round,
            error=error,
            round_error=distance(weights, exact),
            round_bound=local.bound,
            global_bound=self._global,
            paper_bound=paper_bound(self._round, self._eps),
            near_kink=local.near_kink,
            update=distance(before, exact),
            sight=sight(judged),
        )


def _printed_round_error(judge: _Judge, weights: Weights, x: Tensor, y: Tensor) -> float:
    """eps_round with each step's accuracy taken from the heads' certificate at this state.

    forward: sum_j |W_rj| e(o_j);  backward: the larger of lr |delta_r| e(o_j) and sum_r |W_rj| e(delta_r)
    """
    spec, head = judge.spec, judge._head_error
    inputs, value = [], x.double()
    for i, (W, b) in enumerate(weights, 1):
        inputs.append(value)
        z = W.double() @ value + (0.0 if b is None else b.double())
        value = z if spec.is_linear(i) else z.relu()
    forward = [
        float((W.double().abs() @ head(o.abs())).max())
        for (W, _), o in zip(weights, inputs, strict=True)
    ]
    signal, backward = value - y.double(), []
    for i in range(spec.n_layers, 0, -1):
        W = weights[i - 1][0].double()
        after = inputs[i] if i < spec.n_layers else value
        delta = signal if spec.is_linear(i) else torch.where(after > 0, signal, 0.0)
        update = judge.lr * float(delta.abs().max()) * float(head(inputs[i - 1].abs()).max())
        backward.append(max(update, float((W.T.abs() @ head(delta.abs())).max())))
        signal = W.T @ delta
    errors = StepErrors(
        x=forward[0],
        forward=max(forward[1:], default=0.0),
        y=backward[0],
        backward=max(backward[1:], default=0.0),
    )
    return round_error(spec.n_layers, errors)
