"""What is watched while a program runs, and what the run cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from icgd.transformer.program.session import Session
from icgd.transformer.runtime.cost import Cost
from icgd.transformer.runtime.loop import LoopState
from icgd.transformer.runtime.watch import RangeWatch

if TYPE_CHECKING:
    from icgd.transformer.program.program import Program


def range_watch(program: Program, session: Session) -> RangeWatch:
    """A watch over what this program's heads are asked in a session."""
    # Many problems make large tensors: look at them more often, so that few are kept.
    every = max(1, min(64, 4096 // max(1, session.n_problems)))
    slope = program.step.slope
    return RangeWatch(
        program.radius,
        slope,
        lambda largest: 0.0,
        every=every,
        z_bound=2 / torch.finfo(program.dtype).eps / slope,
        units=session.units,
    )


def run_cost(program: Program, session: Session, state: LoopState) -> Cost:
    """Rounds, blocks and operations of a run that has ended."""
    n = session.n_problems
    return Cost(
        rounds=state.rounds,
        blocks=state.blocks_written,
        live_blocks_max=state.live_blocks_max,
        dense_flops=n * state.blocks_written * program.step.dense_flops(session.n_columns),
        structured_flops=n * state.rounds * session.structured_flops_per_round,
    )
