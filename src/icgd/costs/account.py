"""icgd.cost: one network, one method, every number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from icgd.base.numbers import whole_number
from icgd.costs.cot import (
    CotSizes,
    PromptCosts,
    cot_calls,
    cot_structured_flops,
    scan_flops,
)
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
from icgd.costs.stacks import (
    ForwardFits,
    StackFits,
    forward_bill,
    forward_width,
    stack_bill,
    stack_layers,
    stack_width,
)
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.mechanisms.compiler import METHODS as COMPILED
from icgd.mechanisms.stacks.compile_backward import DEFAULTS as STACK
from icgd.mechanisms.stacks.compile_backward import check_radius
from icgd.mechanisms.stacks.compile_forward_mode import DEFAULTS as FORWARD
from icgd.problems import Network, NetworkSpec
from icgd.transformer.gadgets.heads.spectral_theory import (
    GridGeometry,
    grid_for_error,
    head_error,
    make_geometry,
    paper_tokens_for,
)
from icgd.transformer.nn.stack.head_family import ACTIVATIONS

Method = Literal["cot", "stack", "forward_mode", "sgd"]
METHODS: tuple[str, ...] = (*COMPILED, "sgd")
RADIUS = check_radius("radius", STACK["radius"])
"""Range in which numbers are read and functions fitted, the same for all methods."""
NUMBER = 8
"""Bytes of a float64."""


def cost(
    net: Network,
    method: Method = "cot",
    *,
    steps: int = 100,
    n_examples: int = 20,
    error: float | None = None,
    n_relu: int | None = None,
    attention: Literal["relu", "tanh", "sigmoid"] | None = None,
    box: bool = True,
    query: bool = False,
) -> MethodCost:
    """What training `net` costs: layers, heads, parameters, memory, operations under four models.

    Statement: [COT] Remark 4.1

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
    if not isinstance(net, Network):
        raise InvalidParameter("net", type(net).__name__, "be an icgd.Network")
    if method not in METHODS:
        raise InvalidParameter("method", method, f"be one of {', '.join(METHODS)}")
    steps, n_examples = whole_number("steps", steps, 1), whole_number("n_examples", n_examples, 1)
    if error is not None:
        error = check_radius("error", error)
        if n_relu is not None:
            raise InvalidParameter(
                "n_relu", n_relu, "be left out with `error`, which decides the number of units"
            )
    if n_relu is not None:
        n_relu = whole_number("n_relu", n_relu, 3)
    for name, value, home in (
        ("attention", attention, "forward_mode"),
        ("n_relu", n_relu, "stack"),
    ):
        if value is not None and method not in (home, "forward_mode"):
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
    if method == "cot":
        return _cot(net.spec, about)
    if method == "sgd":
        return _sgd(net.spec, about)
    n_tokens = n_examples + query
    if method == "stack":
        reached = _stack_sizes(net.spec, error, n_relu)
        return _stack(net.spec, about, reached, n_tokens, box)
    return _forward(
        net.spec, about, _forward_sizes(net.spec, error, n_relu, attention), n_tokens, box
    )


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


def _stack(
    spec: NetworkSpec, about: dict[str, Any], reached: Reached, n_tokens: int, box: bool
) -> MethodCost:
    width = stack_width(spec.widths, spec.bias)
    if reached.fits is None:
        return _unreached(about, reached, stack_layers(spec.n_layers), width, n_tokens)
    assert isinstance(reached.fits, StackFits)
    fits = at_depth(reached.fits, spec.n_layers)
    bill = stack_bill(spec.widths, fits, bias=spec.bias, box=box)
    sizes = {"value": fits.value[1].n_units, "slope": fits.slope[1].n_units}
    return _from_bill(about, reached, bill, n_tokens, sizes)


def _forward(
    spec: NetworkSpec, about: dict[str, Any], reached: Reached, n_tokens: int, box: bool
) -> MethodCost:
    width = forward_width(spec.widths, spec.bias)
    if reached.fits is None:
        return _unreached(about, reached, max(2, spec.n_layers), width, n_tokens)
    assert isinstance(reached.fits, ForwardFits)
    f = reached.fits
    sizes = {n: getattr(f, n).n_units for n in ("value", "product", "identity")}
    bill = forward_bill(spec.widths, f, bias=spec.bias, box=box)
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
        **_flops(lambda model: bill.flops(n_tokens, model), about),
        updates_per_pass=1,
        serial_per_pass=len(bill.layers),
        left_out=(apart,),
    )


