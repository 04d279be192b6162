"""How every compiler ends: a program whose weights are frozen."""

from __future__ import annotations

from typing import Protocol

from icgd.transformer.certificate import Certificate
from icgd.transformer.layout import Layout
from icgd.transformer.mask_rules import StateMask
from icgd.transformer.nn.frozen_layer import FrozenLayer
from icgd.transformer.nn.stack.stack import Stack
from icgd.transformer.program import Blueprint, Program
from icgd.transformer.program.session import Codec


def state_program(
    blueprint: Blueprint,
    *,
    step: FrozenLayer,
    layout: Layout,
    codec: Codec,
    certificate: Certificate,
    entry: FrozenLayer | None = None,
    readout: FrozenLayer | None = None,
) -> Program:
    """A program whose one block is replaced at every step."""
    return Program(
        blueprint,
        entry=entry,
        step=step,
        readout=readout,
        mask=StateMask(),
        layout=layout,
        codec=codec,
        certificate=certificate,
    )


class LoopBuilder(Protocol):
    """What stands before and after the layer that loops."""

    layout: Layout

    def entry(self) -> Stack:
        """Layers that prepare the prompt."""

    def readout(self) -> Stack:
        """Layers that answer."""


def looped_program(
    blueprint: Blueprint,
    builder: LoopBuilder,
    step: Stack,
    *,
    codec: Codec,
    certificate: Certificate,
) -> Program:
    """The builder's entry, `step` in a loop, and the builder's read-out."""
    return state_program(
        blueprint,
        entry=builder.entry(),
        step=step,
        readout=builder.readout(),
        layout=builder.layout,
        codec=codec,
        certificate=certificate,
    )
