"""The verdict on a looped program: weights step by step, and answers, beside those of the exact algorithm."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from icgd.base.numbers import whole_number
from icgd.errors import FaultyPlugin, InvalidParameter
from icgd.mechanisms.loops.common.codec import LoopCodec
from icgd.mechanisms.loops.decoder.codec import DecoderCodec
from icgd.mechanisms.loops.series.series_codec import SeriesCodec
from icgd.transformer.program import Program, Run
from icgd.transformer.program.progress import progress_reporter
from icgd.transformer.runtime.executors.choose import ExecutorName
from icgd.verification.bounds.exact import Exact
from icgd.verification.verdict.judgement import Outcome, outcome
from icgd.verification.verdict.observation import NOBODY, Watched
from icgd.verification.verdict.verdict import Verdict
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
class LoopCheck(Verdict):
    """The verdict on a looped program.

    max_error     largest |w - w_exact| after any loop, both started at 0
    global_bound  bound on it after the last loop
    max_round_error, round_bound  largest growth of the error in one loop, and what one loop may add
    paper_bound   NaN: the paper promises "arbitrarily close", which is no number
    prediction_error  largest |answer - exact answer| after the last loop; prediction_bound bounds it
    """

    max_error: float
    max_round_error: float
    round_bound: float
    global_bound: float
    paper_bound: float
    prediction_error: float
    prediction_bound: float
    verdict: Outcome
    rounds: list[LoopRecord]
    run: Run | None
    exact_weights: Tensor
    notes: list[str] = field(default_factory=list)

    def table(self) -> Table:
        """The verdict for the terminal."""
        from icgd.verification.verdict.check_table import rows_table

        rows = [
            ("weights against the exact algorithm", self.max_error, self.global_bound),
            ("predictions with the final weights", self.prediction_error, self.prediction_bound),
        ]
        return rows_table(self.verdict, rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a result file."""
        keys = (
            "max_error",
            "global_bound",
            "prediction_error",
            "prediction_bound",
            "passed",
            "verdict",
            "notes",
        )
        return {key: getattr(self, key) for key in keys}


def verify_loop(
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
) -> LoopCheck:
    """Run the program and the exact algorithm side by side, and compare weights and answers."""
    n_steps = whole_number("steps", steps)
    problems = program.codec.problems(X, Y, None)
    features, targets, _ = problems[0]
    if len(problems) != 1 or features.dim() != 2:
        raise InvalidParameter(
            "X",
            tuple(features.shape),
            "be one problem",
            remedy="Verify the problems of a batch one by one.",
        )
    query, queries = _asked(program, X, features)
    data = (features.double(), targets.double(), queries.double())
    exact = program.construction.apply("exact", program, *data, n_steps)
    if not isinstance(exact, Exact):
        raise FaultyPlugin(
            f"`exact` of the construction {program.construction.name!r} must give an icgd.Exact. "
            f"Got {type(exact).__name__}."
        )
    # A fused loop spends its first application on what other loops do in their entry.
    ahead = program.codec.ahead if isinstance(program.codec, LoopCodec) else 0
    records: list[LoopRecord] = []
    with progress_reporter(progress, n_steps) as report:

        def on_step(done: int, weights: Tensor) -> None:
            loop = done - ahead
            if loop:
                want = exact.weights[loop - 1]
                error = float((weights.double().reshape(want.shape) - want).abs().max())
                records.append(LoopRecord(loop, error, exact.bounds[loop - 1]))
                watched.note(loop, weights, want)
            if report is not None and loop:
                report(loop, n_steps)

        run = program.run(
            X, Y, steps=n_steps, query=query, executor=executor, record=watched.recording(on_step)
        )
    return _verdict(program, exact, records, run)


def _asked(program: Program, X: Any, features: Tensor) -> tuple[Tensor | None, Tensor]:
    """(what to ask in the prompt, what is answered); a decoder and a series answer without being asked."""
    codec = program.codec
    if isinstance(codec, SeriesCodec):
        windows = codec.problem.windows(codec.series(X))
        return None, codec.problem.phi(windows)[..., -1:, :]
    if isinstance(codec, DecoderCodec):
        return None, features
    # One of the examples and something between two: as long as they are, so that it is in range.
    queries = torch.stack([features[0], (features[-1] - features[0]) / 2])
    return queries, queries


def _verdict(program: Program, exact: Exact, records: list[LoopRecord], run: Run) -> LoopCheck:
    notes, open_questions = list[str](), _open_questions(exact)
    if not program.certificate.rigorous:
        notes.append(
            f"The certificate of {program.certificate.name} holds to leading order in c: bounds that use it "
            "are estimates."
        )
    assert run.prediction is not None
    answers = run.prediction.double().reshape(exact.answers.shape)
    off = float((answers - exact.answers).abs().max())
    if not off <= exact.answer_bound:
        notes.append(f"Predictions are off by {off:.3g} and may be by {exact.answer_bound:.3g}.")
    errors = [r.error for r in records]
    grown = [b - a for a, b in zip([0.0, *errors], errors, strict=False)]
    sound = all(r.error <= r.global_bound for r in records) and off <= exact.answer_bound
    return LoopCheck(
        max_error=worst(errors),
        max_round_error=max(0.0, *grown),
        round_bound=max(exact.fresh),
        global_bound=exact.bounds[-1],
        paper_bound=math.nan,
        prediction_error=off,
        prediction_bound=exact.answer_bound,
        verdict=outcome(sound=sound, doubts=open_questions),
        rounds=records,
        run=run,
        exact_weights=exact.weights[-1],
        notes=[*open_questions, *notes],
    )


def _open_questions(exact: Exact) -> list[str]:
    """Weights that stay 0, or answers that are 0, must be rejected."""
    questions = []
    for what, size, bound in (
        ("weight", max(float(w.abs().max()) for w in exact.weights), exact.bounds[-1]),
        ("answer", float(exact.answers.abs().max()), exact.answer_bound),
    ):
        if not bound < size:
            questions.append(
                f"The bound on every {what}, {bound:.2g}, is not below the largest ({size:.2g}): it is vacuous "
                "and shows nothing. Take fewer steps, a smaller radius, mode='spectral' or float64."
            )
    return questions
