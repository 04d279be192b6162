"""How many units a wanted error takes: counted on compiled networks of width one, never assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from icgd.costs.formulas import FitSize
from icgd.costs.stacks import ForwardFits, StackFits
from icgd.mechanisms import compile as compile_program
from icgd.problems import GD, Network, NetworkSpec
from icgd.transformer.nn.stack.head_family import HeadFamily
from icgd.transformer.nn.stack.stack import AttentionSublayer, MlpSublayer, Stack
from icgd.transformer.program import Program

MOST_RELU = 2048
"""Certifying a sum of M ReLUs takes 16 M^2 evaluations: more units are not tried."""
LADDER = (12, 20, 30, 50, 70, 100, 140, 200, 280, 400)
"""Units tried for fits whose error is measured and need not fall with every unit."""


@dataclass(frozen=True)
class Reached:
    """Sizes that promise an error, or None and a note that says what is in the way."""

    fits: StackFits | ForwardFits | None
    certified: float
    note: str = ""


def stack_fits(spec: NetworkSpec, n_relu: int) -> tuple[StackFits, float]:
    """Sizes of a two-layer stack's fits with n_relu units each, and the worst certificate."""
    net = Network((1, 1, 1), spec.activation, spec.output, spec.bias, spec.loss)
    program = compile_program(net, GD(lr=1.0), method="stack", n_relu=n_relu)
    step = _step(program)
    value = {j: _size(_family(step, f"forward{j}", f"out{j}")) for j in (1, 2)}
    slope = {j: _size(_family(step, "slopes", f"slope{j}")) for j in (1, 2)}
    return StackFits(value, slope, _loss(step)), program.certificate.sup_error


def at_depth(fits: StackFits, n_layers: int) -> StackFits:
    """The same fits for n_layers layers: all but the last are like the first."""
    kind = {j: 2 if j == n_layers else 1 for j in range(1, n_layers + 1)}
    return replace(
        fits,
        value={j: fits.value[k] for j, k in kind.items()},
        slope={j: fits.slope[k] for j, k in kind.items()},
    )


def forward_fits(
    spec: NetworkSpec, n_relu: int, attention: str | None
) -> tuple[ForwardFits, float]:
    """Sizes of the recursion's fits with at most n_relu units each, and the worst certificate."""
    net = Network((1, 1, 1, 1), spec.activation, spec.output, spec.bias, spec.loss)
    program = compile_program(
        net,
        GD(lr=1.0),
        method="forward_mode",
        n_relu=n_relu,
        attention=attention,
    )
    step = _step(program)
    fits = ForwardFits(
        _size(_family(step, "attention1", "out1")),
        _size(_family(step, "attention1", "new1")),
        _size(_family(step, "descend", "sums")),
        _loss(step),
    )
    return fits, program.certificate.sup_error


@lru_cache(maxsize=64)
def stack_fits_for(spec: NetworkSpec, error: float) -> Reached:
    """About the fewest ReLUs certified to `error`, by the law M^-2 from one certificate to the next.

    Certificates waver by some percent from one M to the next, and so does the answer.
    """
    n = 64
    fits, promised = stack_fits(spec, n)
    while promised > error:
        wanted = max(n + 1, math.ceil(n * math.sqrt(promised / error)))
        if wanted > MOST_RELU:
            return Reached(
                None,
                promised,
                f"Error {error:g} is out of reach of sums of up to {MOST_RELU} ReLUs: {n} units are certified "
                f"to {promised:.1e}, and by the law M^-2 about {wanted:.1e} would be needed. Not counted.",
            )
        n = wanted
        fits, promised = stack_fits(spec, n)
    while n > 3:
        # The first guess may be too good: go down by the same law while the promise allows.
        fewer = max(3, min(n - 1, math.ceil(1.02 * n * math.sqrt(promised / error))))
        tried, reached = stack_fits(spec, fewer)
        if reached > error or fewer >= 0.98 * n:
            break
        n, fits, promised = fewer, tried, reached
    return Reached(fits, promised)


@lru_cache(maxsize=64)
def forward_fits_for(spec: NetworkSpec, error: float, attention: str | None) -> Reached:
    """The first size on a ladder whose fits are measured to `error`."""
    tried: list[tuple[float, int]] = []
    for n in LADDER:
        fits, promised = forward_fits(spec, n, attention)
        if promised <= error:
            return Reached(fits, promised)
        tried.append((promised, n))
    best, n = min(tried)
    return Reached(
        None,
        best,
        f"Error {error:g} is not reached by fits of up to {LADDER[-1]} units; the best, with {n}, errs by "
        f"{best:.1e}. Not counted.",
    )


def _step(program: Program) -> Stack:
    assert isinstance(program.step, Stack)
    return program.step


def _family(step: Stack, layer: str, family: str) -> HeadFamily:
    sublayer = step.sublayers[layer]
    assert isinstance(sublayer, AttentionSublayer)
    heads = sublayer.families[family]
    assert isinstance(heads, HeadFamily)
    return heads


def _size(family: HeadFamily) -> FitSize:
    uses = (family.a != 0).sum(dim=0).tolist()
    return FitSize(family.c.numel(), tuple(int(n) for n in uses))


def _loss(step: Stack) -> tuple[int, int]:
    layer = step.sublayers["loss"]
    assert isinstance(layer, MlpSublayer)
    counts = layer.counts(step.layout.width)
    return counts.hidden, counts.nonzeros
