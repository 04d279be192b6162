"""The verdict on a program of the machine."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from icgd.verification.probes.machine import MachineProbes
from icgd.verification.verdict.check_table import rows_table
from icgd.verification.verdict.judgement import Outcome, Sight
from icgd.verification.verdict.verdict import Verdict


@dataclass(frozen=True)
class MachineRound:
    """One round, held against the user's step in PyTorch from the same numbers.

    tape         what was executed
    error        of the run since its start: |machine - PyTorch|, largest entry of weights and buffers
    twin         the same for PyTorch against PyTorch from weights one unit in the last place away
    round_error  largest error of this round where rounding does not decide; round_bound bounds every entry
    near_kink    comparisons that rounding could decide
    noise        entries whose update is rounding noise: one unit in the last place of the weights changes it
                 by more than a hundredth; noise_error is the largest error there, noise_twin what it changes
    within       whether every entry lies within its own bound
    """

    round: int
    tape: str
    error: float
    twin: float
    round_error: float
    round_bound: float
    near_kink: int
    noise: int
    noise_error: float
    noise_twin: float
    update: float
    within: bool
    sight: Sight

    @property
    def number(self) -> int:
        """See Judged."""
        return self.round


@dataclass(frozen=True, repr=False)
class MachineCheck(Verdict):
    """The verdict of `icgd.verify` on a training step or a function.

    max_error         run error: largest |machine - PyTorch| after any round, both from the same start
    twin              PyTorch against PyTorch with every initial weight moved by one unit in the last place
    max_round_error   largest error of a round from the same numbers, against the user's own step; round_bound
                      bounds it rigorously
    near_kink         comparisons met that rounding could decide
    prediction_error  largest |prediction - the module's|, with the final weights; prediction_bound
    probes            of every kind of step, over its range
    """

    max_error: float
    twin: float
    max_round_error: float
    round_bound: float
    verdict: Outcome
    near_kink: int
    rounds: list[MachineRound]
    run: Any
    prediction_error: float = math.nan
    prediction_bound: float = math.nan
    probes: list[MachineProbes] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    global_bound: float = math.nan
    paper_bound: float = math.nan

    def __repr__(self) -> str:
        return (
            f"MachineCheck(verdict={self.verdict!r}, run error {self.max_error:.3g}, twin {self.twin:.3g}, "
            f"round error {self.max_round_error:.3g} <= {self.round_bound:.3g}, {len(self.rounds):,} rounds)"
        )

    def table(self) -> Any:
        """A rich table of the verdict."""
        rows = [
            ("one round from the same numbers", self.max_round_error, self.round_bound),
            (
                "the whole run, beside 100 twins or 1e-12",
                self.max_error,
                max(1e-12, 100 * self.twin),
            ),
        ]
        if not math.isnan(self.prediction_error):
            rows.append(("predictions", self.prediction_error, self.prediction_bound))
        rows += [
            (f"{p.count} probes {p.kind} ({p.executor})", p.error, p.bound) for p in self.probes
        ]
        return rows_table(self.verdict, rows, resolution=self.resolution)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a result file."""
        keys = (
            "max_error",
            "twin",
            "max_round_error",
            "round_bound",
            "prediction_error",
            "prediction_bound",
            "near_kink",
            "passed",
            "verdict",
            "resolution",
            "notes",
        )
        rounds = [{k: v for k, v in asdict(r).items() if k != "sight"} for r in self.rounds]
        probes = [asdict(p) for p in self.probes]
        return {**{key: getattr(self, key) for key in keys}, "rounds": rounds, "probes": probes}
