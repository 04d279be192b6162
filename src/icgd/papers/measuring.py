"""What several papers measure with: differences of tensors, and the bound of one step of a stack."""

from __future__ import annotations

from torch import Tensor

from icgd.mechanisms.stacks.backward import StackBuilder
from icgd.mechanisms.stacks.compile_backward import stack_options
from icgd.problems import NetworkSpec, Weights
from icgd.transformer.program import Program
from icgd.verification.bounds.stack import ReverseBound

UNIT = 2.0**-52


def gap(left: Tensor, right: Tensor) -> float:
    """Largest absolute difference."""
    return float((left - right).abs().max())


def matrices(weights: Weights) -> list[Tensor]:
    """All entries of weights, biases too."""
    return [part for pair in weights for part in pair if part is not None]


def step_bound(program: Program, weights: Weights, X: Tensor, Y: Tensor) -> list[Tensor]:
    """How far one step of a stack may be from exact gradient descent, entry by entry."""
    spec = program.codec.spec  # type: ignore[attr-defined]
    assert isinstance(spec, NetworkSpec)
    options = stack_options(program.blueprint)
    bound = ReverseBound(spec, StackBuilder(spec, options), options.lr, UNIT / 2, literal=False)
    return matrices(bound(weights, X, Y))
