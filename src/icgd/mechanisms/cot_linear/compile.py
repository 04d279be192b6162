"""(linear model, GD) -> Program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import torch

from icgd.errors import AssumptionViolated, InvalidParameter, raise_all
from icgd.mechanisms.cot_linear.codec import LinearModelCodec
from icgd.mechanisms.cot_linear.construction import COT_LINEAR
from icgd.mechanisms.cot_linear.layer import (
    LinearHeadOptions,
    Tables,
    block_layout,
    make_tables,
    prediction_layer,
    target_table,
    update_layer,
)
from icgd.mechanisms.cot_linear.options import LinearModelOptions
from icgd.problems import GD, LinearModel, LinearModelSpec
from icgd.problems.losses import built_in
from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.heads.link_head import GridOptions, HeadTable, identity_table
from icgd.transformer.gadgets.heads.spectral_theory import grid_violations
from icgd.transformer.mask_rules import WindowMask
from icgd.transformer.program import Blueprint, Program

LINEAR = {torch.float64: (1.4, 8.25, 1024.0), torch.float32: (1.4, 6.0, 128.0)}
"""rho, margin and radius of the identity head, as for networks."""


def defaults(spec: LinearModelSpec, dtype: torch.dtype) -> dict[str, Any]:
    """n_grid, rho, margin and radius that suit a loss.

    A fitted function needs its grid where the function happens, so its radius is small; a corner is
    read best by a narrow kernel and many tokens; a product grid has the square of n_grid tokens.
    """
    rho, margin, radius = LINEAR[dtype]
    if spec.loss.name == "squared":
        return {"n_grid": 32, "rho": rho, "margin": margin, "radius": radius}
    if spec.loss.kinked:
        return {"n_grid": 512, "rho": 0.6, "margin": 5.0, "radius": 16.0}
    if spec.loss.form == "joint":
        return {"n_grid": 96, "rho": 1.2, "margin": 6.5, "radius": 4.0}
    return {"n_grid": 128, "rho": rho, "margin": margin, "radius": 8.0}


def choose(
    problem: LinearModel, optimizer: object, given: LinearModelOptions, dtype: torch.dtype
) -> Blueprint:
    """Check every option, fill in the others, and fit what is to be fitted.

    Statement: [COT] Theorem 3.1

    Differs from the paper: one or two heads per example, each exact to rounding.
    """
    if not isinstance(optimizer, GD):
        raise InvalidParameter(
            "optimizer", type(optimizer).__name__, f"be an icgd.GD for {type(problem).__name__}"
        )
    spec = problem.spec
    chosen = {
        **defaults(spec, dtype),
        "temperature": "spectral",
        "target_radius": None,
        "native": True,
    }
    chosen |= {name: value for name, value in asdict(given).items() if value is not None}
    wanted = chosen.pop("head_error", None)
    native = chosen["native"] and chosen["temperature"] == "spectral"
    if native and spec.loss.name == "poisson" and given.radius is None:
        chosen["radius"] = 32.0
    if chosen["target_radius"] is None:
        chosen["target_radius"] = _target_radius(spec, chosen, dtype)
    grid = {name: chosen[name] for name in ("n_grid", "rho", "margin", "radius", "temperature")}
    violations = grid_violations(**grid)
    if not (math.isfinite(chosen["target_radius"]) and chosen["target_radius"] > 0):
        violations.append(
            f"`target_radius` must be a finite number > 0. Got {chosen['target_radius']!r}."
        )
    raise_all(violations)
    lr = 1.0 / problem.smoothness() if optimizer.lr == "auto" else float(optimizer.lr)
    blueprint = Blueprint(COT_LINEAR, problem, GD(lr), chosen, dtype)
    blueprint.check()
    tables = make_tables(spec, head_options(blueprint))
    reached = tables.slope.certificate.sup_error
    if wanted is not None and reached > wanted:
        raise AssumptionViolated(
            f"The {spec.loss.name} head with n_grid={chosen['n_grid']} on |s| <= {chosen['radius']:g} is "
            f"certified to {reached:.2g}; the wanted error is {wanted:.2g}. Raise n_grid, or compile with a "
            "smaller radius."
        )
    if not math.isfinite(reached) or reached > 1.0 + float(tables.slope.values.abs().max()):
        raise AssumptionViolated(
            f"The slope of {spec.loss.name!r} cannot be read off this grid: its certificate is {reached:.2g}. "
            "Is it smooth on |s| <= radius? Otherwise say kinked=True, or compile with a smaller radius."
        )
    if built_in(spec.loss.name) is None:
        # A function of the user's own: its fitted tokens are kept, so that the program can be loaded.
        return replace(blueprint, fitted={"slope": _stored(tables.slope)})
    return blueprint


def _target_radius(spec: LinearModelSpec, chosen: Mapping[str, Any], dtype: torch.dtype) -> float:
    """Labels are 0 or 1. Reading a large range costs nothing in spectral mode, digits in hard mode."""
    if spec.loss.name == "logistic":
        return 1.0
    if spec.loss.form == "link" and chosen["temperature"] == "spectral":
        return LINEAR[dtype][2]
    return float(chosen["radius"])


def head_options(blueprint: Blueprint) -> LinearHeadOptions:
    """The heads a blueprint describes."""
    o = blueprint.options
    grid = GridOptions(
        o["n_grid"], o["rho"], o["margin"], o["radius"], o["temperature"], blueprint.dtype
    )
    plain = grid
    if grid.temperature == "spectral" and blueprint.problem.spec.loss.name != "squared":
        # Passing a number on needs few tokens, whatever the loss takes.
        rho, margin, _ = LINEAR[grid.dtype]
        plain = replace(grid, n_grid=32, rho=rho, margin=margin)
    return LinearHeadOptions(grid, plain, o["target_radius"], bool(o["native"]))


def _stored(table: HeadTable) -> dict[str, Any]:
    c = table.certificate
    return {
        "rates": [rate.tolist() for rate in table.rates],
        "offset": table.offset.tolist(),
        "values": table.values.tolist(),
        "radius": table.radius,
        "error": c.sup_error,
        "rigorous": c.rigorous,
    }


def _restored(fitted: Mapping[str, Any]) -> HeadTable:
    """Tokens as `_stored` wrote them."""
    as64 = {key: torch.tensor(fitted[key], dtype=torch.float64) for key in ("offset", "values")}
    return HeadTable(
        tuple(torch.tensor(rate, dtype=torch.float64) for rate in fitted["rates"]),
        as64["offset"],
        as64["values"],
        fitted["radius"],
        Certificate(
            "stored_head",
            fitted["radius"],
            fitted["error"],
            math.inf,
            float(as64["values"].abs().max()),
            as64["offset"].numel(),
            fitted["rigorous"],
        ),
    )


def _tables(blueprint: Blueprint, options: LinearHeadOptions) -> Tables:
    """The heads' tokens: fitted again from a loss that is known, restored for a user's own."""
    spec = blueprint.problem.spec
    if not blueprint.fitted:
        return make_tables(spec, options)
    slope = _restored(blueprint.fitted["slope"])
    if spec.loss.form == "link":
        return Tables(slope, target_table(options), slope)
    return Tables(slope, None, identity_table(options.plain))


def build(blueprint: Blueprint) -> Program:
    """The program a blueprint describes."""
    spec, options = blueprint.problem.spec, head_options(blueprint)
    tables = _tables(blueprint, options)
    layer = update_layer(spec, blueprint.optimizer.lr, tables, options)
    return Program(
        blueprint,
        step=layer.watched(smaller="fewer examples"),
        readout=prediction_layer(spec, tables, options),
        mask=WindowMask(),
        layout=block_layout(spec),
        codec=LinearModelCodec(spec, options, tables, [layer.attention.like]),
        certificate=tables.slope.certificate,
    )
