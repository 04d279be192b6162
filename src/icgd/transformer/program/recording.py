"""What a program says of itself to a recorder before a run starts."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from icgd.transformer.program.session import Session
from icgd.transformer.runtime.recording.outline import block_kinds, schedule
from icgd.transformer.runtime.recording.recorder import Outline
from icgd.transformer.trace.format import ProgramInfo

if TYPE_CHECKING:
    from icgd.transformer.program.program import Program

MECHANISMS = {
    "softmax_cot_network": "one frozen softmax layer, applied again and again, trains",
    "softmax_cot_statistics": "one frozen softmax layer, applied again and again, fits",
    "relu_stack": "a stack of frozen layers per step (backpropagation) trains",
    "forward_mode": "a stack of frozen layers per step (derivatives carried forward) trains",
    "linear_attention_cot": "one frozen layer of linear attention with a chain of thought fits",
}
LOOP = "a frozen layer in a loop solves"


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
        construction=config["construction"],
        title=title_of(config),
        feed=program.feed,
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


def title_of(config: Any) -> str:
    """One line for people.

    >>> problem = {"widths": [1, 8, 1], "activation": "relu"}
    >>> optimizer = {"name": "SGD", "lr": 0.05}
    >>> title_of({"construction": "softmax_cot_network", "problem": problem, "optimizer": optimizer})
    'one frozen softmax layer, applied again and again, trains a ReLU network 1-8-1 by SGD (lr 0.05)'
    """
    problem, optimizer = config["problem"], config["optimizer"]
    if "widths" in problem:
        widths = "-".join(str(width) for width in problem["widths"])
        activation = {"relu": "ReLU", "gelu": "GELU"}.get(
            problem["activation"], problem["activation"]
        )
        what = f"a {activation} network {widths}"
    elif "loss" in problem:
        penalty = {"l1": ", lasso penalty", "l2": ", ridge penalty"}.get(problem["penalty"], "")
        what = (
            f"a linear model of {problem['n_features']} features, {problem['loss']} loss{penalty}"
        )
    elif "order" in problem:
        what = (
            f"a series of {problem['n_features']} numbers, each from the {problem['order']} before,"
        )
    elif "n_chains" in problem:
        what = f"chains of {problem['n_layers']} steps through {problem['n_features']} numbers"
    else:
        what = f"a regression of {problem['n_features']} features"
    lr = f" (lr {optimizer['lr']:.3g})" if "lr" in optimizer else ""
    mechanism = MECHANISMS.get(config["construction"], LOOP)
    return f"{mechanism} {what} by {optimizer['name']}{lr}"


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(value, default=str), parse_constant=lambda name: name)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
