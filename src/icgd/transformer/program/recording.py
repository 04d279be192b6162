"""What a program says of itself to a recorder before a run starts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from icgd.base.growth import Growth
from icgd.transformer.program.blueprint import Blueprint
from icgd.transformer.program.session import Session
from icgd.transformer.runtime.recording.outline import block_kinds, schedule
from icgd.transformer.runtime.recording.recorder import Outline
from icgd.transformer.trace.format import ProgramInfo

if TYPE_CHECKING:
    from icgd.transformer.program.program import Program


def outline_of(program: Program, session: Session, executor: str) -> Outline:
    """The program, its layout and its schedule, for a recording of this session."""
    config, steps = program.config, program.mask.steps()
    notes = []
    if program.entry is not None:
        notes.append(
            f"{len(program.entry.stages())} entry layers were applied to the prompt before the first step; "
            "the first block shown is their result."
        )
    if session.n_problems > 1:
        notes.append(f"{session.n_problems} problems were run at once; the first one was recorded.")
    info = ProgramInfo(
        construction=program.construction.name,
        title=title_of(program.blueprint),
        feed="replace" if program.mask.replaces else "append",
        problem=_plain(config["problem"]),
        optimizer=_plain(config["optimizer"]),
        options=_plain(config["options"]),
        dtype=str(config["dtype"]),
        executor=executor,
        radius=program.radius if math.isfinite(program.radius) else None,
        head_error=_finite(program.certificate.sup_error),
    )
    return Outline(
        program=info,
        layout=program.layout,
        layer=program.step,
        kinds=block_kinds(steps),
        schedule=schedule(steps),
        steps=steps,
        n_rounds=session.n_rounds,
        notes=notes,
    )


def growth_of(program: Program, session: Session, rounds: Mapping[str, object]) -> Growth:
    """What judges whether everything that is kept of a run (`record="weights"`, `"trace"`) will fit."""
    name = program.construction.rounds
    what = f"Keeping what {session.n_rounds:,} rounds write"
    return Growth(what, name, rounds.get(name) or 1, session.n_rounds)


def title_of(blueprint: Blueprint) -> str:
    """One line for people: what trains what, by which optimizer."""
    problem, optimizer = blueprint.problem, blueprint.optimizer
    lr = getattr(optimizer, "lr", None)
    pace = "" if lr is None else f" (lr {lr:.3g})"
    what = getattr(problem, "title", f"a {type(problem).__name__}")
    return f"{blueprint.construction.title} {what} by {type(optimizer).__name__}{pace}"


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(value, default=str), parse_constant=lambda name: name)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
