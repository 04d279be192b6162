"""Names for people: what the kinds of blocks and steps of a program are, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from icgd.transformer.layout import Layout
from icgd.transformer.mask_rules import Step
from icgd.transformer.trace.format import BlockKind, ScheduledStep, SlotInfo

BLOCKS = {
    "F": "forward block: a layer's output, its input and its weights",
    "B": "backward block: a layer's error signal and its new weights",
    "X": "input of the example of this round",
    "Y": "target of the example of this round",
    "G": "the data and the current weights",
    "H": "the state",
    "Q": "tokens that ask for predictions",
    "P": "predictions",
}
STEPS = {
    "x": "first forward step: the example meets layer 1",
    "forward": "forward step: a layer's output becomes the next one's input",
    "y": "first backward step: the output meets its target, and the last layer learns",
    "backward": "backward step: the error signal goes down, and the layer learns",
    "update": "update: one step of the optimizer on all examples",
    "append": "append: the last token asks the whole prompt and a new one is written",
    "predict": "prediction",
}


def block_kinds(steps: Sequence[Step]) -> list[BlockKind]:
    """Every kind of block the schedule mentions."""
    kinds = dict.fromkeys(a[0] for step in steps for a in (*step.reads, step.writes))
    return [BlockKind(kind=kind, title=BLOCKS.get(kind, kind)) for kind in kinds]


def schedule(steps: Iterable[Step]) -> list[ScheduledStep]:
    """The mask rule's schedule of a round."""
    return [
        ScheduledStep(
            kind=step.kind,
            title=STEPS.get(step.kind, step.kind),
            writes=step.writes,
            reads=list(step.reads),
        )
        for step in steps
    ]


def slots_of(layout: Layout) -> list[SlotInfo]:
    """The slots of a layout."""
    return [
        SlotInfo(name=s.name, shape=list(s.shape), meaning=s.meaning, each=s.each) for s in layout
    ]