def _unreached(
    about: dict[str, Any], reached: Reached, layers: int, width: int, n_tokens: int
) -> MethodCost:
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


def _flops(per_pass: Callable[[str], int], about: dict[str, Any]) -> dict[str, Any]:
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
        **_flops(lambda model: n * one, about),
        updates_per_pass=n,
        serial_per_pass=2 * spec.n_layers * n,
        notes=(
            "Plain matrix products; the update itself and activations are not counted, as elsewhere.",
        ),
    )


@lru_cache(maxsize=64)
def _grid(error: float) -> GridGeometry:
    return grid_for_error(error, RADIUS)


def _cot(spec: NetworkSpec, about: dict[str, Any]) -> MethodCost:
    error, n, N = about["error"], about["n_examples"], spec.n_layers
    notes = []
    if spec.activation != "relu" or spec.loss.name != "squared":
        notes.append(
            "method='cot' trains ReLU networks with the squared loss; this is the ReLU network of these widths."
        )
    geometry = make_geometry(32, 1.4, 8.25, RADIUS, "spectral")
    if error is not None:
        try:
            geometry = _grid(error)
        except AssumptionViolated as refusal:
            reached = Reached(None, head_error(geometry, RADIUS, 2.0**-53), str(refusal))
            return _unreached(about, reached, 1, CotSizes(spec.d_model).d_token, spec.d_model)
    sizes = CotSizes(spec.d_model, spec.bias, spec.output == "linear", geometry.n_grid)
    calls = cot_calls(N)

    def per_pass(model: str) -> int:
        if model == "structured":
            return n * cot_structured_flops(spec.widths, geometry.n_grid)
        return n * calls * sizes.call_flops(model)

    entries = {model: sizes.entries(model) for model in MODELS}
    return MethodCost(
        **about,
        certified=head_error(geometry, RADIUS, 2.0**-53),
        sizes={"n_grid": geometry.n_grid},
        layers=1,
        heads=(0, sizes.n_heads, 0),
        hidden=(sizes.routing_units, 0, sizes.activation_units),
        d_token=sizes.d_token,
        n_tokens=sizes.d,
        parameters=entries["dense"],
        nonzeros=entries["nonzeros"],
        memory_bytes={m: NUMBER * k for m, k in entries.items()},
        state_bytes=NUMBER * (calls + 2) * sizes.d * sizes.d_token,
        **_flops(per_pass, about),
        updates_per_pass=n,
        serial_per_pass=3 * calls * n,
        left_out=_left_out(spec, about, sizes),
        notes=tuple(notes),
    )


def _left_out(spec: NetworkSpec, about: dict[str, Any], sizes: CotSizes) -> tuple[LeftOut, ...]:
    """What the limitations of [COT] name: the mask, the prompt, the serial constant; and its own heads."""
    n, steps, N = about["n_examples"], about["steps"], spec.n_layers
    rounds = n * steps
    p = PromptCosts.after(rounds=rounds, n_layers=N)
    block = NUMBER * sizes.d * sizes.d_token

    def spread(name: str, unit: str, total: float, note: str) -> LeftOut:
        return LeftOut(name, unit, total / rounds, total / steps, total, note)

    rows = [
        spread(
            "choosing the mask",
            "addresses",
            p.addresses,
            "two blocks a call, by arithmetic on (round, layer) outside the transformer",
        ),
        spread(
            "scanning the prompt",
            "FLOPs",
            scan_flops(sizes, p.looks),
            "if the mask must be found: every column asks the flags of every column; grows with the run",
        ),
        spread(
            "serial calls",
            "calls",
            p.serial,
            "2N an example, one after the other; a stack takes all examples at once",
        ),
        spread(
            "prompt kept whole",
            "bytes",
            float(block * p.blocks),
            "2 blocks an example, N to begin with, 2N written per round; live blocks suffice",
        ),
    ]
    if about["error"] is not None:
        tokens = paper_tokens_for(about["error"], RADIUS)
        literal = replace(sizes, n_grid=int(tokens)).call_flops() * cot_calls(N) * rounds
        rows.append(
            spread(
                "nearest-level heads",
                "FLOPs",
                literal,
                f"dense, with the {tokens:.1e} grid tokens a nearest level needs for this error",
            )
        )
    return tuple(rows)
