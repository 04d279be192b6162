"""The stack that meets the sizes of [BRIDGE]: backpropagation, products by attention, counted and run.

Theorems 2 to 4 say that a transformer of some size exists. The one built here for that is compiled by
`method="stack", products="attention"`: plain attention and feed-forward layers, no multiplication layers.
"""

from __future__ import annotations

from functools import cache

from icgd.mechanisms import compile as compile_program
from icgd.papers.bridge.statements.counts import reverse_heads
from icgd.papers.bridge.statements.printed import BOX, LR, Case
from icgd.papers.measuring import matrices, step_bound
from icgd.problems import GD, Network
from icgd.transformer.nn.stack.stack import AttentionSublayer, Stack
from icgd.transformer.program import Program

SMALL = ((3, 4, 1), (3, 4, 4, 1), (2, 3, 3, 3, 1), (5, 2, 7, 3, 1), (4, 8, 8, 1))
"""Networks small enough to be compiled; larger ones are counted by the formula that these confirm."""


@cache
def stack_program(widths: tuple[int, ...], activation: str, n_relu: int) -> Program:
    """The compiled step on a network with a linear output and no biases."""
    network = Network(widths, activation, output="linear", bias=False)
    gd = GD(LR, box=BOX)
    return compile_program(network, gd, method="stack", products="attention", n_relu=n_relu)


def counted_heads(program: Program) -> list[int]:
    """Heads of every attention layer of one step."""
    assert isinstance(program.step, Stack)
    return [
        sum(family.n_heads for family in layer.each())
        for _, layer in program.step.each()
        if isinstance(layer, AttentionSublayer)
    ]


def formula_is_the_count(activation: str = "softplus", n_relu: int = 17) -> bool:
    """Whether `reverse_heads` gives the heads of all small networks, and 3n + 4 their layers."""
    units = (1, 2) if activation == "relu" else (n_relu, n_relu)
    programs = {widths: stack_program(widths, activation, n_relu) for widths in SMALL}
    return all(
        counted_heads(program) == reverse_heads(widths, *units)
        and isinstance(program.step, Stack)
        and program.step.n_layers == 3 * len(widths) + 1
        for widths, program in programs.items()
    )


def step_error(case: Case, n_relu: int) -> tuple[float, float]:
    """(error, bound) of one step of the stack on the data of a case, against autograd."""
    program = stack_program(case.network.widths, case.network.spec.activation, n_relu)
    moved = program.run(case.X, case.Y, init=case.weights, steps=1).weights
    off = [(a - b).abs() for a, b in zip(matrices(moved), matrices(case.exact()), strict=True)]
    bounds = step_bound(program, case.weights, case.X, case.Y)
    return max(float(m.max()) for m in off), max(float(b.max()) for b in bounds)
