"""The builder a stack was made with, for those who have to know its fits."""

from __future__ import annotations

from icgd.mechanisms.stacks.backward import StackBuilder
from icgd.mechanisms.stacks.compile_backward import stack_options
from icgd.mechanisms.stacks.compile_forward_mode import forward_options
from icgd.mechanisms.stacks.forward_mode import ForwardBuilder
from icgd.transformer.program import Blueprint


def builder_of(blueprint: Blueprint) -> StackBuilder | ForwardBuilder:
    """Layouts, fits and certificates of a stack, from the blueprint of its program."""
    spec = blueprint.problem.spec
    # Only heads that carry derivatives forward have a choice of activations.
    if "attention" in blueprint.options:
        return ForwardBuilder(spec, forward_options(blueprint))
    return StackBuilder(spec, stack_options(blueprint))
