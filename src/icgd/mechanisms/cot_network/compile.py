"""(ReLU network, SGD) -> Program: one layer and a chain of thought."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from icgd.errors import InvalidParameter, raise_all
from icgd.mechanisms.cot_network.codec import NetworkCodec
from icgd.mechanisms.cot_network.construction import COT_NETWORK
from icgd.mechanisms.cot_network.layer import (
    CAPACITY,
    LayerOptions,
    block_layout,
    layer_slope,
    universal_layer,
)
from icgd.mechanisms.cot_network.options import CotOptions
from icgd.mechanisms.cot_network.rounding import GridRounding
from icgd.problems import SGD, Network
from icgd.transformer.gadgets.heads.spectral_head import head_certificate
from icgd.transformer.gadgets.heads.spectral_theory import (
    grid_for_error,
    grid_violations,
    head_error,
    make_geometry,
)
from icgd.transformer.mask_rules import DynamicMask
from icgd.transformer.nn.chain.grid_attention import GridAttention
from icgd.transformer.program import Blueprint, Program

DEFAULTS: dict[torch.dtype, dict[str, float]] = {
    torch.float64: {"rho": 1.4, "margin": 8.25, "radius": 1024.0},
    # Fewer digits need smaller margins; a larger radius would cost digits. At this rho no exponential
    # overflows in float32, so that numbers are read with a small relative error.
    torch.float32: {"rho": 1.4, "margin": 6.0, "radius": 128.0},
}


def choose(problem: Network, optimizer: object, given: CotOptions, dtype: torch.dtype) -> Blueprint:
    """Check every option and fill in the others."""
    if not isinstance(optimizer, SGD):
        raise InvalidParameter(
            "optimizer",
            type(optimizer).__name__,
            "be an icgd.SGD for method='cot'",
            remedy="Full-batch icgd.GD is compiled by method='stack' or 'forward_mode'.",
        )
    spec = problem.spec
    if spec.activation != "relu" or spec.loss.name != "squared":
        raise InvalidParameter(
            "problem",
            problem,
            "be a ReLU network with the squared loss for method='cot'",
            remedy="Other activations and losses: icgd.GD with method='stack' or 'forward_mode'.",
        )
    options: dict[str, Any] = {"n_grid": 32, **DEFAULTS[dtype], "temperature": "spectral"}
    options |= {name: value for name, value in asdict(given).items() if value is not None}
    wanted = options.pop("head_error", None)
    blueprint = Blueprint(COT_NETWORK, problem, optimizer, options, dtype)
    if not grid_violations(**options):
        blueprint.check()  # before a grid that is out of all proportion is called imprecise
    raise_all(_violations(options, wanted, dtype))
    return blueprint


def _violations(options: Mapping[str, Any], wanted: float | None, dtype: torch.dtype) -> list[str]:
    """Every assumption these options break, so that all are reported at once."""
    violations = grid_violations(**options)
    radius = options["radius"]
    capacity = CAPACITY[dtype]
    if radius > capacity / 4:
        violations.append(
            f"`radius` must be <= {capacity / 4:g} in {dtype}, so that gates can shut every value out. "
            f"Got {radius:g}. Standardise the data."
        )
    if wanted is not None and not wanted > 0:
        violations.append(f"`head_error` must be > 0. Got {wanted!r}.")
    if violations:
        return violations
    u = torch.finfo(dtype).eps / 2
    reached = head_error(make_geometry(**options), radius, u)
    if not math.isfinite(reached):
        violations.append(
            f"rho={options['rho']:g} with margin={options['margin']:g} certifies nothing: the kernel is too "
            "narrow or its margin too small. Raise `rho` (1.4) or `margin` (8.25)."
        )
    elif wanted is not None and reached > wanted:
        violations.append(
            f"`n_grid`={options['n_grid']} with rho={options['rho']:g}, margin={options['margin']:g} is "
            f"certified to {reached:.2g} on |s| <= {radius:g}; the wanted error is {wanted:.2g}. "
            f"{_remedy(wanted, radius, u)}"
        )
    return violations


def _remedy(wanted: float, radius: float, unit_roundoff: float) -> str:
    try:
        g = grid_for_error(wanted, radius, unit_roundoff)
    except ValueError as error:
        return str(error)
    return f"Use n_grid={g.n_grid}, rho={g.rho:.3g}, margin={g.margin:.3g}."


def build(blueprint: Blueprint) -> Program:
    """The program a blueprint describes.

    Statement: [COT] Proposition 4.4

    Differs from the paper: exact to rounding at about 28 tokens, where Lemma A.5 needs 1/error.
    """
    spec, dtype = blueprint.problem.spec, blueprint.dtype
    geometry = make_geometry(**blueprint.options)
    layer = universal_layer(spec, blueprint.optimizer, LayerOptions(geometry, dtype))
    rounding = GridRounding(
        spec,
        geometry,
        CAPACITY[dtype],
        dtype,
        reads_pairs=geometry.temperature == "spectral"
        and isinstance(layer.attention, GridAttention)
        and layer.attention.reads_pairs(geometry.radius),
    )
    return Program(
        blueprint,
        step=layer.watched(
            slope=layer_slope(spec, geometry.radius, dtype),
            rounding=rounding,
            smaller="widths of at most about 24",
        ),
        mask=DynamicMask(spec.n_layers),
        layout=block_layout(spec),
        codec=NetworkCodec(spec, geometry, [layer.attention.like]),
        certificate=head_certificate(geometry, dtype),
    )
