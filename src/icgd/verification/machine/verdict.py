"""From records of rounds to a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from icgd.verification.machine.check import MachineCheck, MachineRound
from icgd.verification.probes.machine import MachineProbes
from icgd.verification.verdict.judgement import Sight, doubts, infinite_bounds, outcome
from icgd.verification.weight_arithmetic import worst

REMEDY = (
    "Compile with heads='float' or a smaller radius, keep numbers away from the poles of functions (a root or "
    "a quotient near 0), or compile in float64."
)


def judged(
    records: Sequence[MachineRound],
    names: Sequence[Sequence[str]],
    run: Any,
    probes: list[MachineProbes],
    *,
    predictions: Sequence[MachineRound] = (),
    drift: float = 0.0,
    stopped: str = "",
) -> MachineCheck:
    """The verdict: see verification/verdict/judgement.py for its rules.

    names   of the results of every round, in the order of its sight
    drift   largest distance to PyTorch's own run, as a fraction of the way that one goes
    """
    sound = not stopped and all(r.within for r in (*records, *predictions))
    sound &= all(probe.passed for probe in probes)
    aligned, every = _aligned(records, names)
    doubtful = [
        *doubts(aligned, every, remedy=REMEDY, drift=drift),
        *infinite_bounds("predictions", [r.round_bound for r in predictions]),
    ]
    notes = [*doubtful, *_complaints([*records, *predictions], probes)]
    if stopped:
        notes.append(f"The program was altered after compiling and stopped: {stopped}")
    return MachineCheck(
        max_error=worst(r.error for r in records),
        twin=worst(r.twin for r in records),
        max_round_error=worst(r.round_error for r in records),
        round_bound=worst(r.round_bound for r in records),
        verdict=outcome(sound=sound, doubts=doubtful),
        near_kink=sum(r.near_kink for r in records),
        rounds=list(records),
        run=run,
        prediction_error=worst(r.round_error for r in predictions) if predictions else math.nan,
        prediction_bound=worst(r.round_bound for r in predictions) if predictions else math.nan,
        probes=probes,
        notes=notes,
    )


def _aligned(
    records: Sequence[MachineRound], names: Sequence[Sequence[str]]
) -> tuple[list[MachineRound], list[str]]:
    """Records whose sight lists the same results, those absent from a round as still."""
    every = list(dict.fromkeys(name for listed in names for name in listed))
    aligned = []
    for record, listed in zip(records, names, strict=True):
        at = {name: k for k, name in enumerate(listed)}
        ratios = tuple(record.sight.ratios[at[n]] if n in at else math.inf for n in every)
        blind = tuple(record.sight.blind[at[n]] if n in at else False for n in every)
        aligned.append(replace(record, sight=Sight(ratios, blind)))
    return aligned, every


def _complaints(records: Sequence[MachineRound], probes: Sequence[MachineProbes]) -> list[str]:
    beyond = [r for r in records if not r.within]
    notes = []
    if beyond:
        first = beyond[0]
        notes.append(
            f"{len(beyond)} rounds are beyond their bounds, first round {first.round} (tape {first.tape}): off "
            f"by {first.round_error:.3g}, where at most {first.round_bound:.3g} is allowed."
        )
    failed = [p for p in probes if not p.passed]
    if failed:
        first_probe = failed[0]
        notes.append(
            f"{len(failed)} kinds of steps fail their probes, first {first_probe.kind} "
            f"({first_probe.executor}): off by {first_probe.error:.3g}, where at "
            f"most {first_probe.bound:.3g} is allowed."
        )
    return notes
