"""icgd.cost: one network, one method, every number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

from icgd.base.construction import constructions
from icgd.base.numbers import whole_number
from icgd.costs.fits import (
    Reached,
    at_depth,
    forward_fits,
    forward_fits_for,
    stack_fits,
    stack_fits_for,
)
from icgd.costs.formulas import MODELS, Bill, gradient_flops, n_weights
from icgd.costs.method_cost import LeftOut, MethodCost
from icgd.costs.program_cost import ProgramCost, program_cost
from icgd.costs.stacks import (
    ForwardFits,
    StackFits,
    forward_bill,
    forward_width,
    stack_bill,
    stack_layers,
    stack_width,
)
from icgd.errors import InvalidParameter
from icgd.mechanisms.stacks.compile_backward import DEFAULTS as STACK
from icgd.mechanisms.stacks.compile_backward import check_radius
from icgd.mechanisms.stacks.compile_forward_mode import DEFAULTS as FORWARD
from icgd.problems import Network, NetworkSpec
from icgd.transformer.nn.stack.head_family import ACTIVATIONS
from icgd.transformer.program import Program

YARDSTICK = "sgd"
"""Plain matrix products, beside which constructions are counted."""
RADIUS = check_radius("radius", STACK["radius"])
"""Range in which numbers are read and functions fitted, the same for all methods."""
NUMBER = 8
"""Bytes of a float64."""


@overload
def cost(net: Program, *, n_examples: int = 20) -> ProgramCost: ...


@overload
def cost(
    net: Network,
    method: str = "cot",
    *,
    steps: int = 100,
    n_examples: int = 20,
    error: float | None = None,
    n_relu: int | None = None,
    attention: Literal["relu", "tanh", "sigmoid"] | None = None,
    box: bool = True,
    query: bool = False,
) -> MethodCost: ...


def cost(
    net: Network | Program,
    method: str = "cot",
    *,
    steps: int = 100,
    n_examples: int = 20,
    error: float | None = None,
    n_relu: int | None = None,
    attention: Literal["relu", "tanh", "sigmoid"] | None = None,
    box: bool = True,
    query: bool = False,
) -> MethodCost | ProgramCost:
    """What training `net` costs: layers, heads, parameters, memory, operations under four models.

    Statement: [COT] Remark 4.1

    net         a network; or a compiled program, whose own parts are counted for `n_examples` tokens
    method      "cot" (one layer, 2N calls an example), "stack" (2N+4 layers a step), "forward_mode" (N
                layers a step), "sgd" (plain matrix products, the yardstick)
    steps       passes over the data: a full-batch step, or one round per example
    n_examples  rows of the data
    error       certified error of every fitted function, and of every number a softmax head reads, on
                |s| <= 8; the fewest units that have it are found. None: n_relu units, or 32 grid tokens
    n_relu      units per fit, as in icgd.compile; only without `error`
    attention   activation of the heads of forward_mode
    box         whether weights are projected on a box, as [DEEP] and [BRIDGE] do
    query       whether one more token asks, as there

    Differs from the paper: it says O(N) without a cost model; docs/costs.md compares four.

    >>> stack = cost(Network((3, 4, 4, 3)), "stack")
    >>> stack.layers, stack.d_token, cost(Network((3, 4, 4, 3)), "cot").layers
    (10, 95, 1)
    """
    if isinstance(net, Program):
        return program_cost(net, n_examples=n_examples)
    if not isinstance(net, Network):
        raise InvalidParameter("net", type(net).__name__, "be an icgd.Network or a program")
    counted = {c.method: c for c in constructions().values() if c.cost and c.method}
    if method not in (*counted, YARDSTICK):
        raise InvalidParameter("method", method, f"be one of {', '.join(known_methods())}")
    steps, n_examples = whole_number("steps", steps, 1), whole_number("n_examples", n_examples, 1)
    if error is not None:
        error = check_radius("error", error)
        if n_relu is not None:
            raise InvalidParameter(
                "n_relu", n_relu, "be left out with `error`, which decides the number of units"
            )
    if n_relu is not None:
        n_relu = whole_number("n_relu", n_relu, 3)
    chosen = counted.get(method)
    options = () if chosen is None else chosen.option_names()
    for name, value in (("attention", attention), ("n_relu", n_relu)):
        if value is not None and name not in options:
            raise InvalidParameter(name, value, f"be left out for method={method!r}")
    if attention is not None and attention not in ACTIVATIONS:
        raise InvalidParameter("attention", attention, f"be one of {', '.join(ACTIVATIONS)}")
    about: dict[str, Any] = {
        "method": method,
        "widths": net.widths,
        "activation": net.spec.activation,
        "n_examples": n_examples,
        "steps": steps,
        "error": error,
    }
    if chosen is None:
        return _sgd(net.spec, about)
    return chosen.apply("cost", net.spec, about, Wanted(n_relu, attention, n_examples + query, box))


@dataclass(frozen=True)
class Wanted:
    """What the cost of a stack depends on besides the network."""

    n_relu: int | None
    attention: str | None
    n_tokens: int
    box: bool


def known_methods() -> tuple[str, ...]:
    """Methods whose cost is counted, and plain SGD."""
    counted = [c.method for c in constructions().values() if c.cost and c.method]
    return (*counted, YARDSTICK)


def _stack_sizes(spec: NetworkSpec, error: float | None, n_relu: int | None) -> Reached:
    spec = replace(spec, widths=(1, 1, 1))  # fits depend on what layers apply, on nothing else
    if error is not None:
        return stack_fits_for(spec, error)
    return Reached(*stack_fits(spec, n_relu or whole_number("n_relu", STACK["n_relu"], 3)))


def _forward_sizes(
    spec: NetworkSpec, error: float | None, n_relu: int | None, attention: str | None
) -> Reached:
    if spec.output != "linear":
        raise InvalidParameter(
            "output",
            spec.output,
            "be 'linear' for method='forward_mode'",
            remedy="Use method='stack' for an activated output.",
        )
    spec = replace(spec, widths=(1, 1, 1, 1))
    if error is not None:
        return forward_fits_for(spec, error, attention)
    return Reached(
        *forward_fits(spec, n_relu or whole_number("n_relu", FORWARD["n_relu"], 3), attention)
    )


def stack_cost(spec: NetworkSpec, about: dict[str, Any], wanted: Wanted) -> MethodCost:
    """The stack that goes backward."""
    reached, n_tokens = _stack_sizes(spec, about["error"], wanted.n_relu), wanted.n_tokens
    width = stack_width(spec.widths, spec.bias)
    if reached.fits is None:
        return unreached(about, reached, stack_layers(spec.n_layers), width, n_tokens)
    assert isinstance(reached.fits, StackFits)
    fits = at_depth(reached.fits, spec.n_layers)
    bill = stack_bill(spec.widths, fits, bias=spec.bias, box=wanted.box)
    sizes = {"value": fits.value[1].n_units, "slope": fits.slope[1].n_units}
    return _from_bill(about, reached, bill, n_tokens, sizes)


def forward_mode_cost(spec: NetworkSpec, about: dict[str, Any], wanted: Wanted) -> MethodCost:
    """The stack that carries derivatives forward."""
    reached = _forward_sizes(spec, about["error"], wanted.n_relu, wanted.attention)
    n_tokens = wanted.n_tokens
    width = forward_width(spec.widths, spec.bias)
    if reached.fits is None:
        return unreached(about, reached, max(2, spec.n_layers), width, n_tokens)
    assert isinstance(reached.fits, ForwardFits)
    f = reached.fits
    sizes = {n: getattr(f, n).n_units for n in ("value", "product", "identity")}
    bill = forward_bill(spec.widths, f, bias=spec.bias, box=wanted.box)
    return _from_bill(about, reached, bill, n_tokens, sizes)


def _from_bill(
    about: dict[str, Any], reached: Reached, bill: Bill, n_tokens: int, sizes: dict[str, int]
) -> MethodCost:
    entries = {model: bill.entries(model) for model in MODELS}
    steps = about["steps"]
    apart = LeftOut(
        "all steps as separate layers",
        "bytes",
        0.0,
        0.0,
        float(NUMBER * entries["dense"] * steps),
        "the papers stack a copy of the layers per step; the same weights serve every step, so one suffices",
    )
    return MethodCost(
        **about,
        certified=reached.certified,
        sizes=sizes,
        layers=bill.n_layers,
        heads=tuple(layer.n_heads for layer in bill.layers),
        hidden=tuple(layer.hidden for layer in bill.layers),
        d_token=bill.d_token,
        n_tokens=n_tokens,
        parameters=entries["dense"],
        nonzeros=entries["nonzeros"],
        memory_bytes={m: NUMBER * n for m, n in entries.items()},
        state_bytes=NUMBER * n_tokens * bill.d_token,
        **flops_of(lambda model: bill.flops(n_tokens, model), about),
        updates_per_pass=1,
        serial_per_pass=len(bill.layers),
        left_out=(apart,),
    )


def unreached(
    about: dict[str, Any], reached: Reached, layers: int, width: int, n_tokens: int
) -> MethodCost:
    """What can be said where the wanted error cannot be had."""
    nothing: Mapping[str, None] = dict.fromkeys(MODELS)
    return MethodCost(
        **about,
        certified=reached.certified,
        sizes={},
        layers=layers,
        heads=None,
        hidden=None,
        d_token=width,
        n_tokens=n_tokens,
        parameters=None,
        nonzeros=None,
        memory_bytes=nothing,
        state_bytes=NUMBER * n_tokens * width,
        flops_per_example=nothing,
        flops_per_pass=nothing,
        flops_total=nothing,
        updates_per_pass=1,
        serial_per_pass=layers,
        notes=(reached.note,),
    )


def flops_of(per_pass: Callable[[str], int], about: dict[str, Any]) -> dict[str, Any]:
    """Operations per example, per pass and in all, by cost model."""
    operations = {model: per_pass(model) for model in MODELS}
    return {
        "flops_per_example": {m: n / about["n_examples"] for m, n in operations.items()},
        "flops_per_pass": operations,
        "flops_total": {m: n * about["steps"] for m, n in operations.items()},
    }


def _sgd(spec: NetworkSpec, about: dict[str, Any]) -> MethodCost:
    one, n, weights = (
        gradient_flops(spec.widths),
        about["n_examples"],
        n_weights(spec.widths, spec.bias),
    )
    return MethodCost(
        **about,
        certified=0.0,
        sizes={},
        layers=spec.n_layers,
        heads=(),
        hidden=(),
        d_token=spec.d_model,
        n_tokens=1,
        parameters=weights,
        nonzeros=weights,
        memory_bytes=dict.fromkeys(MODELS, NUMBER * weights),
        state_bytes=NUMBER * (sum(spec.widths) + sum(spec.widths[1:])),
        **flops_of(lambda model: n * one, about),
        updates_per_pass=n,
        serial_per_pass=2 * spec.n_layers * n,
        notes=(
            "Plain matrix products; the update itself and activations are not counted, as elsewhere.",
        ),
    )
