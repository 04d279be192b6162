"""icgd.compile: (problem, optimizer) -> Program."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, Literal

import torch

from icgd.errors import InvalidParameter, raise_all
from icgd.mechanisms.assembly import DTYPES as DTYPES
from icgd.mechanisms.assembly import make_config, own_config
from icgd.mechanisms.cot_linear.compile import compile_statistics
from icgd.mechanisms.cot_network.codec import NetworkCodec
from icgd.mechanisms.cot_network.layer import (
    CAPACITY,
    LayerOptions,
    block_layout,
    layer_slope,
    universal_layer,
)
from icgd.mechanisms.loops.compile import compile_regression
from icgd.mechanisms.sizes import check_size
from icgd.mechanisms.stacks.compile_backward import compile_stack
from icgd.mechanisms.stacks.compile_forward_mode import compile_forward_mode
from icgd.problems import (
    GD,
    SGD,
    Autoregression,
    LinearModel,
    MLPChain,
    Network,
    Newton,
    PreconditionedGD,
    RepresentationRegression,
)
from icgd.problems.foreign_optimizers import no_optimizer
from icgd.transformer.gadgets.heads.spectral_head import head_certificate
from icgd.transformer.gadgets.heads.spectral_theory import (
    Temperature,
    grid_for_error,
    grid_violations,
    head_error,
    make_geometry,
)
from icgd.transformer.mask_rules import DynamicMask
from icgd.transformer.nn.chain.grid_attention import GridAttention
from icgd.transformer.program import Program

NAME = "softmax_cot_network"
DEFAULTS: dict[torch.dtype, dict[str, float]] = {
    torch.float64: {"rho": 1.4, "margin": 8.25, "radius": 1024.0},
    # Fewer digits need smaller margins; a larger radius would cost digits. At this rho no exponential
    # overflows in float32, so that numbers are read with a small relative error.
    torch.float32: {"rho": 1.4, "margin": 6.0, "radius": 128.0},
}


Problem = Network | LinearModel | RepresentationRegression | Autoregression | MLPChain
REGRESSIONS = (RepresentationRegression, Autoregression, MLPChain)
Method = Literal["cot", "stack", "forward_mode"]
METHODS = ("cot", "stack", "forward_mode")
KINDS = {
    "cot": "a network with method='cot'",
    "linear": "a linear model",
    "stack": "method='stack'",
    "forward_mode": "method='forward_mode'",
}
_GRID = ("temperature", "n_grid", "rho", "margin", "radius", "head_error")
_STACK = ("n_relu", "radius", "signal_radius", "target_radius", "n_examples")
OPTIONS = {
    "cot": _GRID,
    "linear": (*_GRID, "target_radius", "native"),
    "stack": (*_STACK, "knots", "products", "ramp"),
    "forward_mode": (*_STACK, "attention"),
}
"""Options that mean something to each compiler."""


def compile(
    problem: Problem,
    optimizer: SGD | GD | Newton | PreconditionedGD,
    *,
    temperature: Temperature = "spectral",
    n_grid: int | None = None,
    rho: float | None = None,
    margin: float | None = None,
    radius: float | None = None,
    target_radius: float | None = None,
    native: bool | None = None,
    head_error: float | None = None,
    method: Method | None = None,
    n_relu: int | None = None,
    knots: Literal["uniform", "adaptive"] | None = None,
    products: Literal["exact", "attention"] | None = None,
    attention: Literal["relu", "tanh", "sigmoid", "linear"] | None = None,
    signal_radius: float | None = None,
    ramp: float | None = None,
    n_examples: int | None = None,
    mode: Literal["spectral", "sym", "four", "printed"] | None = None,
    sink: float | None = None,
    scale: float | None = None,
    causal: bool = False,
    dtype: torch.dtype = torch.float64,
) -> Program:
    """Compile a problem and an optimizer into a frozen transformer with explicit weights.

    Statement: [COT] Proposition 4.4

    problem      a Network with SGD or GD, or a linear model (GLM, Ridge, Lasso, LinearModel) with GD
    method       for networks: "cot", one layer and a chain of thought (SGD); "stack", 2N+4 layers a step
                 by backpropagation (GD); "forward_mode", N layers a step by forward differentiation (GD).
                 "cot" for SGD and "stack" for GD unless given
    The next five are for method="cot" and linear models:
    temperature  "spectral" (exact to machine precision) or "hard" (the paper's nearest grid token)
    n_grid       grid tokens per head; 32 for networks and squares, more for fitted functions
    rho, margin  kernel width in grid spacings, and distance in widths from the range to the grid's end
    radius       certified range |s| <= radius of every number a head reads; for networks 1024 in
                 float64 and 128 in float32 (`Network.radius_for` gives a provable one)
    head_error   refuse to compile unless one head is certified to this error
    For linear models only:
    target_radius  range of targets, where a head reads them
    native         False: sigmoid and exp by a fitted grid instead of their two-token heads
    For methods "stack" and "forward_mode":
    n_relu         units of every fitted function (256); exact functions (ReLU, squares) need one or two
    knots          "adaptive" (denser where the function bends) or "uniform"; stack only
    products       "exact" (multiplication layers) or "attention" (3N+4 plain layers); stack only
    attention      "relu", "tanh" or "sigmoid" heads; forward_mode only
    radius         range of pre-activations in which fits are certified: 32 for a stack with adaptive knots and
                   a loss that is exact or logistic, which standardised data keep to; else 8
    signal_radius  range of signals or derivatives, where those are fitted
    ramp           width of the ramp that stands for a ReLU's step, a power of two (2^-20); narrower is
                   rarer to meet, and rounds more where tokens are summed literally; stack only
    target_radius  range of targets, where the loss is fitted
    n_examples     the prompt's rows beside one token that asks (`run(..., query=x)`), as the papers have
                   it; unless given any number of rows, and none that asks
    For regressions that loop (RepresentationRegression, LinearRegression, Autoregression, MLPChain):
    mode           how products are computed: "spectral" (exact to rounding), or two or four softmax heads
                   in their linear range, "sym", "four", "printed"
    sink, scale    C and c of the linear range, chosen from the problem's radius unless given
    causal         a decoder: every token sees only tokens before it (LinearRegression)
    attention      "linear": linear attention that appends one token a step (LinearRegression)
    The weights depend on nothing else: not on data, not on initial weights.

    Differs from the paper: exact to rounding at about 28 tokens, where Lemma A.5 needs 1/error.

    >>> import icgd
    >>> icgd.compile(icgd.Network((2, 3, 1)), icgd.SGD(lr=0.1)).certificate.sup_error < 1e-10
    True
    >>> icgd.compile(icgd.Network((2, 3, 1), "tanh"), icgd.GD(lr=0.1), method="stack").step.n_layers
    8
    >>> icgd.compile(icgd.Lasso(3, lam=0.1), icgd.GD(lr=0.5)).certificate.sup_error < 1e-10
    True
    """
    if not isinstance(problem, (Network, LinearModel, *REGRESSIONS)):
        raise InvalidParameter(
            "problem",
            type(problem).__name__,
            "be an icgd.Network, a linear model (icgd.GLM, ...) or a regression (icgd.LinearRegression, ...)",
            remedy="A compiler sees widths and kinds, no weights: icgd.Network((10, 16, 1), 'relu')."
            if isinstance(problem, torch.nn.Module)
            else "",
        )
    if not isinstance(optimizer, (SGD, GD, Newton, PreconditionedGD)):
        raise no_optimizer(optimizer)
    if dtype not in DEFAULTS:
        raise InvalidParameter("dtype", dtype, "be torch.float64 or torch.float32")
    ranges = {
        name: None if value is None else _number(name, value)
        for name, value in (
            ("rho", rho),
            ("margin", margin),
            ("radius", radius),
            ("head_error", head_error),
            ("target_radius", target_radius),
            ("signal_radius", signal_radius),
            ("ramp", ramp),
            ("sink", sink),
            ("scale", scale),
        )
    }
    given = {
        "temperature": None if temperature == "spectral" else temperature,
        "n_grid": n_grid,
        "native": native,
        "n_relu": n_relu,
        "knots": knots,
        "products": products,
        "attention": attention,
        "n_examples": n_examples,
        "mode": mode,
        "causal": causal or None,
        **ranges,
    }
    if isinstance(problem, REGRESSIONS):
        return compile_regression(problem, optimizer, dtype, given, method)
    kind = _kind(problem, optimizer, method)
    for name, value in given.items():
        if value is not None and name not in OPTIONS[kind]:
            raise InvalidParameter(name, value, f"be left out for {KINDS[kind]}")
    options: dict[str, Any] = {name: given[name] for name in OPTIONS[kind]}
    if kind in ("cot", "linear"):
        options["temperature"] = temperature
    if isinstance(problem, LinearModel):
        return compile_statistics(problem, optimizer, dtype, options)  # type: ignore[arg-type]
    made = {"cot": _compile_network, "stack": compile_stack, "forward_mode": compile_forward_mode}
    return made[kind](problem, optimizer, dtype, options)


def _kind(problem: Network | LinearModel, optimizer: object, method: object) -> str:
    """Which compiler is meant."""
    if method is not None and method not in METHODS:
        raise InvalidParameter("method", method, f"be one of {', '.join(METHODS)}")
    if isinstance(problem, LinearModel):
        if method is not None:
            raise InvalidParameter("method", method, "be left out for a linear model")
        return "linear"
    return str(method or ("stack" if isinstance(optimizer, GD) else "cot"))


def _compile_network(
    problem: Network, optimizer: object, dtype: torch.dtype, given: Mapping[str, Any]
) -> Program:
    if not isinstance(optimizer, SGD):
        raise InvalidParameter(
            "optimizer",
            type(optimizer).__name__,
            "be an icgd.SGD for method='cot'",
            remedy="Full-batch icgd.GD is compiled by method='stack' or 'forward_mode'.",
        )
    found = problem.spec
    if found.activation != "relu" or found.loss.name != "squared":
        raise InvalidParameter(
            "problem",
            problem,
            "be a ReLU network with the squared loss for method='cot'",
            remedy="Other activations and losses: icgd.GD with method='stack' or 'forward_mode'.",
        )
    options: dict[str, Any] = {"n_grid": 32, **DEFAULTS[dtype]}
    options |= {name: value for name, value in given.items() if value is not None}
    wanted = options.pop("head_error", None)
    spec = problem.spec
    described = {
        "widths": list(spec.widths),
        "activation": spec.activation,
        "output": spec.output,
        "bias": spec.bias,
    }
    config = make_config(
        NAME,
        dtype,
        problem=described,
        optimizer={"name": "SGD", "lr": optimizer.lr},
        options=options,
    )
    if not grid_violations(**options):
        check_size(config)  # before a grid that is out of all proportion is called imprecise
    raise_all(_violations(options, wanted, dtype))
    return build(config)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidParameter(name, value, "be a number")
    try:
        return float(value)
    except OverflowError:
        raise InvalidParameter(name, value, "be a finite number") from None


def _violations(options: Mapping[str, Any], wanted: float | None, dtype: torch.dtype) -> list[str]:
    """Every assumption these options break, so that all are reported at once."""
    found = grid_violations(**options)
    radius = options["radius"]
    capacity = CAPACITY[dtype]
    if radius > capacity / 4:
        found.append(
            f"`radius` must be <= {capacity / 4:g} in {dtype}, so that gates can shut every value out. "
            f"Got {radius:g}. Standardise the data."
        )
    if wanted is not None and not wanted > 0:
        found.append(f"`head_error` must be > 0. Got {wanted!r}.")
    if found:
        return found
    u = torch.finfo(dtype).eps / 2
    reached = head_error(make_geometry(**options), radius, u)
    if not math.isfinite(reached):
        found.append(
            f"rho={options['rho']:g} with margin={options['margin']:g} certifies nothing: the kernel is too "
            "narrow or its margin too small. Raise `rho` (1.4) or `margin` (8.25)."
        )
    elif wanted is not None and reached > wanted:
        found.append(
            f"`n_grid`={options['n_grid']} with rho={options['rho']:g}, margin={options['margin']:g} is "
            f"certified to {reached:.2g} on |s| <= {radius:g}; the wanted error is {wanted:.2g}. "
            f"{_remedy(wanted, radius, u)}"
        )
    return found


def _remedy(wanted: float, radius: float, unit_roundoff: float) -> str:
    try:
        g = grid_for_error(wanted, radius, unit_roundoff)
    except ValueError as error:
        return str(error)
    return f"Use n_grid={g.n_grid}, rho={g.rho:.3g}, margin={g.margin:.3g}."


def build(config: Mapping[str, Any]) -> Program:
    """The program a config describes; used by compile and when loading from disk."""
    check_size(config)
    problem = config["problem"]
    spec = Network(
        tuple(problem["widths"]), problem["activation"], problem["output"], problem["bias"]
    ).spec
    dtype = DTYPES[config["dtype"]]
    geometry = make_geometry(**config["options"])
    layer = universal_layer(spec, SGD(config["optimizer"]["lr"]), LayerOptions(geometry, dtype))
    program = Program(
        config=own_config(config),
        step=layer,
        mask=DynamicMask(spec.n_layers),
        layout=block_layout(spec),
        codec=NetworkCodec(
            spec,
            geometry,
            CAPACITY[dtype],
            [layer.attention.like],
            reads_pairs=geometry.temperature == "spectral"
            and isinstance(layer.attention, GridAttention)
            and layer.attention.reads_pairs(geometry.radius),
        ),
        certificate=head_certificate(geometry, dtype),
        slope=layer_slope(spec, geometry.radius, dtype),
    )
    return program.requires_grad_(False)


Program.builders[NAME] = build
